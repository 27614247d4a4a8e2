"""Neighbour sampling without replacement, 25 x 25, 512 seeds a batch, on both large graphs.

The peers' kernels are called directly, without the loaders around them: torch-sparse's, which
torch_geometric's NeighborLoader uses where pyg-lib (not in the package index) is missing.
scikit-network samples for the whole graph at once, one layer, so it gets a comparison of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from benchmarks import graphs, peers
from benchmarks.context import Context
from benchmarks.measure import Side, interleave, timed
from benchmarks.results import OURS, Comparison, Result
from benchmarks.roof import RoofProbe
from graphham.sampling.sampler import NeighborSampler

SEEDS = 512


def measure(context: Context) -> Result:
    """Compare with torch-sparse on two graphs and with scikit-network on one."""
    torch.set_num_threads(1)
    result = Result("sampling")
    reason = peers.reason_missing("torch-sparse")
    if reason:
        result.missing["torch-sparse"] = reason
    else:
        peers.load("torch-sparse")
    for name in ("youtube", "amazon"):
        graph = graphs.load(context.recipe(name))
        result.comparisons.append(_two_layers(context, name, graph, not reason))
    reason = peers.reason_missing_here("scikit-network", "sknetwork")
    if reason:
        result.missing["scikit-network"] = reason
    graph = graphs.load(context.recipe("youtube"))
    result.comparisons.append(_one_layer(context, graph, not reason))
    return result


def _two_layers(context: Context, name: str, graph: Any, with_peer: bool) -> Comparison:
    sampler = NeighborSampler(graph)
    batches = [
        np.random.default_rng(i).choice(graph.num_nodes, SEEDS, replace=False)
        for i in range(context.pick(8, 2))
    ]

    def ours() -> None:
        for number, seeds in enumerate(batches):
            sampler.sample_blocks(seeds, (25, 25), number, self_edge=False)

    sides: dict[str, Side] = {OURS: timed(ours)}
    if with_peer:
        bounds = torch.from_numpy(np.array(graph.indptr, dtype=np.int64))
        columns = torch.from_numpy(np.array(graph.indices, dtype=np.int64))
        inputs = [torch.from_numpy(seeds) for seeds in batches]

        def theirs() -> None:
            for seeds in inputs:
                torch.ops.torch_sparse.neighbor_sample(
                    bounds, columns, seeds, [25, 25], False, True
                )

        sides["torch-sparse kernel"] = timed(theirs)
    edges = sum(
        block.num_edges
        for number, seeds in enumerate(batches)
        for block in sampler.sample_blocks(seeds, (25, 25), number, self_edge=False)
    )
    # A random read of one cache line per sampled edge and another to look up its local row.
    probe = RoofProbe(16, max(1000, graph.num_nodes // 16))
    samples = interleave({**sides, **probe.sides()}, context.rounds(5))
    return Comparison.of(
        name,
        f"{name} size, 25 x 25 neighbours of {SEEDS} seeds",
        "edges",
        edges,
        samples,
        probe.roof(samples),
        8.0 * edges,
        2 * 64.0 * edges,
    )


def _one_layer(context: Context, graph: Any, with_peer: bool) -> Comparison:
    sampler = NeighborSampler(graph)
    rows = np.arange(graph.num_nodes)
    sides: dict[str, Side] = {
        OURS: timed(lambda: sampler.sample_block(rows, 10, 3, self_edge=False))
    }
    if with_peer:
        import scipy.sparse as sp
        from sknetwork.gnn.neighbor_sampler import UniformNeighborSampler

        ones = np.ones(len(graph.indices), dtype=bool)
        matrix = sp.csr_matrix((ones, np.array(graph.indices), np.array(graph.indptr)))
        theirs = UniformNeighborSampler(10)
        sides["scikit-network"] = timed(lambda: theirs(matrix))
    edges = sampler.sample_block(rows, 10, 3, self_edge=False).num_edges
    probe = RoofProbe(16, max(1000, graph.num_nodes // 16))
    samples = interleave({**sides, **probe.sides()}, context.rounds(3))
    return Comparison.of(
        "whole",
        "youtube size, 10 neighbours of every node, one layer",
        "edges",
        edges,
        samples,
        probe.roof(samples),
        8.0 * edges,
        64.0 * edges,
    )
