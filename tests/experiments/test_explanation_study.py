"""The explanation study: its measures on cases that can be counted by hand, and on a real fit."""

from __future__ import annotations

import numpy as np
import pytest

from experiments import explanation_study
from experiments.explanation_study import (
    SCORES,
    effective_share,
    explanation_scores,
    fidelity,
    link_scores,
    neighborhood_auc,
    noise_auc,
    study_cells,
    tables,
)
from experiments.few_labels import with_random_links
from graphham.graph.graph import build_graph
from graphham.graph.planted import planted_hierarchy
from graphham.methods.graphham import GraphHAM


@pytest.fixture(scope="module")
def fitted():
    planted = planted_hierarchy((2, 3), 240, edge_shares=(0.8, 0.1, 0.1), seed=4)
    noisy = with_random_links(planted.graph, 50, 0)
    rows = np.arange(0, 240, 3)
    model = GraphHAM(groups=(6, 2), dim=16, epochs=30, seed=0)
    model.fit(noisy, task="classify", train_rows=rows, validation_rows=rows[:0])
    return model, planted.graph, noisy


def test_effective_neighbours_are_counted_without_single_ones() -> None:
    graph = build_graph(np.array([0, 0, 0]), np.array([1, 2, 3]), 5)
    weights = np.array([0.2, 0.2, 0.2, 0.9, 0.9, 0.9])
    assert effective_share(graph, weights) == pytest.approx(1)
    weights[:3] = [0.8, 0.0, 0.0]
    assert effective_share(graph, weights) == pytest.approx(1 / 3)


def test_ranks_inside_a_neighbourhood() -> None:
    indptr = np.array([0, 3, 5, 6])
    real = np.array([True, False, False, True, True, False])
    # Only the first node has both kinds: above one random link, level with the other.
    score = np.array([2.0, 1.0, 2.0, 0.0, 9.0, 9.0])
    assert neighborhood_auc(indptr, real, score) == pytest.approx(0.75)


def test_a_fit_on_a_noisy_tree_is_worth_explaining(monkeypatch, fitted) -> None:
    model, plain, noisy = fitted
    found = explanation_scores(model, noisy)
    assert found["parts_error"] < 1e-4
    assert found["effective_1"] < 0.95
    auc = noise_auc(model, noisy, plain)
    assert set(auc) == set(SCORES) == set(link_scores(model, noisy))
    assert auc["odds"] > 0.8
    assert auc["weight"] > 0.75
    monkeypatch.setattr(explanation_study, "_TESTED", 12)
    falls = fidelity(model, noisy, np.arange(240), 0)
    assert falls["nodes"] == 12
    assert falls["odds highest"] > falls["odds lowest"]


def test_tables_show_targets_and_ratios() -> None:
    cells = study_cells(range(2))
    records = {}
    for cell in cells:
        metrics = {"effective_1": 0.8, "effective_2": 0.9, "parts_error": 1e-6, "accuracy": 0.8}
        if "+" in cell.graph:
            metrics["auc"] = dict.fromkeys(SCORES, 0.9)
        else:
            halves = {f"{name} {half}": 0.04 for name in SCORES for half in ("highest", "lowest")}
            moved = {"random": 0.01, **halves}
            metrics["fidelity"] = {"nodes": 10, "random": 0.0, **halves, "moved": moved}
        records[cell.key] = {"status": "done", "cell": cell.to_dict(), "metrics": metrics}
    numbers, scores = tables(records, range(2))
    assert numbers.rows[0]["target"] == "<= 0.85"
    assert numbers.rows[0]["cora"] == "0.800 ± 0.000"
    assert numbers.rows[2]["cora"] == "1.0e-06"
    assert scores.rows[0]["ratio"] == "4.00"
    assert scores.rows[0]["margin"] == "+0.040 ± 0.000"
    assert scores.rows[-1]["auc"] == ">= 0.90"
