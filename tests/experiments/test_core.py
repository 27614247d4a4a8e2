"""The cells of the presets' differences: what they measure."""

import numpy as np
import pytest

from experiments import core
from experiments.core import measure_core
from graphham.errors import InputError
from graphham.evaluate.cells import Cell
from graphham.graph.planted import planted_hierarchy


def test_links_are_ranked_among_non_neighbours_of_the_source() -> None:
    graph = planted_hierarchy((2, 3), 120, seed=1).graph
    test = graph.edge_list()[::7]
    adjacency = graph.adjacency().toarray() > 0
    # A node's vector is its row of the adjacency and itself: neighbours score above others.
    vectors = adjacency.astype(np.float64) @ adjacency + 50 * adjacency
    chance = core._link_scores(graph, test, np.ones((120, 2)), 0)
    assert chance == pytest.approx({"auc": 0.5, "mrr": 1 / 11})
    assert core._link_scores(graph, test, vectors, 0)["auc"] > 0.6


def test_a_classified_fold_is_scored_on_its_test_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = planted_hierarchy((2, 3), 120, words=60, word_on=0.4, seed=1).graph
    monkeypatch.setattr(core, "load_graph", lambda name: graph)
    settings = {"train.epochs": 3, "groups": (6, 2), "dim": 16}
    cell = Cell("core", "toy", "classify", "tiny", 0, 1, settings=settings)
    record = measure_core(cell)
    assert 0 <= record["metrics"]["accuracy"] <= 1
    assert {"nesting", "used_share", "nmi_2_test"} <= set(record["metrics"])
    assert record["cost"]["seconds"] > 0
    assert record["metrics"] == measure_core(cell)["metrics"]


def test_unknown_protocols_are_refused() -> None:
    with pytest.raises(InputError, match="folds"):
        measure_core(Cell("core", "cora", "folds", "graphham"))
