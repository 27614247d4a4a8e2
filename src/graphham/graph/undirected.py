"""The same graph without directions."""

from __future__ import annotations

import numpy as np

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
