"""The floors against what others compute: networkx, scikit-learn, dense algebra."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression as SkLogistic

from graphham.errors import InputError
from graphham.graph.graph import Labels, build_graph
from graphham.graph.planted import planted_hierarchy
from graphham.methods.deepwalk import DeepWalk
from graphham.methods.linear import LogisticRegression, SmoothedRegression
from graphham.methods.logistic import Operator, fit_logistic
from graphham.methods.sparse_dots import SparseRows, smoothed_rows, walk_matrix
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


@given(seed=st.integers(0, 1000))
def test_pair_dots_equal_the_dense_product(seed: int) -> None:
    draw = np.random.default_rng(seed)
    dense = draw.normal(size=(6, 9)) * (draw.random((6, 9)) < 0.4)
    pairs = draw.integers(6, size=(20, 2))
    found = SparseRows(sp.csr_matrix(dense)).dots(pairs)
    np.testing.assert_allclose(found, (dense @ dense.T)[pairs[:, 0], pairs[:, 1]], atol=1e-5)


def test_smoothing_is_the_mean_over_a_node_and_its_neighbours() -> None:
    # A path 0 - 1 - 2 and a lonely 3, one feature per node.
    graph = build_graph(np.array([0, 1]), np.array([1, 2]), 4)
    smoothed = smoothed_rows(np.eye(4), graph, 1).toarray()
    wanted = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]], float)
    np.testing.assert_allclose(
        smoothed, wanted / np.linalg.norm(wanted, axis=1, keepdims=True), rtol=1e-6
    )
    weighted = build_graph(np.array([0, 1]), np.array([1, 2]), 4, weights=np.array([10.0, 30.0]))
    rows = walk_matrix(weighted).toarray()
    np.testing.assert_allclose(rows.sum(1), 1, rtol=1e-6)
    np.testing.assert_allclose(rows[1], [10 / 60, 20 / 60, 30 / 60, 0], rtol=1e-6)
    symmetric = walk_matrix(graph, symmetric=True).toarray()
    np.testing.assert_allclose(symmetric, symmetric.T)
    np.testing.assert_allclose(symmetric[0, 1], 1 / math.sqrt(2 * 3), rtol=1e-6)


@pytest.mark.parametrize("strength", [0.1, 10.0])
def test_logistic_regression_equals_scikit_learn(strength: float) -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(150, 6))
    codes = (x[:, :3] + draw.normal(size=(150, 3))).argmax(1).astype(np.int32)
    labels = Labels(("a", "b", "c"), codes=codes)
    train = np.arange(100)
    ours = fit_logistic(Operator.of(x), labels, train, np.empty(0, np.int64), [strength])
    theirs = SkLogistic(C=strength, tol=1e-8, max_iter=1000).fit(x[:100], codes[:100])
    np.testing.assert_allclose(
        ours.scores(Operator.of(x), False), theirs.predict_proba(x), atol=2e-3
    )


def test_the_smoothed_operator_equals_smoothing_first() -> None:
    graph = planted_hierarchy((2, 3), num_nodes=120, seed=1, features="gaussian").graph
    method = SmoothedRegression(steps=2)
    x = np.asarray(graph.features, dtype=np.float64)
    joined, smooth = method._inputs(x, graph)
    dense = walk_matrix(graph).toarray()
    whole = dense @ dense @ x
    weight = np.random.default_rng(0).normal(size=(x.shape[1], 3))
    back = np.random.default_rng(1).normal(size=(120, 3))
    np.testing.assert_allclose(joined.times(weight), whole @ weight, atol=1e-4)
    np.testing.assert_allclose(joined.transposed(back), whole.T @ back, atol=1e-4)
    np.testing.assert_allclose(smooth(x), whole, atol=1e-4)


def test_smoothing_helps_where_features_are_noisy_and_links_are_not() -> None:
    graph = planted_hierarchy((2, 3), num_nodes=300, seed=1, word_on=0.08, word_off=0.04).graph
    assert graph.labels is not None
    train, test = np.arange(150), np.arange(150, 300)
    codes = graph.labels.codes
    assert codes is not None

    def accuracy(method: LogisticRegression) -> float:
        scores = method.fit(graph, task="classify", train_rows=train).class_scores_
        assert scores is not None
        return float((scores[test].argmax(1) == codes[test]).mean())

    assert accuracy(SmoothedRegression(dim=8)) > accuracy(LogisticRegression(dim=8)) + 0.2


def test_the_strength_is_chosen_on_validation_rows() -> None:
    graph = planted_hierarchy((2, 3), num_nodes=200, seed=1).graph
    method = SmoothedRegression(dim=8).fit(
        graph, task="classify", train_rows=range(100), validation_rows=range(100, 150)
    )
    tried = [
        SmoothedRegression(dim=8, strength=c)
        .fit(graph, task="classify", train_rows=range(100), validation_rows=range(100, 150))
        .validation_
        for c in (0.1, 1.0, 10.0, 100.0, 1000.0)
    ]
    assert method.validation_ == pytest.approx(max(v or 0 for v in tried), abs=0.021)
    with pytest.raises(InputError, match="strength must be above 0, got -1"):
        SmoothedRegression(strength=-1).fit(graph, task="classify")


def test_deepwalk_puts_the_two_halves_of_a_barbell_apart() -> None:
    graph = build_graph(*np.asarray(nx.barbell_graph(8, 0).edges).T, 18)
    method = DeepWalk(dim=8, walks=40, walk_length=20, window=3).fit(graph)
    half = np.arange(16) // 8
    pairs = np.array([(i, j) for i in range(16) for j in range(16) if i < j])
    scores = method.score_links(pairs)
    inside = half[pairs[:, 0]] == half[pairs[:, 1]]
    assert scores[inside].min() > scores[~inside].max()
    # Nodes 16 and 17 have no links: no position, and no similarity to anybody.
    assert not method.embedding_[16:].any()
    assert method.score_links(np.array([[16, 0], [16, 17]])).tolist() == [0.0, 0.0]
    assert method.history_[-1]["loss"] < method.history_[0]["loss"]


def test_deepwalk_walks_a_directed_graph_both_ways() -> None:
    ends = np.asarray(nx.barbell_graph(6, 0).edges).T
    one_way = build_graph(*ends, 12, directed=True)
    both = build_graph(*ends, 12)
    settings = {"dim": 4, "walks": 3, "walk_length": 5}
    np.testing.assert_array_equal(
        DeepWalk(**settings).fit(one_way).embedding_, DeepWalk(**settings).fit(both).embedding_
    )


def test_more_smoothing_reaches_further() -> None:
    graph = build_graph(np.array([0, 1, 2]), np.array([1, 2, 3]), 4, features=np.eye(4, dtype="f4"))
    pairs = np.array([[0, 2], [0, 3]])
    once = SmoothedFeatures(dim=2, scaling="none", steps=1).fit(graph).score_links(pairs)
    twice = SmoothedFeatures(dim=2, scaling="none", steps=2).fit(graph).score_links(pairs)
    # Ends of a path of three steps share nothing one step away, and something two steps away.
    assert once[1] == 0 < twice[1] < twice[0]
    assert 0 < once[0] < twice[0]
