"""Suites of scripts/reliability.py that start jobs: torn writes, lost workers, long training."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from scripts.reliability_commands import again

ROOT = Path(__file__).parents[1]
_PAGE = resource.getpagesize()


# -- torn writes ------------------------------------------------------------------------------


@contextlib.contextmanager
def files_of_at_most(num_bytes: int) -> Iterator[None]:
    """Let every write end where a file has so many bytes, in the middle if need be."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def tear(
    arguments: list[str], out: Path, size: int, counts: Counter[str], call: Callable[..., Any]
) -> None:
    """Run one command with writes torn at a size, then again without; count what became of it."""
    shutil.rmtree(out.parent, ignore_errors=True)
    out.parent.mkdir()
    with files_of_at_most(size):
        code, said = call([*arguments, str(out)])
    if code == 0:
        counts["whole"] += 1  # nothing of it is so large
        return
    counts["torn"] += 1
    if code != 2 or not said.strip() or "bug" in said:
        counts["traceback"] += 1
        print("torn at", size, arguments, code, said, file=sys.stderr)
    if out.exists():
        counts["leftover"] += 1
        print("torn at", size, arguments, "left", out, file=sys.stderr)
    code, said = call(again(arguments, out))
    if code != 0:
        counts["lost"] += 1
        print("torn at", size, arguments, "cannot be repeated:", said, file=sys.stderr)
    else:
        counts["survived"] += 1


# -- workers of one job -----------------------------------------------------------------------

_FIT = ["--groups", "6,2", "--dim", "16", "--seed", "3"]
_SETTINGS = {
    "train.epochs": 12,
    "train.shards": 2,
    "train.batch": "sampled",
    "train.batch_size": 64,
    "train.checkpoint_every": 0.2,
}


def _fit(store: Path, out: Path, *more: str) -> list[str]:
    settings = [part for k, v in _SETTINGS.items() for part in ("--set", f"{k}={v}")]
    begin = [sys.executable, "-m", "graphham", "fit", str(store), *_FIT, *settings]
    return [*begin, "--out", str(out), "--quiet", *more]


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(child) for child in task.read_text().split()]
    return found


def workers(work: Path, done: int, rng: random.Random, counts: Counter[str]) -> int:
    """Kill one process of a job of two at a random moment, go on, and compare the bits."""
    from graphham.graph.planted import planted_hierarchy
    from graphham.graph.store import write_store
    from graphham.results.run_folder import Run

    store, whole, out = work / "job-store", work / "whole", work / "killed-job"
    if not store.exists():
        write_store(planted_hierarchy((2, 3), 400, mean_degree=4, words=8, seed=1).graph, store)
        subprocess.run(_fit(store, whole), check=True)
    shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(out.with_name("killed-job.partial"), ignore_errors=True)
    job = subprocess.Popen(
        _fit(store, out, "--processes=2"), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    partial = out.with_name("killed-job.partial") / "checkpoint.json"
    while job.poll() is None and not partial.exists():
        time.sleep(0.05)
    time.sleep(rng.uniform(0, 2))
    victims = children_of(job.pid) if job.poll() is None else []
    if victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(rng.choice(victims), signal.SIGKILL)
            counts["killed"] += 1
    try:
        _, said = job.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        counts["hung"] += 1
        os.killpg(job.pid, signal.SIGKILL)
        job.communicate()
        return 1
    if job.returncode not in (0, 2) or (job.returncode and len(said.strip().splitlines()) != 1):
        counts["traceback"] += 1
        print(job.returncode, said, file=sys.stderr)
    if job.returncode:
        begun = out.with_name("killed-job.partial").exists()
        subprocess.run(_fit(store, out, *(["--resume"] if begun else [])), check=False)
    try:
        same = np.array_equal(Run.open(out).embedding, Run.open(whole).embedding)
        counts["same bits" if same else "silent"] += 1
    except Exception as error:
        counts["lost"] += 1
        print(error, file=sys.stderr)
    return 1


# -- long training ----------------------------------------------------------------------------


def resident_of(pid: int) -> int:
    """Return the KiB that a process holds that are not pages of files."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/statm").read_text().split()
        return (int(fields[1]) - int(fields[2])) * _PAGE // 1024
    return 0


def long_training(
    work: Path, counts: Counter[str], nodes: int, seconds: int, folder: Path | None = None
) -> int:
    """Train for some seconds on a large graph, go on where a former call was killed, watch memory.

    The store and the run are kept between calls, so that an hour can be made of many.
    """
    from graphham.graph.planted import planted_hierarchy
    from graphham.graph.store import write_store

    place = folder or work
    store, out = place / f"store-{nodes}", place / f"run-{nodes}"
    if not store.exists():
        place.mkdir(parents=True, exist_ok=True)
        write_store(planted_hierarchy((8, 8), nodes, mean_degree=8, words=64, seed=1).graph, store)
    arguments = [sys.executable, "-m", "graphham", "fit", str(store), "--out", str(out), "--quiet"]
    arguments += ["--groups", "64,8", "--set", "train.batch=sampled", "--set", "train.epochs=9999"]
    arguments += ["--set", "train.epoch_steps=50"]
    if out.with_name(f"{out.name}.partial").exists():
        arguments.append("--resume")
    job = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    log = out.with_name(f"{out.name}.partial") / "metrics.jsonl"
    sizes: list[int] = []
    end = None
    before = _lines(log)
    while job.poll() is None and (end is None or time.monotonic() < end):
        time.sleep(0.5 if seconds < 600 else 5)
        if end is None and _lines(log) > before + 1:  # reading and planning are no training
            end = time.monotonic() + seconds
        if end is not None:
            sizes.append(resident_of(job.pid))
    if job.poll() is not None:
        counts["traceback"] += 1
        print(job.stderr.read() if job.stderr else "", file=sys.stderr)
        return seconds
    job.send_signal(signal.SIGKILL)
    job.communicate()
    counts["epochs"] += max(0, _lines(log) - before)
    for minute, size in enumerate(sizes[:: max(1, len(sizes) // 12)]):
        counts[f"MiB after {minute}/12"] = size >> 10
    part = max(1, len(sizes) // 4)
    growth = int(np.median(sizes[-part:]) - np.median(sizes[part : 2 * part])) if sizes else 0
    counts["growth KiB"] = max(counts["growth KiB"], growth)
    counts["peak MiB"] = max(counts["peak MiB"], max(sizes, default=0) >> 10)
    # What is drawn ahead and freed again moves by a few MiB.
    counts["memory grows"] += growth > max(32 << 10, max(sizes, default=0) // 50)
    return seconds


def _lines(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.read_bytes().count(b"\n")
    return 0
