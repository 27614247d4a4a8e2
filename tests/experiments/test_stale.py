"""The plan of what the present code makes old."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments import few_labels
from experiments.cell_file import read_cells, run, stale_cells
from experiments.stale import Costs, cost_of, counts, stale_parts, stale_text
from experiments.stored import write_stored
from experiments.studies import load_study
from experiments.versions import cell_version, table_version
from graphham.datasets.catalog import CATALOG
from graphham.evaluate.cells import Cell, Record
from graphham.evaluate.code_version import definitions_of


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
    part = next(p for p in stale_parts(tmp_path, ["table2"]) if p.method == "sgc")
    parts = [part]
    assert [(p.study, p.current, p.stale) for p in parts] == [("table2", 1, 2)]
    assert part.commits == {"abc"}
    # Stale ones cost what they cost; missing ones on Cora the mean of those alike, 2 s, and others
    # that by their nodes and links.
    todo = [c for c in load_study("table2", methods=["sgc"]).cells if c.key not in records]
    assert part.missing == len(todo)
    size = {name: CATALOG[name].nodes + CATALOG[name].edges for name in CATALOG}
    likely = sum(2 * size[cell.graph] / size["cora"] for cell in todo)
    assert part.seconds == pytest.approx(2 + 3 + likely)
    assert counts(parts) == (1, 3)
    text = stale_text(parts)
    assert "table2: 1 of 3 stored cells are of the present version" in text
    assert "graphham reproduce table2 --renew --methods sgc  (of abc)" in text


def test_costs_are_of_the_processor_and_shared_fits_count_once() -> None:
    cells = [Cell("classify", "cora", "folds", "spacene", fold=fold) for fold in range(3)]
    known = [record(cell, None, 30.0) for cell in cells]
    for one in known[1:]:
        one["cost"]["shared_seconds"] = 28.0
    assert [cost_of(one) for one in known] == [30, 2, 2]
    known[1]["cost"]["cpu_seconds"] = 1.5
    costs = Costs(known)
    # A busy clock counts only where nobody looked at the processor.
    assert [costs.of(cell, one) for cell, one in zip(cells, known, strict=True)] == [1.5, 1.5, 1.5]
    slow = Costs([known[0]])
    assert slow.of(cells[2]) == 30
    assert slow.of(Cell("classify", "cora", "folds", "spacene", budget=2)) == 60
    larger = slow.of(Cell("classify", "facebook", "folds", "spacene"))
    assert larger / 30 == pytest.approx((22_470 + 170_823) / (2_708 + 5_278))
    ours = Costs([record(Cell("classify", "cora", "folds", "graphham"), None, 9.0)])
    assert ours.of(Cell("classify", "cora", "folds", "graphham-no-q")) == 9
    assert ours.of(Cell("portrait", "cora", "embed", "graphham")) == 9


def test_cells_of_few_labels_are_no_work_for_a_table(tmp_path: Path) -> None:
    cell = Cell("classify", "cora", "folds", "sgc")
    (tmp_path / "few_labels.jsonl").write_text(json.dumps(record(cell, "f00", 2.0)) + "\n")
    parts = {p.study: p for p in stale_parts(tmp_path) if p.method == "sgc"}
    assert parts["few_labels"].stale == 1
    named = load_study("table2", methods=["sgc"]).cells
    assert parts["table2"].missing == len(named) - 1


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


def test_a_learned_cell_has_a_version_of_its_own_and_leaves_others_theirs():
    learned = Cell("links", "cora", "links+learned", "gat")
    plain = Cell("links", "cora", "links", "gat")
    assert table_version(plain) == cell_version(plain)
    assert table_version(learned) != table_version(plain)
    # What measures it is another root, so it ages with the scorer.
    scorer = ["graphham.evaluate.learned_links:measure_learned_links"]
    assert "graphham.evaluate.learned_links:learned_scores" in definitions_of(scorer)
