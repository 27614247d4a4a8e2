"""The learned link score: clues against slow versions, and what the weights can express."""

import networkx as nx
import numpy as np
import pytest

from graphham.methods.link_scorer import LinkClues, LinkWeights
from tests.reference.graphs import planted, without_features

GRAPH = planted().graph


def test_clues_are_what_they_say() -> None:
    draw = np.random.default_rng(0)
    pairs = draw.integers(GRAPH.num_nodes, size=(60, 2))
    layers = [draw.standard_normal((GRAPH.num_nodes, 5)) for _ in range(2)]
    clues = LinkClues.of(GRAPH).between(pairs, layers)
    slow = nx.from_scipy_sparse_array(GRAPH.adjacency())
    degrees = np.asarray([slow.degree(i) for i in range(GRAPH.num_nodes)])
    for (i, j), row in zip(pairs.tolist(), clues, strict=True):
        for vectors, found in zip(layers, row, strict=False):
            a, b = vectors[i], vectors[j]
            assert found == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), rel=1e-5)
        shared = set(slow[i]) & set(slow[j])
        adamic = sum(1 / np.log(max(degrees[k], 2)) for k in shared)
        assert row[-3] == pytest.approx(np.log1p(adamic), rel=1e-4)
        ends = sorted(np.log1p(degrees[[i, j]]))
        assert row[-2:] == pytest.approx(ends)


def test_a_graph_without_features_has_fewer_clues() -> None:
    bare = without_features(GRAPH)
    pairs = np.asarray([[0, 1], [2, 3]])
    layers = [np.ones((bare.num_nodes, 2))]
    assert LinkClues.of(bare).between(pairs, layers).shape == (2, 4)


def test_worth_may_bend_and_depend_on_another_clue() -> None:
    draw = np.random.default_rng(0)
    clues = draw.uniform(-1, 1, size=(4000, 2))
    # A link where the first clue is middling, or where both have the same sign.
    bump = np.abs(clues[:, 0] - 0.2) < 0.3
    for wanted in (bump, clues.prod(1) > 0):
        scores = LinkWeights.learn(clues[:2000], wanted[:2000]).score(clues[2000:])
        best = np.argsort(-scores)[: int(wanted[2000:].sum())]
        assert wanted[2000:][best].mean() > 0.85


def test_weights_and_clues_survive_saving() -> None:
    draw = np.random.default_rng(1)
    pairs = draw.integers(GRAPH.num_nodes, size=(200, 2))
    layers = [draw.standard_normal((GRAPH.num_nodes, 4))]
    clues = LinkClues.of(GRAPH)
    found = clues.between(pairs, layers)
    weights = LinkWeights.learn(found, draw.random(200) < 0.3)
    again = LinkWeights.from_state(weights.state())
    held = LinkClues.from_state(clues.state())
    assert np.array_equal(again.score(held.between(pairs, layers)), weights.score(found))
