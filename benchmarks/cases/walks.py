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
from graphham.methods.deepwalk import DeepWalk
from graphham.sampling.walks import walk_contexts

STEPS = 10
# karateclub walks in plain Python over a NetworkX graph; a small one must do.
_SMALL = graphs.Recipe(20_000, 5.25, (4, 5), 1)


def measure(context: Context) -> Result:
    """Compare with three engines on the large graph and with karateclub on a small one."""
    torch.set_num_threads(1)
    result = Result("walks")
    graph = graphs.load(context.recipe("youtube"))
    result.comparisons.append(_compare(context, result, "youtube", graph, _LARGE, 3))
    graph = graphs.load(graphs.Recipe(500, 5.25, (2, 2), 1) if context.quick else _SMALL)
    result.comparisons.append(_compare(context, result, "small", graph, _SLOW, 3))
    result.comparisons.append(_deepwalk(context, result, graph))
    result.notes.append(
        "a call of PecanPy also compiles its step and maps ids back, which its rate includes; "
        "gensim is given its walks ready-made where our DeepWalk makes its own"
    )
    return result


def _deepwalk(context: Context, result: Result, graph: Any) -> Comparison:
    """Compare one round of DeepWalk: 40 steps, window 5, 5 negatives, 128 numbers a node."""
    sides: dict[str, Side] = {
        OURS: timed(lambda: DeepWalk(walks=1, walk_length=40, dim=128).fit(graph), 0.5)
    }
    with tempfile.TemporaryDirectory() as held:
        _save_rows(graph, Path(held))
        reason = peers.reason_missing("gensim")
        remote = None if reason else Remote("walks", "benchmarks.walk_peers", "gensim", held, "40")
        if remote is not None and not remote.failure:
            sides["gensim"] = remote.side
        elif remote is not None:
            reason = remote.failure
        if reason:
            result.missing["gensim"] = reason
        try:
            probe = RoofProbe(128, graph.num_nodes)
            samples = interleave({**sides, **probe.sides()}, context.rounds(3))
        finally:
            if remote is not None:
                remote.close()
    tokens = graph.num_nodes * 41
    # About 6 contexts a token (half the window on average), each with 5 negatives read and written.
    gathered = tokens * 6.0 * 6 * 2 * 512
    return Comparison.of(
        "deepwalk",
        f"DeepWalk, {graph.num_nodes:,} nodes, one walk of 40 steps from each",
        "tokens",
        tokens,
        samples,
        probe.roof(samples),
        0.0,
        gathered,
    )


def _save_rows(graph: Any, folder: Path) -> None:
    np.save(folder / "indptr.npy", np.array(graph.indptr, dtype=np.int64))
    np.save(folder / "indices.npy", np.array(graph.indices, dtype=np.int64))


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
        _save_rows(graph, folder)
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
