"""The skip-gram loss of targets with rows of a table, forward and backward in one pass (E11)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from graphham.jit import Array, frozen
from graphham.ops import pair_kernels as kernels
from graphham.ops.attention import readable


class PairGradient:
    """What the backward pass left for the rows of a table.

    Args:
        rows: ``(anchors, contexts)`` int64 table rows, -1 for none.
        target: ``(anchors, dim)`` what the rows were multiplied with.
        slopes: ``(anchors, contexts)`` derivatives of the sum of losses by the scores.
        count: Number of pairs.
    """

    def __init__(self, rows: Array, target: Array, slopes: Array, count: int) -> None:
        self.rows, self.target, self.slopes, self.count = rows, target, slopes, count
        self.scale: float | None = None  # unknown until the backward pass has run

    def _keys(self) -> Array:
        # The pair's number makes every key distinct: rows are added up in the order of pairs.
        return frozen(np.sort(kernels.pair_keys(self.rows, self.count)))

    def update(self, weight: Tensor, squares: Tensor, lr: float) -> None:
        """Take one row-wise Adagrad step in place; nothing without a backward pass."""
        if self.scale is None or not self.count:
            return
        kernels.pair_update(
            self._keys(),
            self.slopes,
            self.target,
            self.scale,
            lr,
            weight.numpy(),
            squares.numpy(),
        )

    def summed(self) -> tuple[Tensor, Tensor] | None:
        """Return the distinct rows and the gradient of each; ``None`` without a backward pass."""
        if self.scale is None or not self.count:
            return None
        rows, grads = kernels.pair_gradients(self._keys(), self.slopes, self.target, self.scale)
        return torch.from_numpy(rows), torch.from_numpy(grads)


def update_rows(weight: Tensor, squares: Tensor, rows: Tensor, grads: Tensor, lr: float) -> None:
    """Take one row-wise Adagrad step in place; gradients of one row are added in their order.

    Args:
        weight: ``(table rows, dim)`` table.
        squares: ``(table rows,)`` mean squares of the gradients so far.
        rows: ``(count,)`` rows of the table, in any order, also repeated.
        grads: ``(count, dim)`` their gradients.
        lr: Learning rate.
    """
    if weight.device.type == "cpu":
        named = frozen(rows.numpy(), np.int64)
        order = np.argsort(named, kind="stable")
        kernels.row_update(
            frozen(order), named, readable(grads), lr, weight.numpy(), squares.numpy()
        )
        return
    unique, place = torch.unique(rows, return_inverse=True)
    total = grads.new_zeros(len(unique), grads.shape[1]).index_add_(0, place, grads)
    squares[unique] += total.square().mean(1)
    scale = lr / (squares[unique].sqrt() + 1e-8)
    weight[unique] -= scale[:, None] * total


def pair_loss(
    target: Tensor, gate: Tensor | None, values: Tensor, rows: Tensor, sign: float
) -> tuple[Tensor, PairGradient | None]:
    """Return the mean of -log sigmoid(sign * gate_a * target_a . values_r) over all pairs.

    Args:
        target: ``(anchors, dim)`` float32 vectors on the CPU.
        gate: ``(anchors,)`` ones whose gradient is wanted (straight-through), or ``None``.
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
    held: list[PairGradient] = []
    loss = _PairLoss.apply(target, gate, lever, values, rows, sign, held)  # type: ignore[no-untyped-call]
    return loss, held[0]


def _run(target: Tensor, values: Tensor, rows: Tensor, sign: float) -> tuple[Any, ...]:
    vectors, places = readable(target), frozen(rows.numpy(), np.int64)
    slopes = np.empty(places.shape, dtype=np.float32)
    grad_target = np.empty(vectors.shape, dtype=np.float32)
    grad_gate = np.empty(len(vectors), dtype=np.float32)
    total, count = kernels.pair_forward(
        readable(values), vectors, places, sign, slopes, grad_target, grad_gate
    )
    loss = torch.tensor(total / max(count, 1), dtype=torch.float32)
    return loss, PairGradient(places, vectors, frozen(slopes), count), grad_target, grad_gate


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
        held: list[PairGradient],
    ) -> Tensor:
        loss, ctx.record, ctx.grad_target, ctx.grad_gate = _run(target, values, rows, sign)
        held.append(ctx.record)
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
