"""60 million edge rows with string ids, Parquet to store, by the command a user runs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import graphs, peers
from benchmarks.context import Context
from benchmarks.results import ROOT, Result, Value

_ROWS = 60_000_000
_GIB = 1 << 30


def measure(context: Context) -> Result:
    """Write the rows once, then run ``graphham ingest`` on them and read its resources."""
    result = Result("ingest")
    path, rows = _edge_file(context)
    with tempfile.TemporaryDirectory(dir=graphs.cache()) as held:
        command = [sys.executable, "-m", "graphham", "ingest", str(path)]
        command += ["--out", str(Path(held) / "store")]
        began = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=peers.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - began
    if process.returncode:
        last = (said.strip().splitlines() or ["it said nothing"])[-1]
        result.missing["graphham ingest"] = f"ended with {process.returncode}: {last[:200]}"
        return result
    cpu = used.ru_utime + used.ru_stime
    result.values += [
        Value("rate", "rows per CPU-second", "M rows/CPU-s", [rows / cpu / 1e6]),
        Value("cpu", "the whole command", "CPU-s", [cpu]),
        Value("wall", "the whole command on the clock", "s", [wall]),
        Value("rss", "peak memory", "GiB", [used.ru_maxrss * 1024 / _GIB]),
    ]
    result.notes.append(f"{rows:,} rows, ids such as u123, one run of the command as users run it")
    return result


def _edge_file(context: Context) -> tuple[Path, int]:
    """Return a Parquet file of edges in random order, made once."""
    rows = context.pick(_ROWS, 5000)
    path = graphs.cache() / f"rows-{rows}.parquet"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"partial-{path.name}")
        make = [sys.executable, str(ROOT / "scripts" / "make_edges.py"), str(partial)]
        make += ["--rows", str(rows), "--nodes", str(rows // 25)]
        subprocess.run(make, check=True)
        partial.replace(path)
    return path, rows
