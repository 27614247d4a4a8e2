"""The same graph without directions."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from graphham.graph.graph import Graph, build_graph


def undirected(graph: Graph) -> Graph:
    """Return the graph with every edge in both directions, so that no walk gets stuck."""
    if not graph.directed:
        return graph
    source = np.repeat(np.arange(graph.num_nodes), graph.degrees())
    return build_graph(
        source,
        graph.indices,
        graph.num_nodes,
        ids=graph.ids,
        weights=graph.weights,
        features=graph.features,
        labels=graph.labels,
    )


def link_matrix(graph: Graph) -> sp.csr_matrix:
    """Return the symmetric ``(num_nodes, num_nodes)`` float32 links, without those to oneself."""
    links = sp.csr_matrix(undirected(graph).adjacency().astype(np.float32))
    links.setdiag(0)
    links.eliminate_zeros()
    return links
