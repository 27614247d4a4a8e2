"""Link scores that learn nothing, against networkx and pairs counted by hand."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.graph.graph import build_graph
from graphham.graph.planted import planted_hierarchy
from graphham.methods.untrained import (
    AdamicAdar,
    CommonNeighbors,
    PlainFeatures,
    SmoothedDirections,
    SmoothedFeatures,
)


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


def test_plain_features_are_compared_by_cosine_and_links_do_not_matter() -> None:
    x = np.random.default_rng(0).random((6, 4)).astype(np.float32)
    pairs = np.array([(i, j) for i in range(6) for j in range(i)])
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    for ends in ([0, 1], [4, 5]):
        graph = build_graph(np.array(ends[:1]), np.array(ends[1:]), 6, features=x)
        scores = PlainFeatures(dim=2, scaling="none").fit(graph).score_links(pairs)
        np.testing.assert_allclose(scores, (unit @ unit.T)[pairs[:, 0], pairs[:, 1]], atol=1e-5)
    with pytest.raises(InputError, match="the graph has none; give features or choose"):
        PlainFeatures().fit(build_graph(np.array([0]), np.array([1]), 2))


def test_all_main_directions_lose_nothing() -> None:
    graph = planted_hierarchy((2, 3), num_nodes=90, seed=1, features="gaussian", dim=8).graph
    pairs = np.random.default_rng(0).integers(90, size=(40, 2))
    whole, narrow = (
        kind(dim=8).fit(graph).score_links(pairs) for kind in (SmoothedFeatures, SmoothedDirections)
    )
    np.testing.assert_allclose(narrow, whole, atol=1e-4)
    with pytest.raises(InputError, match="steps must not be negative, got -1"):
        SmoothedFeatures(steps=-1).fit(graph)


def test_in_a_directed_graph_nodes_share_whom_they_point_to() -> None:
    # 0 and 1 both point to 2; 3 and 4 are both pointed to by 0.
    graph = build_graph(np.array([0, 1, 0, 0]), np.array([2, 2, 3, 4]), 5, directed=True)
    scores = CommonNeighbors(dim=2).fit(graph).score_links(np.array([[0, 1], [3, 4]]))
    assert scores.tolist() == [1, 0]
