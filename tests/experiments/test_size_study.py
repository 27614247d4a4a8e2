"""The size study: phases are taken apart, levels find their truth, and tables say what is there."""

from __future__ import annotations

import time

import numpy as np
import pytest

from experiments import size_study
from experiments.size_study import Phases, draw_graph, nearest_levels, study_cells, tables


def spend(seconds: float) -> None:
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass


def test_nested_phases_count_once() -> None:
    phases = Phases()
    inner = phases.around("inner", spend)
    with phases.part("outer"):
        spend(0.02)
        inner(0.05)
        inner(0.05)
    assert phases.seconds["inner"] == pytest.approx(0.10, abs=0.03)
    assert phases.seconds["outer"] == pytest.approx(0.02, abs=0.03)
    assert 0.01 < phases.peak["outer"] < 100


def test_a_phase_forgets_the_memory_of_the_one_before() -> None:
    phases = Phases()
    with phases.part("large"):
        np.ones(40_000_000)
    with phases.part("small"):
        np.ones(1000)
    assert phases.peak["large"] > phases.peak["small"] + 0.2


def test_every_true_level_meets_the_level_found_for_it() -> None:
    fine, coarse = np.arange(24) % 6, np.arange(24) % 6 // 3
    assert nearest_levels([fine, coarse], [fine, coarse]) == pytest.approx([1, 1])
    assert nearest_levels([fine], [fine, coarse])[1] < 0.9


def test_the_families_differ_in_words_alone() -> None:
    strong, weak = (draw_graph(family, 1000, 1) for family in size_study.FAMILIES)
    np.testing.assert_array_equal(strong.graph.indices, weak.graph.indices)
    assert strong.graph.num_features == 4 * weak.graph.num_features
    assert strong.groups == (48, 8)


def test_tables_show_phases_and_both_rivals() -> None:
    cells = study_cells(500)
    ours = {
        "seconds": {"search": 3.0, "rest": 1.0},
        "gib": {"search": 0.5},
        "groups": [48, 8],
        "used": [47, 8],
        "nmi": [0.8, 0.9],
        "context": [12.0, 10.0],
        "accuracy": {"vectors": 0.5, "smoothed": 0.4},
    }
    records = {
        cells[0].key: {
            "status": "done",
            "metrics": ours,
            "cost": {"cpu_seconds": 4.0, "gib": 0.5},
        },
        cells[1].key: {"status": "done", "metrics": {"nmi": [0.82, 0.99]}},
        cells[2].key: {"status": "refused", "reason": "no"},
    }
    quality, cost = tables(records, cells)
    assert len(quality.rows) == 1
    assert quality.rows[0]["leiden"] == "0.820 / 0.990"
    assert quality.rows[0]["context"] == "12.00 > 10.00"
    assert [row["cpu"] for row in cost.rows] == ["3.0", "0.0", "0.0", "0.0", "1.0", "4.0"]
