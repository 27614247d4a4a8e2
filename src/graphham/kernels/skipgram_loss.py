"""The skip-gram loss of targets with rows of a table, forward and backward in one pass (E11)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from graphham.kernels import skipgram_loops as kernels
from graphham.system.jit import Array, frozen
from graphham.system.tensors import readable, runs_reference


@dataclass(frozen=True, eq=False)
class RowPairs:
    """The gradient of some rows of a table, as pairs of a row and a target that were multiplied.

    A few hundred targets meet tens of thousands of rows, so this is a twentieth of the gradient
    written out. Row ``rows[p]`` gets ``slopes[p] * targets[anchors[p]]``, in the order of pairs.

    Args:
        rows: ``(pairs,)`` int64 table rows, also repeated; those below zero are not meant.
        slopes: ``(pairs,)`` float32.
        anchors: ``(pairs,)`` int32 rows of ``targets``.
        targets: ``(anchors, dim)`` float32.
    """

    rows: Tensor
    slopes: Tensor
    anchors: Tensor
    targets: Tensor

    @classmethod
    def plain(cls, rows: Tensor, grads: Tensor) -> RowPairs:
        """Return gradients written out, ``(count, dim)`` of ``(count,)`` rows, in this form."""
        anchors = torch.arange(len(rows), dtype=torch.int32, device=rows.device)
        return cls(rows, grads.new_ones(len(rows)), anchors, grads)

    @classmethod
    def joined(cls, parts: Sequence[RowPairs]) -> RowPairs:
        """Return all pairs of some parts, one part after the other.

        Parts in a row with the same targets, such as a step's true and sampled contexts, keep one
        copy of them.
        """
        moved: list[Tensor] = []
        targets: list[Tensor] = []
        first = 0
        for part in parts:
            if not targets or not _same(part.targets, targets[-1]):
                first += len(targets[-1]) if targets else 0
                targets.append(part.targets)
            moved.append(part.anchors + first)
        return cls(
            torch.cat([part.rows for part in parts]),
            torch.cat([part.slopes for part in parts]),
            torch.cat(moved),
            torch.cat(targets),
        )

    def by_owner(self, bounds: Sequence[int]) -> list[RowPairs]:
        """Return the pairs of each owner, which has the rows from one bound to the next.

        The last bound is above all rows.
        """
        if self.rows.device.type == "cpu":
            *ordered, starts = kernels.sort_pairs(
                frozen(self.rows.numpy()),
                readable(self.slopes),
                frozen(self.anchors.numpy()),
                frozen(bounds, np.int64),
            )
            rows, slopes, anchors = map(torch.from_numpy, ordered)
            return [
                RowPairs(rows[a:b], slopes[a:b], anchors[a:b], self.targets)._narrowed()
                for a, b in itertools.pairwise(starts.tolist())
            ]
        found: list[RowPairs] = []
        for low, high in itertools.pairwise(bounds):
            own = ((self.rows >= low) & (self.rows < high)).nonzero()[:, 0]
            part = RowPairs(self.rows[own], self.slopes[own], self.anchors[own], self.targets)
            found.append(part._narrowed())
        return found

    def _narrowed(self) -> RowPairs:
        """Leave out targets that no pair names, where there must be such.

        Gradients written out are targets of one pair each; every owner gets its own and no others.
        """
        if len(self.rows) >= len(self.targets):
            return self
        used, anchors = torch.unique(self.anchors, return_inverse=True)
        return RowPairs(self.rows, self.slopes, anchors.to(torch.int32), self.targets[used])

    def packed(self) -> Tensor:
        """Return all of a pair in two numbers: ``(pairs, 2)`` int64."""
        rest = torch.stack([self.slopes.view(torch.int32), self.anchors], 1).view(torch.int64)
        return torch.cat([self.rows[:, None], rest], 1)

    @classmethod
    def unpacked(cls, packed: Tensor, targets: Tensor) -> RowPairs:
        """Return the pairs that were packed."""
        # Rows in the first two of four half-words, then slopes, then anchors.
        words = packed.view(torch.int32)
        slopes = words[:, 2].clone().view(torch.float32)
        return cls(packed[:, 0].clone(), slopes, words[:, 3].clone(), targets)

    def update(self, weight: Tensor, squares: Tensor, lr: float) -> None:
        """Take one row-wise Adagrad step in place, on the sum of each row's gradients.

        Args:
            weight: ``(table rows, dim)`` table.
            squares: ``(table rows,)`` mean squares of the gradients so far.
            lr: Learning rate.
        """
        if not runs_reference(weight):
            bits = len(self.rows).bit_length()
            assert len(weight) < 1 << (63 - bits)
            keys = kernels.pair_keys(frozen(self.rows.numpy()), bits)
            kernels.pair_update(
                frozen(np.sort(keys)),
                bits,
                readable(self.slopes),
                frozen(self.anchors.numpy()),
                readable(self.targets),
                lr,
                weight.numpy(),
                squares.numpy(),
            )
            return
        meant = (self.rows >= 0).nonzero()[:, 0]
        grads = self.slopes[meant, None] * self.targets[self.anchors[meant]]
        unique, place = torch.unique(self.rows[meant], return_inverse=True)
        total = grads.new_zeros(len(unique), grads.shape[1]).index_add_(0, place, grads)
        squares[unique] += total.square().mean(1)
        scale = lr / (squares[unique].sqrt() + 1e-8)
        weight[unique] -= scale[:, None] * total


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are one piece of memory."""
    return one.data_ptr() == other.data_ptr() and one.shape == other.shape


class PairGradient:
    """What the backward pass left for the rows of a table.

    Args:
        rows: ``(anchors, contexts)`` int64 table rows, -1 for none.
        target: ``(anchors, dim)`` what the rows were multiplied with.
        slopes: ``(anchors, contexts)`` derivatives of the sum of losses by the scores.
        count: Number of pairs.
    """

    def __init__(self, rows: Array, target: Tensor, slopes: Array, count: int) -> None:
        self.rows, self.target, self.slopes, self.count = rows, target, slopes, count
        self.scale: float | None = None  # unknown until the backward pass has run

    def pairs(self) -> RowPairs | None:
        """Return the gradient of the rows; ``None`` without a backward pass."""
        if self.scale is None or not self.count:
            return None
        anchors, contexts = self.rows.shape
        return RowPairs(
            torch.from_numpy(np.array(self.rows).reshape(-1)),
            torch.from_numpy((self.slopes * np.float32(self.scale)).reshape(-1)),
            torch.from_numpy(np.repeat(np.arange(anchors, dtype=np.int32), contexts)),
            self.target,
        )


def left_for_table(lookup: tuple[Tensor, Tensor] | PairGradient) -> RowPairs | None:
    """Return what one use of a table left for it; ``None`` without a backward pass.

    Args:
        lookup: Of a loss by pairs, its record; of a look-up, the rows and the leaf they became.
    """
    if isinstance(lookup, PairGradient):
        return lookup.pairs()
    rows, leaf = lookup
    return None if leaf.grad is None else RowPairs.plain(rows, leaf.grad)


def pair_loss(
    target: Tensor, gate: Tensor | None, values: Tensor, rows: Tensor, sign: float
) -> tuple[Tensor, PairGradient | None]:
    """Return the mean of -log sigmoid(sign * gate_a * target_a . values_r) over all pairs.

    Args:
        target: ``(anchors, dim)`` float32 vectors on the CPU.
        gate: ``(anchors,)`` ones whose gradient is asked for (straight-through), or ``None``.
        values: ``(table rows, dim)`` table; it gets no gradient by autograd.
        rows: ``(anchors, contexts)`` table rows, -1 for none.
        sign: 1 for true contexts, -1 for sampled ones.

    Returns:
        The loss, zero without pairs, and where the table's gradient will be found.
    """
    gate = target.new_ones(len(target)) if gate is None else gate
    if not torch.is_grad_enabled():
        loss: Tensor = _run(target, values, rows, sign)[0]
        return loss, None
    # A target without gradient must not keep the table from learning.
    lever = torch.zeros((), requires_grad=True)
    records: list[PairGradient] = []
    loss = _PairLoss.apply(target, gate, lever, values, rows, sign, records)  # type: ignore[no-untyped-call]
    return loss, records[0]


def _run(target: Tensor, values: Tensor, rows: Tensor, sign: float) -> tuple[Any, ...]:
    vectors, places = readable(target), frozen(rows.numpy(), np.int64)
    slopes = np.empty(places.shape, dtype=np.float32)
    grad_target = np.empty(vectors.shape, dtype=np.float32)
    grad_gate = np.empty(len(vectors), dtype=np.float32)
    total, count = kernels.pair_forward(
        readable(values), vectors, places, sign, slopes, grad_target, grad_gate
    )
    loss = torch.tensor(total / max(count, 1), dtype=torch.float32)
    record = PairGradient(places, target.detach(), frozen(slopes), count)
    return loss, record, grad_target, grad_gate


class _PairLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        target: Tensor,
        gate: Tensor,
        lever: Tensor,
        values: Tensor,
        rows: Tensor,
        sign: float,
        records: list[PairGradient],
    ) -> Tensor:
        loss, ctx.record, ctx.grad_target, ctx.grad_gate = _run(target, values, rows, sign)
        records.append(ctx.record)
        out: Tensor = loss
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scale = float(grad) / max(ctx.record.count, 1)
        ctx.record.scale = scale
        target = torch.from_numpy(ctx.grad_target) * scale
        gate = torch.from_numpy(ctx.grad_gate) * scale
        return target, gate, torch.zeros(()), None, None, None, None
