"""Inject faults, flip bits, kill writers, fuzz files and load the explorer; print what held.

Each suite goes on where it was stopped and keeps its counts in scripts/reliability.json. A row is
clean if nothing was lost, nothing was silent and nothing ended in a traceback.

    python scripts/reliability.py --mode short              # minutes
    python scripts/reliability.py --mode long               # hours: the counts of the issue
    python scripts/reliability.py --mode long --minutes 60  # go on with that for an hour
    python scripts/reliability.py --suite flips --again     # one suite, from the start

A row that did not reach its target says so, and one that was not begun is listed as not run.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import fcntl
import functools
import http.client
import json
import math
import os
import platform
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from graphham.errors import InputError  # noqa: E402
from graphham.graph.store import open_store, write_store  # noqa: E402
from graphham.results.model_card import CARD_FILE  # noqa: E402
from graphham.results.run_folder import Run  # noqa: E402
from graphham.system.atomic import write_json  # noqa: E402
from scripts.reliability_commands import again, commands, make_run, prepare, quietly  # noqa: E402
from scripts.reliability_fuzz import fuzz_next  # noqa: E402
from scripts.reliability_jobs import long_training, tear, workers  # noqa: E402
from scripts.reliability_kills import kills  # noqa: E402
from tests.graph.test_integrity import example  # noqa: E402

RESULTS = ROOT / "scripts" / "reliability.json"
TARGETS = {
    "short": {
        "flips": 600,
        "faults": 9,
        "torn": 30,
        "kills": 60,
        "workers": 2,
        "fuzz": 3_000,
        "requests": 20,
        "training": 20,
    },
    "long": {
        "flips": 6_000,
        "faults": 9,
        "torn": 600,
        "kills": 2_000,
        "workers": 20,
        "fuzz": 200_000,
        "requests": 600,
        "training": 3_600,
    },
}
# Long training goes on over several calls, so what it needs stays; nodes by mode.
NODES = {"short": 20_000, "long": 1_000_000}
BAD = (
    "silent",
    "traceback",
    "lost",
    "leftover",
    "hung",
    "errors 5xx",
    "writer failed",
    "memory grows",
    "crashed",
    "unclear",
    "memory",
)


# -- flips ------------------------------------------------------------------------------------


def _read_run(folder: Path) -> None:
    run = Run.open(folder)
    run.result()
    run.state()
    for _ in (run.config, run.metrics, run.groups, run.hierarchy):
        pass
    run.graph()


def _read_store(folder: Path) -> None:
    open_store(folder).fingerprint()


def flips(work: Path, done: int, rng: random.Random, counts: Counter[str]) -> int:
    """Flip one bit somewhere in a run or a store and read all of it."""
    run, store = work / "run", work / "store"
    if not run.exists():
        make_run(run)
        write_store(example(), store)
    folder, read = (run, _read_run) if done % 2 else (store, _read_store)
    file = rng.choice(sorted(p for p in folder.rglob("*") if p.is_file() and p.stat().st_size))
    before = file.read_bytes()
    data = bytearray(before)
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    file.write_bytes(data)
    try:
        read(folder)
        # Nothing is read from the card of a run, which people edit.
        same = file.suffix == ".json" and json.loads(data) == json.loads(before)
        counts["harmless" if same or file.name == CARD_FILE else "silent"] += 1
    except InputError:
        counts["detected"] += 1
    except Exception:
        counts["traceback"] += 1
        traceback.print_exc()
    finally:
        file.write_bytes(before)
    return 1


# -- faults -----------------------------------------------------------------------------------

_fault: dict[str, Any] = {"folder": None, "left": 0, "fired": False}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_real_fsync = os.fsync


def _count_down(path: Any) -> None:
    folder = _fault["folder"]
    if folder is None or _fault["fired"] or not isinstance(path, str | bytes | os.PathLike):
        return
    if not str(Path(os.fsdecode(path)).absolute()).startswith(folder):
        return
    _fault["left"] -= 1
    if _fault["left"] <= 0:
        _fault["fired"] = True
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fsdecode(path))


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _fault["folder"] is None:
        return
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES:
        _count_down(arguments[0])
    elif event in ("os.rename", "os.link"):
        _count_down(arguments[1])
    elif event == "os.mkdir":
        _count_down(arguments[0])


def _fsync(handle: int) -> None:
    if _fault["folder"] is not None:
        with contextlib.suppress(FileNotFoundError):
            _count_down(Path(f"/proc/self/fd/{handle}").readlink())
    _real_fsync(handle)


_is_hooked: list[bool] = []


def faults(work: Path, done: int, rng: random.Random, counts: Counter[str]) -> int:
    """Fail the n-th write, folder, rename or fsync of one command, for every n, once."""
    target = work / "target"
    prepare(work)
    if not _is_hooked:
        sys.addaudithook(_hook)
        os.fsync = _fsync
        _is_hooked.append(True)
    name, (arguments, out) = list(commands(work, target).items())[done]
    number = 0
    while True:
        number += 1
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        _fault.update(folder=str(target), left=number, fired=False)
        try:
            code, said = quietly([*arguments, str(out)])
        finally:
            _fault["folder"] = None
        if not _fault["fired"]:
            break
        counts["injected"] += 1
        _judge_fault(name, number, code, said, arguments, out, counts)
    # A command that fails without a fault has no points to fail and proves nothing.
    counts["traceback"] += code != 0
    counts[f"points of {name}"] = number - 1
    return 1


def _judge_fault(
    name: str,
    number: int,
    code: int,
    said: str,
    arguments: list[str],
    out: Path,
    counts: Counter[str],
) -> None:
    if code == 0 or (code == 2 and said.strip() and "bug" not in said):
        counts["survived"] += 1
    else:
        counts["traceback"] += 1
        print(name, number, code, said, file=sys.stderr)
    if code == 0:
        return
    allowed = {f"{out.name}.partial"} if name == "fit" else set()
    left = {p.name for p in out.parent.iterdir()} - allowed
    if out.name in left or any(not n.startswith(".graphham-early-") for n in left):
        counts["leftover"] += 1
        print(name, number, "left", left, said, file=sys.stderr)
    code, said = quietly(again(arguments, out))
    if code != 0:
        counts["lost"] += 1
        print(name, number, "cannot be repeated:", said, file=sys.stderr)
    elif name == "fit":
        Run.open(out, verify=True).result()


def torn(work: Path, done: int, rng: random.Random, counts: Counter[str]) -> int:
    """End every write of one command in the middle, where its file has a random size."""
    prepare(work)
    found = list(commands(work, work / "target").values())
    arguments, out = found[done % len(found)]
    tear(arguments, out, int(10 ** rng.uniform(1, 5.5)), counts, quietly)
    return 1


# -- fuzz -------------------------------------------------------------------------------------


def fuzz(work: Path, done: int, rng: random.Random, counts: Counter[str]) -> int:
    """Give one reader after the other mutants of good files, guided by what they reach."""
    return fuzz_next(work, 5_000 if _mode[0] == "long" else 200, rng, counts)


# -- requests ---------------------------------------------------------------------------------


def _requests(count: int) -> list[tuple[str, str, str | None]]:
    return [
        ("GET", "/api/overview", None),
        ("GET", "/api/points", None),
        ("GET", f"/api/node/{count % 200}", None),
        ("GET", "/api/search?q=1", None),
        ("POST", "/api/export", '{"group": "1-0", "format": "csv"}'),
        ("POST", "/api/selection", '{"lasso": "0,0;1,0;1,1"}'),
        ("GET", "/api/node/" + "9" * 60, None),
        ("GET", "/static/../../etc/passwd", None),
        ("POST", "/api/selection", "[" * 50_000),
        ("POST", "/api/export", '{"rows": [' + "9" * 40 + '], "format": "csv"}'),
        ("POST", "/api/rename", '{"level": 1, "group": -1, "name": "x"}'),
        ("GET", "/api/window?x0=nan&x1=inf&y0=-inf&y1=1e400", None),
    ]


def requests(work: Path, done: int, rng: random.Random, counts: Counter[str]) -> int:
    """Send ten seconds of valid and hostile requests, and watch time and memory."""
    from graphham.explore.launch import RunningExplorer

    if not (work / "run").exists():
        make_run(work / "run")
    with RunningExplorer(work / "run") as running:
        running.explorer.finish_map()
        cookie = {"Cookie": f"graphham-{running.port}={running.token}"}
        origin = {"Origin": f"http://127.0.0.1:{running.port}"}
        times: list[float] = []
        settled = 0
        end = time.monotonic() + 10
        while time.monotonic() < end:
            method, path, body = rng.choice(_requests(len(times)))
            headers = {**cookie, **origin, "Content-Type": "application/json"}
            begin = time.monotonic()
            link = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
            link.request(method, path, body, headers)
            response = link.getresponse()
            response.read()
            link.close()
            times.append(time.monotonic() - begin)
            counts["served"] += 1
            counts["errors 5xx"] += response.status >= 500
            if len(times) == 200:
                settled = _resident()
        drift = _resident() - settled if settled else 0
        counts["p99 ms"] = max(counts["p99 ms"], int(1000 * float(np.quantile(times, 0.99))))
        counts["RSS drift KiB"] = max(counts["RSS drift KiB"], drift)
    return 10


def _resident() -> int:
    with contextlib.suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() // 1024
    return 0


def training(work: Path, done: int, rng: random.Random, counts: Counter[str]) -> int:
    """Train on a large graph, stop by a kill, go on the next time; memory must stay flat."""
    nodes = NODES[_mode[0]]
    kept = Path(tempfile.gettempdir()) / "graphham-reliability-training"
    # One process for the whole of it: what leaks slowly shows only in a long life.
    seconds = TARGETS[_mode[0]]["training"] - done
    return long_training(work, counts, nodes, seconds, kept if nodes > 100_000 else None)


_mode = ["short"]

# -- the table --------------------------------------------------------------------------------

SUITES: dict[str, Callable[[Path, int, random.Random, Counter[str]], int]] = {
    "flips": flips,
    "fuzz": fuzz,
    "requests": requests,
    "kills": kills,
    "torn": torn,
    "workers": workers,
    "training": training,
    "faults": faults,
}
UNITS = {
    "flips": "bits flipped",
    "faults": "commands, every point",
    "torn": "commands, writes torn",
    "kills": "processes killed",
    "workers": "jobs, one process killed",
    "fuzz": "files fuzzed",
    "requests": "seconds of requests",
    "training": "seconds of training",
}


@contextlib.contextmanager
def _work_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="graphham-reliability-") as name:
        before = Path.cwd()
        os.chdir(name)
        try:
            yield Path(name)
        finally:
            os.chdir(before)


def run_suite(
    name: str,
    target: int,
    record: dict[str, Any],
    save: Callable[[], None],
    deadline: float = math.inf,
) -> None:
    """Bring one suite to its target, from where its record stands, or until the time is over."""
    counts: Counter[str] = Counter(record.get("counts", {}))
    done, seconds, saved = int(record.get("done", 0)), float(record.get("seconds", 0)), 0.0
    with _work_folder() as work:
        while done < target and time.monotonic() < deadline:
            begin = time.monotonic()
            done += SUITES[name](work, done, random.Random(f"{name} {done}"), counts)
            seconds += time.monotonic() - begin
            record.update(done=done, counts=dict(counts), seconds=round(seconds, 1))
            if time.monotonic() - saved > 10:
                saved = time.monotonic()
                save()
    save()


def table(records: dict[str, Any], targets: dict[str, int] | None = None) -> tuple[str, bool]:
    """Return the rows as text, and whether all that was run is clean."""
    lines, is_clean = [], True
    for name in targets or records:
        record = records.get(name)
        if not record or "counts" not in record:
            lines.append(f"{name:<10}{'':>8} {UNITS[name]:<26}NOT RUN")
            continue
        counts = record["counts"]
        bad = {key: counts[key] for key in BAD if counts.get(key)}
        is_clean &= not bad
        shown = ", ".join(f"{key} {value:,}" for key, value in counts.items())
        state = "clean" if not bad else "NOT CLEAN"
        if targets and record["done"] < targets[name]:
            shown = f"only {record['done']:,} of {targets[name]:,}; {shown}"
        lines.append(f"{name:<10}{record['done']:>8,} {UNITS[name]:<26}{state:<11}{shown}")
    return "\n".join(lines), is_clean


def _kept(results: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(results.read_text()) if results.is_file() else {}
    return found


def _save(results: Path, mode: str, name: str, record: dict[str, Any]) -> None:
    """Write the record of one suite; another process may be writing that of another."""
    with results.with_name(f".{results.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = _kept(results)
        kept.setdefault(mode, {})[name] = record
        write_json(results, kept)


def _note_origin(record: dict[str, Any]) -> None:
    """Say in a record which code was measured; a suite that goes on may have seen several.

    A commit can be lost when a branch is moved; the name of the source's tree stays.
    """

    def ask(*arguments: str) -> str:
        command = ["git", *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    commit = ask("rev-parse", "--short=12", "HEAD") or "unknown"
    source = ask("rev-parse", "--short=12", "HEAD:src/graphham")
    if ask("status", "--porcelain", "src"):
        commit, source = f"{commit} and changes", f"{source} and changes"
    origin = {"commit": commit, "source": source}
    origins = record.setdefault("measured on", [])
    if origin not in origins:
        origins.append(origin)
    record.update(python=platform.python_version(), system=platform.system())


def run(arguments: list[str] | None = None) -> int:
    """Run what is asked for and print the table; the exit code is 1 if a row is not clean."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", choices=sorted(TARGETS), default="short")
    parser.add_argument("--suite", choices=sorted(SUITES), action="append")
    parser.add_argument("--again", action="store_true", help="forget what was counted before")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop begun suites then")
    asked = parser.parse_args(arguments)
    records = _kept(asked.results).get(asked.mode, {})
    _mode[0] = asked.mode
    deadline = time.monotonic() + 60 * asked.minutes
    for name in asked.suite or SUITES:
        record = {} if asked.again else records.get(name, {})
        target = TARGETS[asked.mode][name]
        if record.get("done", 0) >= target or time.monotonic() >= deadline:
            continue
        records[name] = record
        _note_origin(record)
        save = functools.partial(_save, asked.results, asked.mode, name, record)
        run_suite(name, target, record, save, deadline)
    records = _kept(asked.results).get(asked.mode, {})
    text, is_clean = table(records, TARGETS[asked.mode])
    print(text)
    return 0 if is_clean else 1


if __name__ == "__main__":
    sys.exit(run())
