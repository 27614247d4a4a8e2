"""Building rows, counting components and triangles: against slow, obvious versions."""

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphham.graph.csr import count_components, mean_clustering, pair_keys, rows_from_keys
from graphham.graph.graph import build_graph


@st.composite
def pairs(draw: st.DrawFn) -> tuple[int, np.ndarray]:
    num_nodes = draw(st.integers(1, 14))
    node = st.integers(0, num_nodes - 1)
    listed = draw(st.lists(st.tuples(node, node), max_size=60))
    return num_nodes, np.array(listed, dtype=np.int64).reshape(-1, 2)


@given(pairs())
def test_rows_equal_the_general_builder(drawn: tuple[int, np.ndarray]) -> None:
    num_nodes, ends = drawn
    indptr, indices = rows_from_keys(pair_keys(ends[:, 0], ends[:, 1], num_nodes), num_nodes)
    expected = build_graph(ends[:, 0], ends[:, 1], num_nodes)
    np.testing.assert_array_equal(indptr, expected.indptr)
    np.testing.assert_array_equal(indices, expected.indices)


@given(pairs())
def test_components_and_clustering_equal_networkx(drawn: tuple[int, np.ndarray]) -> None:
    num_nodes, ends = drawn
    graph = build_graph(ends[:, 0], ends[:, 1], num_nodes)
    reference = nx.Graph()
    reference.add_nodes_from(range(num_nodes))
    reference.add_edges_from(graph.edge_list().tolist())
    assert count_components(graph.indptr, graph.indices) == nx.number_connected_components(
        reference
    )
    assert np.isclose(
        mean_clustering(graph.indptr, graph.indices), nx.average_clustering(reference)
    )
