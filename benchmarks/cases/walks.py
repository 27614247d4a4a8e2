"""Uniform random walks of ten steps from every node of a Youtube-size graph.

torch-cluster's kernel runs in this process. PecanPy, ensmallen and karateclub need another NumPy,
so each runs in a process of its own that answers one round at a time: A B A B.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import graphs, peers
from benchmarks.context import Context
from benchmarks.measure import Side, interleave, timed
from benchmarks.remote import Remote
from benchmarks.results import OURS, Comparison, Result
from benchmarks.roof import RoofProbe
from graphham.sampling import walk_contexts

STEPS = 10
# karateclub walks in plain Python over a NetworkX graph; a small one must do.
_SMALL = graphs.Recipe(20_000, 5.25, (4, 5), 1)


def measure(context: Context) -> Result:
    """Compare with three engines on the large graph and with karateclub on a small one."""
    torch.set_num_threads(1)
    result = Result("walks")
    graph = graphs.load(context.recipe("youtube"))
    result.comparisons.append(_compare(context, result, "youtube", graph, _LARGE, 5))
    graph = graphs.load(graphs.Recipe(500, 5.25, (2, 2), 1) if context.quick else _SMALL)
    result.comparisons.append(_compare(context, result, "small", graph, _SLOW, 3))
    return result


_LARGE = ("torch-cluster", "ensmallen", "pecanpy")
_SLOW = ("karateclub",)


def _compare(
    context: Context,
    result: Result,
    name: str,
    graph: Any,
    engines: tuple[str, ...],
    rounds: int,
) -> Comparison:
    rows = np.random.default_rng(0).permutation(graph.num_nodes)
    sides: dict[str, Side] = {OURS: timed(lambda: walk_contexts(graph, rows, 1, STEPS, 5), 0.5)}
    remotes: list[Remote] = []
    with tempfile.TemporaryDirectory() as held:
        folder = Path(held)
        np.save(folder / "indptr.npy", np.array(graph.indptr, dtype=np.int64))
        np.save(folder / "indices.npy", np.array(graph.indices, dtype=np.int64))
        try:
            for engine in engines:
                reason = peers.reason_missing(engine)
                if engine == "torch-cluster" and not reason:
                    sides[engine] = _torch_cluster(graph, rows)
                elif not reason:
                    remote = Remote("walks", "benchmarks.walk_peers", engine, str(folder), "10")
                    reason = remote.failure
                    if not reason:
                        remotes.append(remote)
                        sides[engine] = remote.side
                if reason:
                    result.missing[engine] = reason
            # Two dependent random reads a step: the row's bounds, and one of its entries.
            probe = RoofProbe(16, max(1000, len(graph.indices) // 16))
            samples = interleave({**sides, **probe.sides()}, context.rounds(rounds))
        finally:
            for remote in remotes:
                remote.close()
    steps = graph.num_nodes * STEPS
    return Comparison.of(
        name,
        f"{graph.num_nodes:,} nodes, one walk of {STEPS} steps from each",
        "steps",
        steps,
        samples,
        probe.roof(samples),
        4.0 * steps,
        2 * 64.0 * steps,
    )


def _torch_cluster(graph: Any, rows: Any) -> Side:
    peers.load("torch-cluster")
    bounds = torch.from_numpy(np.array(graph.indptr, dtype=np.int64))
    columns = torch.from_numpy(np.array(graph.indices, dtype=np.int64))
    start = torch.from_numpy(rows)
    walk = torch.ops.torch_cluster.random_walk
    return timed(lambda: walk(bounds, columns, start, STEPS, 1.0, 1.0), 0.5)
