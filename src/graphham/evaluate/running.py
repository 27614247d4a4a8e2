"""Measure cells: find the graph, do the work, show progress, survive stops and failures."""

from __future__ import annotations

import functools
import platform
import signal
import subprocess
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphham.errors import InputError
from graphham.evaluate.cells import Cell, CellStore, Record
from graphham.evaluate.classify import Arrays
from graphham.evaluate.code_version import cell_version
from graphham.evaluate.fit_cache import Fits, together
from graphham.system.atomic import remove_folder
from graphham.system.console import clock
from graphham.version import __version__

if TYPE_CHECKING:
    from graphham.graph.graph import Graph
    from graphham.system.console import Screen

Measured = tuple[Record, Arrays]
_WAIT_SECONDS = 2.0


def measure(
    cell: Cell,
    graph: Graph | None = None,
    place: Path | None = None,
    keep: bool = False,
    fits: Fits | None = None,
) -> Measured:
    """Do the work of one cell of kind ``classify`` or ``links``.

    Args:
        cell: What to measure.
        graph: The user's graph; the dataset the cell names when not given.
        place: Folder of the cell.
        keep: Save the fitted method in ``run`` below that folder.
        fits: Fits of the cell's group that need not be made again.
    """
    graph = load_graph(cell.graph) if graph is None else graph
    saved = place / "run" if keep and place is not None else None
    if saved is not None:
        remove_folder(saved)  # left by a process that died before the record was written
    if cell.kind == "classify":
        from graphham.evaluate.classify import measure_classification

        return measure_classification(graph, cell, saved, fits)
    if cell.kind == "links" and cell.is_learned:
        from graphham.evaluate.learned_links import measure_learned_links

        return measure_learned_links(graph, cell, saved, fits)
    if cell.kind == "links":
        from graphham.evaluate.links import measure_links

        return measure_links(graph, cell, saved, fits)
    raise InputError(f"there is no kind of cell {cell.kind!r}")


@functools.lru_cache(maxsize=1)
def load_graph(name: str) -> Graph:
    """Return a dataset by name; the last one is kept."""
    from graphham.datasets import load_dataset

    return load_dataset(name)


class Outcome:
    """What became of a list of cells.

    Args:
        records: Finished cells by key.
        failures: Cells that raised something unexpected, with the traceback.
    """

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.failures: dict[str, str] = {}

    def raise_failures(self) -> None:
        """Fail if a cell failed; called at the end, since the others were worth finishing."""
        if self.failures:
            key, trace = next(iter(self.failures.items()))
            raise RuntimeError(
                f"{len(self.failures)} cells failed, first {key}: {trace.strip().splitlines()[-1]}"
            )


def run_cells(
    cells: Sequence[Cell],
    store: CellStore,
    screen: Screen,
    *,
    graph: Graph | None = None,
    wait: bool = True,
    keep: bool = False,
    work: Callable[..., Measured] = measure,
    version: Callable[[Cell], str] = cell_version,
    renew: bool = False,
) -> Outcome:
    """Measure every cell that is not finished, sharing the work with other processes.

    A stop by Ctrl-C discards the cell under way and leaves all others. A cell whose input cannot be
    used is stored as refused, with the reason; one that fails unexpectedly is reported and tried
    again next time, and the others go on. Cells that need the same fit are measured one after the
    other by one process, which makes it once (see :mod:`graphham.evaluate.fit_cache`).

    Args:
        cells: What to measure.
        store: Where finished cells are.
        screen: Where progress is shown.
        graph: The user's graph; cells name their dataset when not given.
        keep: Leave the fitted method as a run folder in every cell.
        wait: Wait at the end for cells other processes are working on.
        work: Does one cell.
        version: Says which version of the code a cell's number comes from.
        renew: Measure finished cells of other versions again.
    """
    outcome = Outcome()
    fits = Fits(store.groups)
    more = {"fits": fits, **({"keep": True} if keep else {})}
    chosen = functools.partial(work, **more)
    # Before the first cell: the source may change while they are measured, the loaded code cannot.
    code = {cell.key: version(cell) for cell in cells}

    def finished(cell: Cell) -> Record | None:
        record = store.read(cell) if store.is_finished(cell) else None
        if record is None or not renew:
            return record
        return record if record.get("versions", {}).get("code") == code[cell.key] else None

    todo: list[Cell] = []
    for cell in {cell.key: cell for cell in cells}.values():
        record = finished(cell)
        if record is None:
            todo.append(cell)
        else:
            outcome.records[cell.key] = record
    todo = together(todo)
    total = len(todo) + len(outcome.records)
    with CellProgress(screen, total, outcome.records) as progress, one_thread(), fits:
        while todo:
            elsewhere = []
            for cell in todo:
                if not fits.enter(cell):
                    elsewhere.append(cell)
                    continue
                with store.claim(cell) as is_ours:
                    if not is_ours:
                        elsewhere.append(cell)
                    elif (record := finished(cell)) is not None:
                        outcome.records[cell.key] = record
                        progress.finish(cell, record, is_ours=False)
                    else:
                        progress.begin(cell, [c for c in todo if c.key not in outcome.records])
                        _run_one(cell, store, graph, chosen, outcome, progress, code[cell.key])
            fits.leave()
            todo = elsewhere
            if todo and not wait:
                break
            if todo:
                progress.waiting(len(todo))
                time.sleep(_WAIT_SECONDS)
    return outcome


def _run_one(
    cell: Cell,
    store: CellStore,
    graph: Graph | None,
    work: Callable[..., Measured],
    outcome: Outcome,
    progress: CellProgress,
    code: str,
) -> None:
    began, spent = time.perf_counter(), time.process_time()
    try:
        with noticing_stops() as stopped:
            try:
                record, arrays = work(cell, graph=graph, place=store.place(cell))
                status: Record = {"status": "done"}
            except InputError as error:
                record, arrays = {"reason": str(error)}, {}
                status = {"status": "refused"}
        # A fit that is stopped returns what it has; that is no measurement.
        if stopped():
            raise KeyboardInterrupt
    except Exception:
        outcome.failures[cell.key] = traceback.format_exc()
        progress.fail(cell, outcome.failures[cell.key])
        return
    seconds = time.perf_counter() - began
    # Of the processor: on a busy machine the clock says little about what a cell takes.
    cost = {"cpu_seconds": time.process_time() - spent, **record.get("cost", {})}
    whole = {**status, **record, "cost": cost, "seconds": seconds, "versions": versions(code)}
    outcome.records[cell.key] = store.write(cell, whole, arrays)
    progress.finish(cell, outcome.records[cell.key])


class CellProgress:
    """A bar over cells with the time left; one line per cell where there is no terminal.

    Args:
        screen: Where to show it.
        total: Number of cells, finished ones included.
        finished: Records of those finished before; their times help to guess.
    """

    def __init__(self, screen: Screen, total: int, finished: dict[str, Record]) -> None:
        self.screen, self.total, self.done = screen, total, len(finished)
        self._seconds: dict[tuple[str, ...], list[float]] = {}
        for record in finished.values():
            self._note(Cell.from_dict(record["cell"]), record)
        self._bar: Any = None
        self._task: Any = None
        self._waited = False
        self._left: float | None = None

    def __enter__(self) -> CellProgress:
        if self.done:
            self.screen.say("Cells", f"{self.done} of {self.total} finished before")
        if self.screen.is_live and not self.screen.quiet:
            from rich.progress import BarColumn, Progress, TextColumn

            self._bar = Progress(
                TextColumn("[bold]Cells     [/bold]{task.completed:.0f}/{task.total:.0f}"),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[status]}", markup=False),
                console=self.screen.console,
            )
            self._task = self._bar.add_task("", total=self.total, completed=self.done, status="")
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, cell: Cell, left: Sequence[Cell]) -> None:
        """Show which cell is being measured and how long all of them will take."""
        guesses = [self._guess(c) for c in left]
        known = [g for g in guesses if g is not None]
        self._left = None
        if known:
            mean = sum(known) / len(known)
            self._left = sum(mean if g is None else g for g in guesses)
        if self._bar is not None:
            self._bar.update(self._task, status=f"{_title(cell)}  left {clock(self._left)}")

    def finish(self, cell: Cell, record: Record, is_ours: bool = True) -> None:
        """Count a finished cell."""
        self.done += 1
        if is_ours:
            self._note(cell, record)
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done)
        elif is_ours:
            took = record.get("seconds", 0.0)
            left = None if self._left is None else max(0.0, self._left - took)
            self.screen.say(
                "Cell",
                f"{self.done}/{self.total}  {_title(cell)}  {_headline(record)}  "
                f"{took:.1f} s  left {clock(left)}",
            )

    def fail(self, cell: Cell, trace: str) -> None:
        """Show that a cell failed; the last line of the traceback says why."""
        self.screen.remark(f"{_title(cell)} failed: {trace.strip().splitlines()[-1]}")

    def waiting(self, count: int) -> None:
        """Say once that other processes are still at work."""
        if self._bar is not None:
            self._bar.update(self._task, status=f"waiting for {count} cells of other processes")
        elif not self._waited:
            self.screen.say("Waiting", f"for {count} cells of other processes")
        self._waited = True

    def _note(self, cell: Cell, record: Record) -> None:
        if record.get("status") == "done":
            for name in _likeness(cell):
                self._seconds.setdefault(name, []).append(float(record.get("seconds", 0.0)))

    def _guess(self, cell: Cell) -> float | None:
        for name in _likeness(cell):
            if name in self._seconds:
                return float(np.mean(self._seconds[name]))
        return None


def versions(code: str) -> Record:
    """Return versions of everything that could change a number.

    Args:
        code: That of the code it depends on (:mod:`graphham.evaluate.code_version`).
    """
    import sklearn
    import torch

    found: Record = {
        "code": code,
        "graphham": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
    }
    commit = _commit()
    if commit:
        found["commit"] = commit
    return found


@functools.cache
def _commit() -> str:
    """Return the commit of the source, marked if changed; empty outside a repository."""
    home = Path(__file__).parent
    try:
        shown = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"],
            cwd=home,
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return shown.stdout.strip() if shown.returncode == 0 else ""


@contextmanager
def noticing_stops() -> Iterator[Callable[[], bool]]:
    """Remember a Ctrl-C inside the block, even where the block handles it by itself."""
    seen = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    # In the background, under nohup, the signal is ignored and must stay so.
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield seen.is_set
        return

    def note(number: int, frame: Any) -> None:
        seen.set()
        before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield seen.is_set
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep numeric libraries on one thread, so that sums do not depend on the number of cores."""
    import torch
    from threadpoolctl import threadpool_limits

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(threads)


def _likeness(cell: Cell) -> list[tuple[str, ...]]:
    """Return what to look up a cell's likely time by, most alike first."""
    return [
        (cell.kind, cell.graph, cell.protocol, cell.method, str(cell.budget)),
        (cell.kind, cell.graph, cell.method),
        (cell.kind, cell.graph),
        (cell.kind,),
    ]


def _title(cell: Cell) -> str:
    return f"{cell.graph} {cell.protocol} {cell.method} seed {cell.seed} fold {cell.fold}"


def _headline(record: Record) -> str:
    if record.get("status") == "refused":
        return "refused: " + str(record.get("reason", ""))
    metrics = record.get("metrics", {})
    for name in ("accuracy", "auc"):
        if name in metrics:
            more = f" mrr {metrics['mrr']:.3f}" if "mrr" in metrics else ""
            return f"{name} {metrics[name]:.3f}{more}"
    return ""
