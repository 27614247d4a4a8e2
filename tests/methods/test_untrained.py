"""Link scores that learn nothing, against networkx and pairs counted by hand."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphham.graph.graph import build_graph
from graphham.methods.untrained import AdamicAdar, CommonNeighbors, SmoothedFeatures


@given(seed=st.integers(0, 1000), nodes=st.integers(2, 12), share=st.floats(0, 1))
def test_neighbour_scores_equal_networkx(seed: int, nodes: int, share: float) -> None:
    other = nx.gnp_random_graph(nodes, share, seed=seed)
    ends = np.asarray(list(other.edges), dtype=np.int64).reshape(-1, 2)
    graph = build_graph(ends[:, 0], ends[:, 1], nodes)
    pairs = [(i, j) for i in range(nodes) for j in range(nodes) if i < j]
    common = CommonNeighbors(dim=2).fit(graph).score_links(np.array(pairs))
    assert common.tolist() == [len(list(nx.common_neighbors(other, i, j))) for i, j in pairs]
    rare = AdamicAdar(dim=2).fit(graph).score_links(np.array(pairs))
    wanted = [
        sum(1 / math.log(other.degree(k)) for k in nx.common_neighbors(other, i, j))
        for i, j in pairs
    ]
    np.testing.assert_allclose(rare, wanted, rtol=1e-5)


def test_more_smoothing_reaches_further() -> None:
    graph = build_graph(np.array([0, 1, 2]), np.array([1, 2, 3]), 4, features=np.eye(4, dtype="f4"))
    pairs = np.array([[0, 2], [0, 3]])
    once = SmoothedFeatures(dim=2, scaling="none", steps=1).fit(graph).score_links(pairs)
    twice = SmoothedFeatures(dim=2, scaling="none", steps=2).fit(graph).score_links(pairs)
    # Ends of a path of three steps share nothing one step away, and something two steps away.
    assert once[1] == 0 < twice[1] < twice[0]
    assert 0 < once[0] < twice[0]
