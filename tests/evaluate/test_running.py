"""Cells are measured once, refusals kept, failures tried again, stops noticed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from graphham.errors import InputError
from graphham.evaluate.cells import Cell, CellStore
from graphham.evaluate.running import measure, noticing_stops, run_cells
from tests.evaluate.test_cells import QUIET, answer, cells


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


def test_cells_of_another_version_are_renewed_when_asked(tmp_path: Path) -> None:
    calls: list[int] = []

    def work(cell: Cell, **more: Any) -> Any:
        calls.append(cell.seed)
        return answer(cell)

    store = CellStore(tmp_path)
    run_cells(cells(1), store, QUIET, work=work, version=lambda cell: "new")
    run_cells(cells(3)[1:], store, QUIET, work=work, version=lambda cell: "old")
    assert calls == [0, 1, 2]
    run_cells(cells(3), store, QUIET, work=work, version=lambda cell: "new")
    assert calls == [0, 1, 2]
    outcome = run_cells(cells(3), store, QUIET, work=work, version=lambda cell: "new", renew=True)
    assert calls == [0, 1, 2, 1, 2]
    assert {r["versions"]["code"] for r in outcome.records.values()} == {"new"}
    assert all(0 <= r["cost"]["cpu_seconds"] < 60 for r in outcome.records.values())


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
        "cells = [Cell('classify', 'toy', 'folds', 'm', seed=s) for s in range(12)]\n"
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


def test_failures_are_raised_at_the_end(tmp_path: Path) -> None:
    def work(cell: Cell, **more: Any) -> Any:
        raise ZeroDivisionError("oops")

    outcome = run_cells(cells(2), CellStore(tmp_path), QUIET, work=work)
    with pytest.raises(RuntimeError, match=r"2 cells failed.*oops"):
        outcome.raise_failures()
    run_cells(cells(1), CellStore(tmp_path / "fine"), QUIET, work=answer).raise_failures()


def test_unknown_kinds_and_graphs_are_refused() -> None:
    with pytest.raises(InputError, match="portrait"):
        measure(Cell("portrait", "cora", "embed", "graphham"))
    with pytest.raises(InputError, match="coraa"):
        measure(Cell("classify", "coraa", "folds", "sgc"))
