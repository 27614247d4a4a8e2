"""The hierarchy study: what it compares, what a refusal looks like, and that one epoch will do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.cell_file import read_cells
from experiments.hierarchy_study import (
    find_levels,
    level_agreement,
    level_scores,
    main,
    measure_cell,
    study_cells,
    tables,
)
from graphham.evaluate.cells import Cell
from graphham.graph.planted import planted_hierarchy
from graphham.methods.registry import make_method


def test_groups_do_not_depend_on_training() -> None:
    graph = planted_hierarchy((2, 3), 240, edge_shares=(0.5, 0.3, 0.2), seed=3).graph
    whole = make_method("graphham", seed=1, groups=(6, 2), epochs=6).fit(graph)
    assert whole.levels_ is not None
    for once, often in zip(find_levels("graphham", graph, (6, 2), 1), whole.levels_, strict=True):
        np.testing.assert_array_equal(once, often)


def test_levels_are_compared_with_their_own_truth() -> None:
    fine, coarse = np.arange(12) % 4, np.arange(12) % 4 // 2
    found = level_scores([fine, 1 - coarse], [fine, coarse])
    assert found["ami_1"] == found["ami_2"] == pytest.approx(1)
    assert (found["groups_1"], found["groups_2"]) == (4, 2)
    # Where only one level was found it stands for both; unknown labels do not count.
    hidden = np.where(np.arange(12) < 2, -1, fine)
    alone = level_scores([fine], [hidden, coarse])
    assert alone["ami_1"] == pytest.approx(1)
    assert alone["ami_2"] < 0.9
    halves = [[fine, coarse], [3 - fine, coarse], [fine, 1 - coarse]]
    assert level_agreement(halves) == pytest.approx([1, 1])


def test_cells_ask_for_the_given_numbers_and_for_their_own() -> None:
    asked: list[Any] = []

    def find(method: str, graph: Any, groups: Any, seed: int) -> Any:
        asked.append((method, list(groups), seed))
        return [graph.labels.codes, graph.labels.codes // 4]

    cells = study_cells(["tree-70-20-10"], ["graphham", "paris"], 2)
    assert [(cell.protocol, cell.method) for cell in cells] == [
        ("given", "graphham"),
        ("given", "paris"),
        ("own", "graphham"),
    ]
    record = measure_cell(cells[0], find)
    measure_cell(cells[2], find)
    assert [(groups, seed) for _, groups, seed in asked] == [
        ([12, 3], 0),
        ([12, 3], 1),
        ([], 0),
        ([], 1),
    ]
    assert record["metrics"]["ami_1"] == record["metrics"]["ami_2"] == pytest.approx(1)
    assert "stability_1" not in record["metrics"]  # another graph with every seed
    citations = measure_cell(Cell("hierarchy", "cora", "given", "x", settings={"seeds": 2}), find)
    assert asked[-1] == ("x", [28, 7], 1)
    assert citations["metrics"]["stability_1"] == pytest.approx(1)


def test_tables_count_where_ours_is_not_ahead() -> None:
    cells = study_cells(["tree-70-20-10", "partners"], ["graphham", "paris", "umap-hdbscan"], 1)
    scores = {("tree-70-20-10", "graphham"): 0.9, ("partners", "graphham"): 0.5}
    records = {}
    for cell in cells:
        score = scores.get((cell.graph, cell.method), 0.6)
        metrics = dict.fromkeys(("ami_1", "ami_2", "groups_1", "groups_2"), score)
        done = {"status": "done", "metrics": metrics, "cost": {"cpu_seconds": 2.0}}
        records[cell.key] = done
        if cell.method == "umap-hdbscan":
            records[cell.key] = {"status": "refused", "reason": "not there"}
    given, own, _, cost, lead = tables(records, cells)
    assert [row["method"] for row in given.rows] == ["graphham", "paris"]
    assert "umap-hdbscan is skipped: not there." in given.notes
    assert own.rows[0]["partners"] == "0.500 / 0.500 (0 > 0)"
    assert cost.rows[1]["partners"] == "2.0"
    assert lead.rows[0]["planted_1"] == "+0.100 (1 of 2)"


def test_the_command_measures_and_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cells.jsonl"
    words = ["--graphs", "tree-70-20-10", "--methods", "spectral-kmeans", "umap-hdbscan"]
    words += ["--seeds", "1", "--file", str(path)]
    assert main(words) == 0
    found = list(read_cells(path).values())
    assert found[0]["metrics"]["ami_1"] > 0.9
    assert main([*words, "--show"]) == 0
    assert "spectral-kmeans" in capsys.readouterr().out
