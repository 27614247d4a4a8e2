"""Cells have keys of their own, claims keep others out, damaged records are refused."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.evaluate.cells import Cell, CellStore, read_record
from graphham.evaluate.running import run_cells
from graphham.system.console import Screen
from tests.other_systems import needs_locks

QUIET = Screen(quiet=True)


def cells(count: int = 4) -> list[Cell]:
    return [Cell("classify", "toy", "folds", "m", seed=s) for s in range(count)]


def answer(cell: Cell, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"metrics": {"accuracy": cell.seed / 10}}, {"level_1": np.array([cell.seed])}


def test_keys_tell_different_cells_apart() -> None:
    plain = Cell("classify", "cora", "folds", "gat", 1, 2)
    assert plain.key == "classify/cora/folds/gat/seed1-fold2"
    others = [
        Cell("classify", "cora", "folds", "gat", 1, 2, budget=2),
        Cell("classify", "cora", "folds", "gat", 1, 2, folds=3),
        Cell("classify", "cora", "folds", "gat", 1, 2, settings={"dim": 64}),
        Cell("classify", "cora", "folds", "gat", 1, 3),
    ]
    assert len({c.key for c in [plain, *others]}) == 5
    assert all(Cell.from_dict(json.loads(json.dumps(c.to_dict()))).key == c.key for c in others)
    assert ".." not in Cell("classify", "../../x y", "folds", "m").key


@needs_locks
def test_a_claim_keeps_others_out_until_its_process_dies(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from graphham.evaluate.cells import Cell, CellStore\n"
        "cell = Cell('classify', 'toy', 'folds', 'm', seed=0)\n"
        "with CellStore(sys.argv[1]).claim(cell) as ours:\n"
        "    print(ours, flush=True)\n"
        "    time.sleep(60)\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline().strip() == "True"
        store = CellStore(tmp_path)
        with store.claim(cells()[0]) as ours:
            assert not ours
        assert f"process {other.pid} on " in store.holder(cells()[0])
        outcome = run_cells(cells(2), store, QUIET, work=answer, wait=False)
        assert list(outcome.records) == [cells()[1].key]
        other.kill()
        other.wait()
        assert (store.place(cells()[0]) / "claim").exists()  # the dead cannot tidy up
        assert len(run_cells(cells(2), store, QUIET, work=answer).records) == 2
    finally:
        other.kill()
        other.wait()
        assert other.stdout is not None
        other.stdout.close()


def test_damaged_and_foreign_records_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "cell.json"
    for text, message in (
        ("{", "cannot be read"),
        ("[]", "not a graphham cell"),
        ('{"format": "graphham-cell", "version": 99}', "newer"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            read_record(path)
