"""The plan of what the present code makes old."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments import few_labels
from experiments.cell_file import read_cells, run, stale_cells
from experiments.stale import counts, stale_parts, stale_text
from experiments.stored import write_stored
from experiments.versions import cell_version
from graphham.evaluate.cells import Cell, Record


def record(cell: Cell, code: str | None, seconds: float) -> Record:
    stamp = {"commit": "abc"} | ({} if code is None else {"code": code})
    return {
        "cell": cell.to_dict(),
        "status": "done",
        "metrics": {"accuracy": 0.5},
        "cost": {"seconds": seconds},
        "versions": stamp,
    }


def test_the_plan_counts_stale_and_missing_cells_and_their_cost(tmp_path: Path) -> None:
    cells = [Cell("classify", "cora", "folds", "sgc", fold=fold) for fold in range(5)]
    records = {
        cells[0].key: record(cells[0], cell_version(cells[0]), 1.0),
        cells[1].key: record(cells[1], "f00", 2.0),
        cells[2].key: record(cells[2], None, 3.0),
    }
    write_stored(tmp_path, records)
    parts = [p for p in stale_parts(tmp_path, ["table2"]) if p.method == "sgc"]
    assert [(p.study, p.current, p.stale) for p in parts] == [("table2", 1, 2)]
    part = parts[0]
    assert part.commits == {"abc"}
    # Stale ones cost what they cost; missing ones the mean of those most alike, all of them 2 s.
    assert part.seconds == pytest.approx(2 + 3 + 2 * part.missing)
    assert counts(parts) == (1, 3)
    text = stale_text(parts)
    assert "table2: 1 of 3 stored cells are of the present version" in text
    assert "graphham reproduce table2 --renew --methods sgc  (of abc)" in text


def test_a_file_of_cells_renews_only_stale_ones(tmp_path: Path) -> None:
    path = tmp_path / "few_labels.jsonl"
    cells = [Cell("classify", "cora", "few5", "gcn", seed=draw) for draw in range(3)]
    new = cell_version(cells[0], few_labels.measure_cell)
    lines = [record(cells[0], new, 1.0), record(cells[1], "f00", 1.0), record(cells[2], None, 1.0)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    parts = stale_parts(tmp_path, ["few_labels"])
    assert [(p.method, p.current, p.stale, p.missing) for p in parts] == [("gcn", 1, 2, 0)]
    assert parts[0].command == "python -m experiments.few_labels --stale gcn"
    assert stale_cells(path, few_labels.measure_cell, ["gat"]) == []
    todo = stale_cells(path, few_labels.measure_cell, ["gcn"])
    assert [cell.seed for cell in todo] == [1, 2]
    seen: list[int] = []

    def measure(cell: Cell) -> Record:
        seen.append(cell.seed)
        return {"metrics": {"accuracy": 0.7}}

    run(cells, path, measure, lambda _: None)
    assert seen == []
    run(todo, path, measure, lambda _: None, renew=True)
    assert seen == [1, 2]
    assert [r["metrics"]["accuracy"] for r in read_cells(path).values()] == [0.5, 0.7, 0.7]
