"""Read a whole graph layer by layer: every neighbour, a span of nodes at a time.

What is kept for all nodes is one layer's projected states and assignments, the affinities, and the
output itself; nothing is ever as large as the edges. Spans have fixed bounds and are computed by
the same calls whoever computes them, so several processes that share the nodes get the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphham.graph.graph import Graph
from graphham.graph.mapped_features import MappedFeatures, release, trim_heap
from graphham.graph.neighborhoods import Block
from graphham.graph.spans import SPAN, span_of
from graphham.kernels import aggregate, edge_dot, edge_scores, edge_softmax
from graphham.kernels.attention_readout import (
    attend,
    attend_additive,
    lead_with_self,
)
from graphham.model.attention import MembershipAttention
from graphham.model.feature_rows import FeatureRows
from graphham.model.inputs import NodeInputs
from graphham.model.network import GraphHAMNet, activate
from graphham.parallel.ranks import ALONE, Ranks
from graphham.system.jit import Array, frozen
from graphham.system.tensors import runs_reference

Floats = npt.NDArray[np.float32]
_NO_WEIGHTS = frozen(np.empty(0, dtype=np.float32))


@dataclass(frozen=True, eq=False)
class Reading:
    """What the layers say about every node, before the levels are joined.

    Args:
        states: ``(num_nodes, dim)`` raw states h, layer after layer.
        memberships: Per level ``(num_nodes, K_l)`` mean memberships.
        gaps: Per level ``(num_nodes,)`` how far the attentions disagree.
    """

    states: Floats
    memberships: list[Floats]
    gaps: list[Floats]


class LayerWise:
    """A network and a graph, read layer by layer without noise.

    Args:
        model: The network; switched to evaluation.
        inputs: Inputs of the graph's nodes.
        graph: The graph.
        ranks: The processes that share the work; every one gets the whole answer.
        span: Nodes read at once; by the size of the graph when not given.
    """

    def __init__(
        self,
        model: GraphHAMNet,
        inputs: NodeInputs,
        graph: Graph,
        ranks: Ranks = ALONE,
        span: int | None = None,
    ) -> None:
        self.model, self.inputs, self.graph = model.eval(), inputs, graph
        self.ranks, self.span = ranks, span or span_of(graph.num_nodes)
        self.device = next(model.parameters()).device
        self.indptr = frozen(graph.indptr, np.int64)
        self.indices = frozen(graph.indices)
        self.weights = _NO_WEIGHTS if graph.weights is None else frozen(graph.weights, np.float32)

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.graph.num_nodes

    def spans(self) -> Iterator[tuple[int, int]]:
        """Yield the bounds of this process's spans."""
        low, high = self.ranks.own_range(self.num_nodes, self.span)
        for first in range(low, high, self.span):
            yield first, min(first + self.span, high)

    @torch.no_grad()
    def read(self) -> Reading:
        """Run the layers."""
        model, n = self.model, self.num_nodes
        states = np.empty((n, model.settings.dim), dtype=np.float32)
        memberships: list[Floats] = []
        gaps: list[Floats] = []
        trim_heap()  # what the last steps of training left
        for level in range(len(model.groups)):
            membership, gap = self._layer(level, states)
            memberships.append(membership)
            gaps.append(gap)
        return Reading(states, memberships, gaps)

    def _input(self, level: int, states: Floats, first: int, last: int) -> Tensor | FeatureRows:
        if level == 0:
            return self.inputs.span(first, last).to(self.device)
        part = states[first:last, self._columns(level - 1)]
        return torch.from_numpy(np.ascontiguousarray(part)).to(self.device)

    def _columns(self, level: int) -> slice:
        """Return where a layer's states lie beside those of the others."""
        dims = self.model.settings.layer_dims
        first = sum(dims[:level])
        return slice(first, first + dims[level])

    def _layer(self, level: int, states: Floats) -> tuple[Floats, Floats]:
        """Fill in the states of one layer; return its memberships and attention gaps."""
        layer, n = self.model.layer(level), self.num_nodes
        width = layer.heads * layer.out_dim
        given: Tensor | None = None
        if self.model.has_block_groups:
            given = self.model.attention_columns(self.inputs.memberships, level)
        rows = _aligned(n, width + (layer.groups if given is None else given.shape[1]))
        for first, last in self.spans():
            x = self._input(level, states, first, last)
            rows[first:last, :width] = x.matmul(layer.weight).cpu().numpy()
            if given is not None:
                rows[first:last, width:] = given[first:last].cpu().numpy()
            else:
                rows[first:last, width:] = layer.means(layer.affinities(x)).cpu().numpy()
        if level == 0 and isinstance(self.inputs.features, MappedFeatures):
            release(self.inputs.features.raw)  # read once; the states need the room
        self.ranks.share_rows(rows, self.span)
        gap = np.empty(n, dtype=np.float32)
        reader = _Fused(layer, rows) if self._is_plain(layer, given) else _Stepwise(layer, rows)
        columns = self._columns(level)
        is_last = level + 1 == len(self.model.groups)
        for first, last in self.spans():
            h = reader.attend(self, first, last, gap[first:last])
            if layer.shortcut is not None:
                h = h + self._input(level, states, first, last).matmul(layer.shortcut)
            if not is_last:
                h = activate(h, self.model.settings.activation)
            states[first:last, columns] = h.cpu().numpy()
        if self.ranks.count > 1:
            own = np.ascontiguousarray(states[:, columns])
            self.ranks.share_rows(own, self.span)
            states[:, columns] = own
            self.ranks.share_rows(gap, self.span)
        # A copy: it outlives the projected states beside it.
        return rows[:, width : width + layer.groups].copy(), gap

    def _is_plain(self, layer: MembershipAttention, given: Tensor | None) -> bool:
        """Whether the fused loop knows this layer's settings."""
        if given is not None and layer.reads_likeness(given):
            return False
        usual = layer.group_score == "none" or layer.product == "renormalised"
        return usual and self.graph.weights is None and not runs_reference(layer.weight)


class _Fused:
    """Attention in one compiled loop; see :func:`graphham.kernels.attention_readout.attend`."""

    def __init__(self, layer: MembershipAttention, rows: Floats) -> None:
        self.layer, self.rows = layer, rows
        shape = (len(rows), layer.heads, layer.out_dim)
        self.width = layer.heads * layer.out_dim
        self.left = np.empty((len(rows), layer.heads), dtype=np.float32)
        self.right = np.empty_like(self.left)
        for first in range(0, len(rows), SPAN):
            part = torch.from_numpy(rows[first : first + SPAN, : self.width])
            part = part.reshape(-1, *shape[1:])
            self.left[first : first + SPAN] = (part * layer.attention[0]).sum(2).numpy()
            self.right[first : first + SPAN] = (part * layer.attention[1]).sum(2).numpy()
        ends = _group_ends(layer)
        if ends is not None:
            z = torch.from_numpy(rows)[:, self.width :]
            self.left, self.right = (
                np.concatenate([node, (z @ end).numpy()], axis=1)
                for node, end in zip((self.left, self.right), ends, strict=True)
            )

    def attend(self, whole: LayerWise, first: int, last: int, gap: Floats) -> Tensor:
        """Return ``(last - first, out_dim)`` sums over all neighbours; fill in ``gap``."""
        layer = self.layer
        z = torch.from_numpy(self.rows[first:last, self.width :])
        out = torch.empty(last - first, layer.heads, layer.out_dim)
        read = (
            whole.indptr,
            whole.indices,
            first,
            last,
            whole.model.settings.self_edge,
            frozen(self.rows),
            frozen(self.right),
            frozen(self.left[first:last]),
        )
        if layer.group_score == "additive":
            attend_additive(*read, layer.slope, out.numpy(), gap)
            return out.mean(dim=1)
        pulled = np.zeros((last - first, 0), dtype=np.float32)
        if layer.pair_score is not None:
            pulled = (z @ layer.pair_score).numpy()
        attend(*read, frozen(pulled), layer.slope, out.numpy(), gap)
        return out.mean(dim=1)


class _Stepwise:
    """Attention by the same operations as in training; serves every setting and device."""

    def __init__(self, layer: MembershipAttention, rows: Floats) -> None:
        self.layer = layer
        width = layer.heads * layer.out_dim
        columns = torch.from_numpy(rows).to(layer.weight.device)
        self.projected = columns[:, :width].reshape(-1, layer.heads, layer.out_dim)
        self.z = columns[:, width:].contiguous()
        self.left = (self.projected * layer.attention[0]).sum(2)
        self.right = (self.projected * layer.attention[1]).sum(2)
        self.ends = _group_ends(layer)

    def attend(self, whole: LayerWise, first: int, last: int, gap: Floats) -> Tensor:
        """Return ``(last - first, out_dim)`` sums over all neighbours; fill in ``gap``."""
        layer = self.layer
        block = _span_block(whole, first, last)
        e = edge_scores(self.left[first:last], self.right, block, layer.slope)
        f: Tensor | None = None
        z = self.z[first:last]
        if layer.reads_likeness(z):
            f = layer.likeness_scores(z, self.z, block)
        elif layer.pair_score is not None:
            f = edge_dot(z @ layer.pair_score, self.z, block)[:, None]
        elif self.ends is not None:
            f = edge_scores(z @ self.ends[0], self.z @ self.ends[1], block, layer.slope)
        flat = torch.zeros_like(e) if f is None else f.expand_as(e).contiguous()
        alpha = edge_softmax(e, block).mean(1).clamp_min(1e-12)
        lam = edge_softmax(flat, block).mean(1).clamp_min(1e-12)
        gap[:] = mean_gap(alpha, lam, block)
        weights = layer._weights(e, f, block)
        return aggregate(weights, self.projected, block).mean(dim=1)


def mean_gap(alpha: Tensor, lam: Tensor, block: Block) -> Floats:
    """Return ``(num_targets,)`` means of alpha log(alpha / lambda) over each target's edges."""
    term = (alpha * (alpha / lam).log()).cpu().numpy().astype(np.float64)
    count = np.maximum(block.degrees(), 1)
    sums = np.add.reduceat(np.append(term, 0.0), block.indptr[:-1])
    sums[block.degrees() == 0] = 0.0
    return np.maximum(sums / count, 0).astype(np.float32)


def _span_block(whole: LayerWise, first: int, last: int) -> Block:
    """Return the block of some targets whose sources are all nodes, by their graph rows."""
    n = whole.num_nodes
    if whole.model.settings.self_edge:
        parts: tuple[Array, Array, Array] = lead_with_self(
            whole.indptr, whole.indices, whole.weights, first, last
        )
        return Block(parts[0], parts[1], n, True, parts[2] if len(whole.weights) else None)
    low, high = whole.indptr[first], whole.indptr[last]
    weights: Any = whole.weights[low:high] if len(whole.weights) else None
    indptr = whole.indptr[first : last + 1] - low
    return Block(indptr, whole.indices[low:high], n, False, weights)


def _group_ends(layer: MembershipAttention) -> tuple[Tensor, Tensor] | None:
    """Return the ``(groups, heads)`` terms of both ends of the additive group score (E7)."""
    if layer.group_score != "additive":
        return None
    vectors = layer.attention if layer.group_attention is None else layer.group_attention
    psi = (layer.group_embedding @ layer.weight).view(-1, layer.heads, layer.out_dim)
    return (psi * vectors[0]).sum(2), (psi * vectors[1]).sum(2)


def _aligned(rows: int, width: int) -> Floats:
    """Return an uninitialised array that begins on a cache line, so that rows touch few of them."""
    room = np.empty(rows * width + 16, dtype=np.float32)
    skip = -(room.ctypes.data // 4) % 16
    return room[skip : skip + rows * width].reshape(rows, width)
