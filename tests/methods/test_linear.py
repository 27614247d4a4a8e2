"""Classifiers on features, alone and smoothed over the graph."""

from __future__ import annotations

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.graph.graph import build_graph
from graphham.graph.planted import planted_hierarchy
from graphham.methods.base import FitRequest
from graphham.methods.linear import (
    MLP,
    DiffusedRegression,
    LogisticRegression,
    SmoothedRegression,
    split_rows,
)
from graphham.methods.scaled_features import reduced
from graphham.methods.sparse_dots import walk_matrix
from graphham.training.supervision import Truth


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


def test_no_smoothing_is_plain_regression() -> None:
    graph = planted_hierarchy((2, 3), num_nodes=150, seed=1).graph
    plain, smoothed = (
        method.fit(graph, task="classify", train_rows=range(80), validation_rows=range(80, 110))
        for method in (LogisticRegression(dim=8), SmoothedRegression(dim=8, steps=0))
    )
    np.testing.assert_allclose(plain.class_scores_, smoothed.class_scores_, atol=1e-3)
    with pytest.raises(InputError, match="steps must not be negative, got -1"):
        SmoothedRegression(steps=-1).fit(graph, task="classify")


@pytest.mark.parametrize("kind", [LogisticRegression, MLP])
def test_features_alone_know_nothing_of_the_links(kind: type) -> None:
    truth = planted_hierarchy((2, 3), num_nodes=180, seed=1, word_on=0.3, word_off=0.03)
    other = planted_hierarchy((2, 3), num_nodes=180, seed=9).graph.edge_list()
    graph = truth.graph
    ends = {"features": graph.features, "labels": graph.labels}
    relinked = build_graph(other[:, 0], other[:, 1], 180, **ends)
    order = np.random.default_rng(0).permutation(180)
    settings = {"dim": 16, **({"epochs": 60, "lr": 0.05} if kind is MLP else {})}
    one, two = (
        kind(**settings)
        .fit(g, task="classify", train_rows=order[:90], validation_rows=order[90:120])
        .class_scores_
        for g in (graph, relinked)
    )
    np.testing.assert_array_equal(one, two)
    # Six classes: chance is 0.17.
    assert (one[order[120:]].argmax(1) == graph.labels.codes[order[120:]]).mean() > 0.5


def test_every_method_divides_the_rows_alike() -> None:
    graph = planted_hierarchy((2, 3), num_nodes=200, seed=1).graph
    training, validation = split_rows(FitRequest.checked(graph, "classify", None, None), 4)
    truth = Truth.split(graph.labels, 4, 0.1)
    assert validation.tolist() == truth.validation.tolist()
    assert sorted([*training, *validation]) == list(range(200))
    assert len(validation) == 20


def test_own_and_diffused_directions_stand_side_by_side() -> None:
    graph = planted_hierarchy((2, 3), num_nodes=120, seed=1, features="gaussian").graph
    method = DiffusedRegression(directions=5, steps=3, scaling="none")
    found = method._columns(graph)
    assert found.shape == (120, 10)
    own = reduced(np.asarray(graph.features), 5, 0)
    near = np.linalg.matrix_power(walk_matrix(graph).toarray().astype(float), 3) @ own
    for part, wanted in ((found[:, :5], own), (found[:, 5:], near)):
        unit = wanted / np.linalg.norm(wanted, axis=1, keepdims=True)
        np.testing.assert_allclose(part, unit, atol=1e-4)
    with pytest.raises(InputError, match="steps must be a whole number of at least 1, got 0"):
        DiffusedRegression(steps=0).fit(graph, task="classify")
