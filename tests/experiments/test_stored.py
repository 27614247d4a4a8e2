"""Stored cells: one line each, in the file of the first study that names them."""

import json
from pathlib import Path

import pytest

from experiments.stored import (
    OTHER,
    commits,
    gather,
    read_known,
    read_shared,
    read_stored,
    write_stored,
)
from experiments.studies import load_study, study_names
from experiments.versions import cell_version
from graphham.errors import InputError
from graphham.evaluate.cells import Cell, CellStore

RESULTS = Path(__file__).resolve().parents[2] / "experiments" / "results"


def test_a_cell_stands_once_in_the_first_study_that_names_it(tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    shared = Cell("classify", "cora", "folds", "graphham")  # of Tables 2 and 4
    ablation = Cell("classify", "cora", "folds", "graphham-no-q")
    stray = Cell("classify", "cora", "folds", "graphham", settings={"dim": 8})
    for cell in (shared, ablation, stray):
        store.write(cell, {"status": "done", "metrics": {"accuracy": 1 / 3}, "place": "x"}, {})
    count, paths = gather(tmp_path)
    assert count == 3
    assert [path.name for path in paths] == [f"{OTHER}.jsonl", "table2.jsonl", "table4.jsonl"]
    record = json.loads((tmp_path / "table2.jsonl").read_text())
    assert record == {"cell": shared.to_dict(), "status": "done", "metrics": {"accuracy": 0.33333}}
    assert set(read_stored(tmp_path)) == {shared.key, ablation.key, stray.key}
    assert set(read_stored(tmp_path, ["table4"])) == {ablation.key}


def test_a_new_measurement_takes_the_place_of_the_old(tmp_path: Path) -> None:
    cell = Cell("facts", "cora", "counts", "data")
    for value in (1, 2):
        CellStore(tmp_path).write(cell, {"status": "done", "metrics": {"nodes": value}}, {})
        gather(tmp_path)
    assert [r["metrics"] for r in read_stored(tmp_path).values()] == [{"nodes": 2}]


def test_few_labels_serve_tables_that_lack_their_cells(tmp_path: Path) -> None:
    """One fit is enough: a cell of both files is read where it is, or where it is of today."""
    cells = [Cell("classify", "cora", "folds", "sgc", fold=fold) for fold in range(3)]
    cells.append(Cell("classify", "cora", "few5", "sgc"))  # no table's
    lines = [
        {"cell": cell.to_dict(), "status": "done", "metrics": {"accuracy": 0.5}} for cell in cells
    ]
    (tmp_path / "few_labels.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    assert set(read_shared(tmp_path)) == {cell.key for cell in cells[:3]}
    own = [
        {"cell": cell.to_dict(), "status": "done", "metrics": {"accuracy": 0.9}, "versions": code}
        for cell, code in zip(cells, ({"code": cell_version(cells[0])}, {}), strict=False)
    ]
    write_stored(tmp_path, {Cell.from_dict(r["cell"]).key: r for r in own})
    gather(tmp_path)
    found = read_known(tmp_path)
    assert [found[cell.key]["metrics"]["accuracy"] for cell in cells[:3]] == [0.9, 0.5, 0.5]
    assert set(read_stored(tmp_path)) == {cells[0].key}


def test_files_without_cells_are_removed(tmp_path: Path) -> None:
    cell = Cell("facts", "cora", "counts", "data")
    write_stored(tmp_path, {cell.key: {"cell": cell.to_dict()}})
    write_stored(tmp_path, {})
    assert not list(tmp_path.iterdir())


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "table1.jsonl").write_text('{"cell": 1}\n')
    with pytest.raises(InputError, match=r"table1\.jsonl"):
        read_stored(tmp_path)


def test_commits_are_named_once() -> None:
    records = [{"versions": {"commit": c}} for c in "bab"] + [{}]
    assert commits(records) == ["a", "b"]


def test_the_stored_cells_are_sorted_and_each_stands_once() -> None:
    seen: set[str] = set()
    for name in (*study_names(), OTHER):
        keys = list(read_stored(RESULTS, [name]))
        assert keys == sorted(keys)
        assert not seen & set(keys)
        seen |= set(keys)
        if name != OTHER:
            assert set(keys) <= {cell.key for cell in load_study(name).cells}
    assert len(seen) > 800
