"""Run benchmarks one after another, each in a process of its own, and keep what they find."""

from __future__ import annotations

import datetime
import importlib
import subprocess
import sys
from pathlib import Path

from benchmarks import peers, results
from benchmarks.cases import CASES
from benchmarks.context import Context

QUICK = results.FOLDER / ".quick"


def run(names: list[str], quick: bool, again: bool, with_peers: bool) -> list[str]:
    """Run benchmarks, shortest first; return the names of those that failed.

    Args:
        names: Their names, or ``all``.
        quick: Tiny sizes, to see that everything works; such results are not kept in git.
        again: Repeat what is there already for this commit, machine and day.
        with_peers: Make the peers' environments first, and use them.
    """
    chosen = list(CASES) if "all" in names else [name for name in CASES if name in names]
    if with_peers and any(CASES[name].environment != "own" for name in chosen):
        for peer, status in peers.install().items():
            if not status.ok:
                _tell(f"{peer} cannot take part: {status.reason}")
    folder = QUICK if quick else results.FOLDER
    failed: list[str] = []
    for name in chosen:
        held = results.facts(quick)
        known = results.read_day(results.day_file(held, folder))
        if results.identity(name, held) in known and not again:
            _tell(f"{name}: measured already today at this commit; --again repeats it")
            continue
        _tell(f"{name}: {CASES[name].title}, about {CASES[name].minutes:g} minutes")
        if _run_apart(name, quick, folder, with_peers):
            failed.append(name)
    return failed


def _run_apart(name: str, quick: bool, folder: Path, with_peers: bool) -> int:
    """Measure in a fresh process, so that memory peaks and thread pools are its own."""
    interpreter = sys.executable
    if CASES[name].environment != "own" and with_peers:
        apart = peers.python(CASES[name].environment)
        interpreter = str(apart) if apart.exists() else interpreter
    command = [interpreter, "-m", "benchmarks", "measure", name, "--folder", str(folder)]
    if quick:
        command.append("--quick")
    return subprocess.run(command, cwd=results.ROOT, env=peers.environment()).returncode


def measure(name: str, quick: bool, folder: Path) -> Path:
    """Measure in this process and write the result."""
    case = CASES[name]
    held = results.facts(quick)
    held["time"] = datetime.datetime.now(datetime.UTC).strftime("%H:%M:%S")
    module = importlib.import_module(f"benchmarks.cases.{case.module}")
    result: results.Result = module.measure(Context(quick), **case.options)
    result.facts = held
    return results.save(result, folder)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
