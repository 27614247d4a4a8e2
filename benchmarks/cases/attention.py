"""The attention block, forward and backward, on the first-layer block of a training step.

Both sides get the same block (256 targets of the Amazon-size graph, 25 x 25 neighbours), the same
input and the same incoming gradient. torch_geometric gets its edge list ready-made.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from benchmarks import graphs, peers
from benchmarks.cases.names import GATCONV, WITH_GROUPS
from benchmarks.context import Context
from benchmarks.measure import Side, interleave, timed
from benchmarks.results import OURS, Comparison, Result
from benchmarks.roof import RoofProbe
from graphham.graph.neighborhoods import Block
from graphham.kernels import mean_aggregate
from graphham.kernels.assignments import Assigned
from graphham.model.attention import MembershipAttention
from graphham.sampling.sampler import NeighborSampler

GROUPS = 16
DIM = 64


def measure(context: Context) -> Result:
    """Compare the block with GATConv and SAGEConv, with and without an input gradient."""
    torch.set_num_threads(1)
    result = Result("attention")
    graph = graphs.load(context.recipe("amazon"))
    seeds = np.random.default_rng(0).choice(graph.num_nodes, 256, replace=False)
    block = NeighborSampler(graph).sample_blocks(seeds, (25, 25), 7)[0]
    result.notes.append(
        f"block of {block.num_targets:,} targets, {block.num_sources:,} sources, "
        f"{block.num_edges:,} edges; input and output {DIM} wide"
    )
    result.notes.append(
        "group terms of the additive score come ready-made from the pass that assigns groups, as "
        "in a training step, and are not part of the block; terms and assignments get gradients"
    )
    reason = peers.reason_missing_here("torch_geometric", "torch_geometric")
    if reason:
        result.missing["torch_geometric"] = reason
    for heads in (1, 4):
        for needs_input in (False, True):
            result.comparisons.append(
                _attention(context, block, heads, needs_input, with_peer=not reason)
            )
    result.comparisons.append(_mean(context, block, with_peer=not reason))
    return result


def _attention(
    context: Context, block: Block, heads: int, needs_input: bool, with_peer: bool
) -> Comparison:
    torch.manual_seed(0)
    x = torch.randn(block.num_sources, DIM)
    z = torch.randn(block.num_sources, GROUPS).softmax(1).requires_grad_()
    # As in a training step: the sources' terms come from the pass that assigns them, and learn.
    terms = torch.randn(block.num_sources, heads).requires_grad_()
    incoming = torch.randn(block.num_targets, DIM)
    sides: dict[str, Side] = {}
    for score, name in {"none": OURS, **WITH_GROUPS}.items():
        layer = MembershipAttention(DIM, DIM, GROUPS, heads, group_score=score)  # type: ignore[arg-type]
        assigned = Assigned(z, z, z[:0], terms if score == "additive" else None)
        sides[name] = timed(_ours(layer, block, x, assigned, incoming, needs_input))
    if with_peer:
        # Compiling takes longer than all that is timed, so it is done for one head only.
        compiled = heads == 1 and not context.quick
        sides |= _gat_sides(block, x, incoming, heads, needs_input, compiled)
    probe = RoofProbe(DIM, block.num_sources)
    samples = interleave({**sides, **probe.sides()}, context.rounds(11))
    row = 4 * DIM
    # Every source row is read once per edge forward and once backward (the score's gradient); an
    # input gradient is written once, after a pass over the edges by source.
    gathered = block.num_edges * row * (3 if needs_input else 2)
    streamed = block.num_targets * row * 3 * heads + block.num_edges * 4 * (2 + 2 * heads)
    streamed += block.num_sources * row if needs_input else 0
    kind = "with" if needs_input else "without"
    return Comparison.of(
        f"{heads}-{'dx' if needs_input else 'nox'}",
        f"{heads} head{'s' if heads > 1 else ''}, input {kind} gradient",
        "edges",
        block.num_edges,
        samples,
        probe.roof(samples),
        streamed,
        gathered,
    )


def _ours(
    layer: MembershipAttention,
    block: Block,
    x: torch.Tensor,
    assigned: Assigned,
    incoming: torch.Tensor,
    needs_input: bool,
) -> Any:
    def work() -> None:
        layer.zero_grad(set_to_none=True)
        for leaf in (assigned.z, assigned.terms):
            if leaf is not None:
                leaf.grad = None
        states = x.clone().requires_grad_(True) if needs_input else x
        # A step has a block of its own, so what the block remembers does not carry over.
        fresh = Block(block.indptr, block.indices, block.num_sources)
        layer.propagate(states, fresh, assigned).backward(incoming)  # type: ignore[no-untyped-call]

    return work


def _gat_sides(
    block: Block,
    x: torch.Tensor,
    incoming: torch.Tensor,
    heads: int,
    needs_input: bool,
    compiled: bool,
) -> dict[str, Side]:
    from torch_geometric.nn import GATConv

    conv = GATConv(DIM, DIM, heads, concat=False, add_self_loops=False, bias=False)
    edges = _edge_index(block)
    count = block.num_targets

    def forward(states: torch.Tensor, net: Any) -> torch.Tensor:
        out: torch.Tensor = net((states, states[:count]), edges, size=(len(states), count))
        return out

    def work(net: Any) -> Any:
        def run() -> None:
            conv.zero_grad(set_to_none=True)
            states = x.clone().requires_grad_(True) if needs_input else x
            forward(states, net).backward(incoming)  # type: ignore[no-untyped-call]

        return run

    sides = {GATCONV: timed(work(conv))}
    if compiled:
        sides[f"{GATCONV}, torch.compile"] = timed(work(torch.compile(conv, dynamic=False)))
    return sides


def _mean(context: Context, block: Block, with_peer: bool) -> Comparison:
    """Compare the mean of GraphSAGE, with the linear layers around it."""
    torch.manual_seed(0)
    x = torch.randn(block.num_sources, DIM)
    incoming = torch.randn(block.num_targets, DIM)
    own, other = torch.nn.Linear(DIM, DIM), torch.nn.Linear(DIM, DIM, bias=False)
    count = block.num_targets

    def ours() -> None:
        own.zero_grad(set_to_none=True)
        other.zero_grad(set_to_none=True)
        out = own(x[:count]) + other(mean_aggregate(x, block))
        out.backward(incoming)

    sides = {OURS: timed(ours)}
    if with_peer:
        from torch_geometric.nn import SAGEConv

        conv = SAGEConv((DIM, DIM), DIM)
        edges = _edge_index(block)

        def theirs() -> None:
            conv.zero_grad(set_to_none=True)
            conv((x, x[:count]), edges, size=(len(x), count)).backward(incoming)

        sides["SAGEConv"] = timed(theirs)
    probe = RoofProbe(DIM, block.num_sources)
    samples = interleave({**sides, **probe.sides()}, context.rounds(5))
    return Comparison.of(
        "mean",
        "mean of GraphSAGE, input without gradient",
        "edges",
        block.num_edges,
        samples,
        probe.roof(samples),
        count * DIM * 12.0 + block.num_edges * 8.0,
        block.num_edges * DIM * 4.0,
    )


def _edge_index(block: Block) -> torch.Tensor:
    edges = np.stack([block.indices, block.edge_targets]).astype(np.int64)
    return torch.from_numpy(edges)
