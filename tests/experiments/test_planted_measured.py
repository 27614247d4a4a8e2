"""Graphs unlike Cora are what they say: the next class follows a law, or links say nothing."""

import numpy as np
import pytest

from experiments.planted_cases import is_planted, planted_graph
from experiments.planted_measured import MEASURED
from graphham.config.settings import make_config
from graphham.training.plan import plan_fit


@pytest.mark.parametrize("name", list(MEASURED))
def test_a_seed_draws_one_graph(name: str) -> None:
    assert is_planted(name)
    graph, (codes,) = planted_graph(name, 3)
    assert graph.labels is not None
    np.testing.assert_array_equal(graph.labels.codes, codes)
    assert planted_graph(name, 3)[0].fingerprint() == graph.fingerprint()
    assert planted_graph(name, 4)[0].fingerprint() != graph.fingerprint()


def test_along_the_line_a_class_says_what_comes_next() -> None:
    graph, (codes,) = planted_graph("chain", 3)
    table = np.zeros((12, 12))
    np.add.at(table, (codes[:-1], codes[1:]), 1)
    likeliest = table.max(1).sum() / table.sum()
    assert likeliest > 0.35 > 2 * np.bincount(codes).max() / len(codes)
    assert 2 < graph.num_stored / graph.num_nodes < 4
    assert graph.features is not None
    x = np.asarray(graph.features)
    means = np.stack([x[codes == c].mean(0) for c in range(12)])
    # A single number says little.
    assert np.abs(means).mean() < 0.3 < x.std()


def test_unlinked_classes_are_told_by_words_alone() -> None:
    graph, (codes,) = planted_graph("unlinked", 3)
    a, b = graph.edge_list().T
    assert float((codes[a] == codes[b]).mean()) == pytest.approx(0.2, abs=0.02)
    plan = plan_fit(graph, make_config({"task": "classify"}))
    assert any("links say nothing" in note for note in plan.notes)
    assert plan.config.train.feature_dropout < 0.5  # of six words


def test_measured_numbers_of_a_line_are_all_kept() -> None:
    graph, _ = planted_graph("chain", 3)
    plan = plan_fit(graph, make_config({"task": "classify"}))
    assert plan.config.train.feature_dropout == 0
    assert not any("links say nothing" in note for note in plan.notes)
