"""Kill real processes at random moments, and look at what they leave.

The process that has loaded everything forks each victim, so that a kill costs what the command
costs and not the seconds of a start; a victim is a process of its own that gets SIGKILL.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from graphham.results.run_folder import Run
from graphham.system.atomic import remove_abandoned
from scripts.reliability_commands import again, commands, content, prepare, quietly

# Four of ten kills hit a run that is replaced again and again; the others one command each.
_TURNS = [
    "replace",
    "fit",
    "replace",
    "ingest",
    "replace",
    "export",
    "replace",
    "split",
    "embed",
    "report",
    "replace",
    "fit",
    "replace",
    "ingest",
    "replace",
    "export graphml",
    "replace",
    "split",
    "embed --map",
    "explore --export",
]
_EPOCHS = 8
# Hold the seconds a fit took, rounded, so that they are equal by chance alone.
_TIMED = ("README.md", "metrics.jsonl", "summary.json")
# What a command writes to the bit, and how long it takes; made once per process and work folder.
_known: dict[tuple[Path, str], tuple[dict[str, str], float]] = {}


def write_forever(out: str, ready: int) -> None:
    """Replace one run again and again; say so after the first time."""
    from graphham.results.run_writer import start_run
    from tests.outputs import make_graph, make_result

    result = make_result(40)
    graph = make_graph(result)
    number = 0
    while True:
        number += 1
        writer = start_run(out, {"seed": number}, overwrite=True)
        writer.finish(result, {}, graph, {"number": number})
        if number == 1:
            os.write(ready, b"+")


def die_at_once(out: str, ready: int) -> None:
    """End without having written anything."""
    raise SystemExit(1)


WRITER = write_forever


def forked(call: Callable[[], int | None]) -> int:
    """Run a function in a process of its own, a copy of this one; return its number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of libraries, all idle
        pid = os.fork()
    if pid:
        return pid
    code = 1
    with contextlib.suppress(BaseException):
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (1, 2):
            os.dup2(nothing, stream)
        code = call() or 0
    os._exit(code)


def kill(pid: int) -> bool:
    """Kill a child and wait for it; return whether it was the kill that ended it."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def kills(work: Path, done: int, rng: random.Random, counts: Counter[str]) -> int:
    """Kill a process while it writes, look at what it left, and let the next command go on."""
    turn = _TURNS[done % len(_TURNS)]
    if turn == "replace":
        return kill_replacing(work, rng, counts)
    return _kill_command(work, turn, rng, counts)


def kill_replacing(work: Path, rng: random.Random, counts: Counter[str]) -> int:
    """Kill a process that replaces a run again and again, and open the run."""
    out = work / "killed"
    here, there = os.pipe()
    pid = forked(lambda: WRITER(str(out), there))
    os.close(there)
    is_ready = bool(select.select([here], [], [], 60)[0]) and os.read(here, 1) == b"+"
    os.close(here)
    time.sleep(rng.uniform(0, 0.1))
    if not (kill(pid) and is_ready):  # a writer that dies by itself proves nothing about kills
        counts["writer failed"] += 1
        return 1
    try:
        counts["standing at once"] += out.exists()
        run = Run.open(out, verify=True)
        assert run.config == {"seed": run.summary["number"]}
        run.result()
        counts["survived"] += 1
        counts["of replace"] += 1
    except Exception:
        counts["lost"] += 1
        traceback.print_exc()
    return 1


def _kill_command(work: Path, name: str, rng: random.Random, counts: Counter[str]) -> int:
    target = work / "target"
    arguments, out = commands(work, target, _EPOCHS)[name]
    prepare(work)
    expected, seconds = _expected(work, name, arguments, out)
    _empty(target)
    pid = forked(lambda: quietly([*arguments, str(out)])[0])
    time.sleep(rng.uniform(0, seconds))
    if not kill(pid):
        counts["ended before its kill"] += 1
        return 0
    if out.exists():  # what has its name is whole, whatever happened to the process
        is_whole = _same(out, expected)
        counts["survived" if is_whole else "silent"] += 1
        counts["whole at once"] += is_whole
    else:
        counts["resumed"] += (out.with_name(f"{out.name}.partial") / "checkpoint.json").exists()
        code, said = quietly(again(arguments, out))
        left = _left_for_good(target) - {out.name}
        if code == 0 and not left and _same(out, expected):
            counts["survived"] += 1
        else:
            bad = "lost" if code else "leftover" if left else "silent"
            counts[bad] += 1
            print("killed", name, bad, code, said, left, file=sys.stderr)
    counts[f"of {name}"] += 1
    return 1


def _left_for_good(folder: Path) -> set[str]:
    """Return what is in a folder once files that were too young to be judged are a minute old."""
    for path in folder.glob(".graphham-early-*"):
        os.utime(path, (0, 0))
    remove_abandoned(folder, ".export-")
    return {path.name for path in folder.iterdir()}


def _expected(
    work: Path, name: str, arguments: list[str], out: Path
) -> tuple[dict[str, str], float]:
    """Return what the command writes when nobody kills it, and its seconds, starting warm."""
    if (work, name) not in _known:
        seen = []
        seconds = 0.0
        for _ in range(3):
            _empty(out.parent)
            begin = time.monotonic()
            code, said = quietly([*arguments, str(out)])
            seconds = time.monotonic() - begin
            assert code == 0, said
            seen.append(content(out))
        # Logs hold times; all else is the same whenever it is written.
        same = {k: v for k, v in seen[0].items() if v == seen[1].get(k) == seen[2].get(k)}
        same = {k: v for k, v in same.items() if Path(k).name not in _TIMED}
        assert same, f"{name} writes nothing twice alike"
        _known[work, name] = same, seconds
    return _known[work, name]


def _same(out: Path, expected: dict[str, str]) -> bool:
    found = content(out)
    return all(found.get(name) == checksum for name, checksum in expected.items())


def _empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
