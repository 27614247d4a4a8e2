"""Classifiers on features, alone and smoothed over the graph."""

from __future__ import annotations

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.graph.planted import planted_hierarchy
from graphham.methods.linear import LogisticRegression, SmoothedRegression
from graphham.methods.sparse_dots import walk_matrix


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
