"""60 million edge rows with string ids, Parquet to store, by the command a user runs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

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
    graph = graphs.load(context.recipe("amazon"))
    wanted = context.pick(_ROWS, 5000)
    path = graphs.cache() / f"rows-{wanted}.parquet"
    if path.is_file():
        return path, pq.ParquetFile(path).metadata.num_rows
    names = pa.array([f"u{row}" for row in range(graph.num_nodes)])
    partial = path.with_suffix(".partial")
    schema = pa.schema({"source": pa.string(), "target": pa.string()})
    written = 0
    rng = np.random.default_rng(0)
    spans = np.array_split(np.arange(graph.num_nodes), max(1, graph.num_nodes // 50_000))
    with pq.ParquetWriter(partial, schema) as writer:
        for number in rng.permutation(len(spans)):
            low, high = int(spans[number][0]), int(spans[number][-1]) + 1
            part = slice(int(graph.indptr[low]), int(graph.indptr[high]))
            source = np.repeat(np.arange(low, high), np.diff(graph.indptr[low : high + 1]))
            target = np.asarray(graph.indices[part]).astype(np.int64)
            keep = rng.permutation(np.flatnonzero(source < target))[: wanted - written]
            columns = [pc.take(names, pa.array(ends[keep])) for ends in (source, target)]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
            written += len(keep)
            if written >= wanted:
                break
    partial.replace(path)
    return path, written
