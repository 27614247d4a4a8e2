"""Cells are measured once, by one process, whole or not at all."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.evaluate.cells import Cell, CellStore, read_record
from graphham.evaluate.running import noticing_stops, run_cells
from graphham.system.console import Screen

QUIET = Screen(quiet=True)


def cells(count: int = 4) -> list[Cell]:
    return [Cell("classify", "toy", "p2", "m", seed=s) for s in range(count)]


def answer(cell: Cell, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"metrics": {"accuracy": cell.seed / 10}}, {"level_1": np.array([cell.seed])}


def test_keys_tell_different_cells_apart() -> None:
    plain = Cell("classify", "cora", "p2", "gat", 1, 2)
    assert plain.key == "classify/cora/p2/gat/seed1-fold2"
    others = [
        Cell("classify", "cora", "p2", "gat", 1, 2, budget=2),
        Cell("classify", "cora", "p2", "gat", 1, 2, folds=3),
        Cell("classify", "cora", "p2", "gat", 1, 2, settings={"dim": 64}),
        Cell("classify", "cora", "p2", "gat", 1, 3),
    ]
    assert len({c.key for c in [plain, *others]}) == 5
    assert all(Cell.from_dict(json.loads(json.dumps(c.to_dict()))).key == c.key for c in others)
    assert ".." not in Cell("classify", "../../x y", "p2", "m").key


def test_finished_cells_are_not_measured_again(tmp_path: Path) -> None:
    calls: list[int] = []

    def work(cell: Cell, **more: Any) -> Any:
        calls.append(cell.seed)
        return answer(cell)

    store = CellStore(tmp_path)
    first = run_cells(cells(2), store, QUIET, work=work)
    second = run_cells(cells(4), store, QUIET, work=work)
    assert calls == [0, 1, 2, 3]
    assert len(first.records) == 2
    assert [r["metrics"]["accuracy"] for r in second.records.values()] == [0, 0.1, 0.2, 0.3]
    assert store.read_arrays(cells()[3])["level_1"].tolist() == [3]
    assert len(store.records()) == 4
    assert not list(tmp_path.rglob("claim"))


def test_refusals_are_kept_and_failures_are_tried_again(tmp_path: Path) -> None:
    broken = [True]

    def work(cell: Cell, **more: Any) -> Any:
        if cell.seed == 0:
            raise InputError("this needs features")
        if cell.seed == 1 and broken[0]:
            raise ZeroDivisionError("oops")
        return answer(cell)

    store = CellStore(tmp_path)
    outcome = run_cells(cells(3), store, QUIET, work=work)
    assert store.read(cells()[0])["reason"] == "this needs features"
    assert list(outcome.failures) == [cells()[1].key]
    assert "ZeroDivisionError: oops" in outcome.failures[cells()[1].key]
    assert store.is_finished(cells()[2])
    broken[0] = False
    again = run_cells(cells(3), store, QUIET, work=work)
    assert not again.failures
    assert len(again.records) == 3


def test_a_stopped_cell_is_discarded_even_if_the_fit_swallowed_the_stop(tmp_path: Path) -> None:
    def work(cell: Cell, **more: Any) -> Any:
        if cell.seed == 1:
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(5)
            except KeyboardInterrupt:
                pass  # as a fit does, which returns the best state so far
        return answer(cell)

    store = CellStore(tmp_path)
    # A shell that starts the tests in the background has them ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        run_cells(cells(3), store, QUIET, work=work)
    assert [store.is_finished(c) for c in cells(3)] == [True, False, False]
    assert not list(tmp_path.rglob("claim"))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_stops_outside_are_not_noticed() -> None:
    with noticing_stops() as stopped:
        pass
    assert not stopped()


def test_a_claim_keeps_others_out_until_its_process_dies(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from graphham.evaluate.cells import Cell, CellStore\n"
        "cell = Cell('classify', 'toy', 'p2', 'm', seed=0)\n"
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


def test_two_processes_share_the_work(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from graphham.system.console import Screen\n"
        "from graphham.evaluate.cells import Cell, CellStore\n"
        "from graphham.evaluate.running import run_cells\n"
        "def work(cell, **more):\n"
        "    time.sleep(0.05)\n"
        "    with open(sys.argv[2], 'a') as log: log.write(f'{cell.seed}\\n')\n"
        "    return {'metrics': {}}, {}\n"
        "cells = [Cell('classify', 'toy', 'p2', 'm', seed=s) for s in range(12)]\n"
        "print(len(run_cells(cells, CellStore(sys.argv[1]), Screen(True), work=work).records))\n"
    )
    logs = [tmp_path / f"log{i}" for i in range(2)]
    command = [sys.executable, "-c", code, str(tmp_path / "out")]
    running = [
        subprocess.Popen([*command, str(log)], stdout=subprocess.PIPE, text=True) for log in logs
    ]
    said = [process.communicate(timeout=60)[0].strip() for process in running]
    assert said == ["12", "12"]
    done = [int(line) for log in logs if log.exists() for line in log.read_text().split()]
    assert sorted(done) == list(range(12))


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
