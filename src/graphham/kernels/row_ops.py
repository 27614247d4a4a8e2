"""Unit vectors by row, forward and backward in one pass each."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from graphham.system.jit import Array, jit
from graphham.system.tensors import new_tensor, readable, runs_reference

_SHORTEST = 1e-12


def unit_rows(x: Tensor) -> Tensor:
    """Return rows of length one; a row of zeros stays."""
    if runs_reference(x):
        return F.normalize(x, dim=1)
    out: Tensor = _Unit.apply(x)  # type: ignore[no-untyped-call]
    return out


def beside_centered(x: Tensor, left: Tensor, center: Tensor, momentum: float) -> Tensor:
    """Return ``left`` and, beside it, the unit rows of x less their running mean, as unit rows.

    Args:
        x: ``(rows, dim)`` states.
        left: ``(rows, width)`` without gradient.
        center: ``(dim,)`` running mean; moved first, by ``momentum``, in place. No gradient goes
            through it.
        momentum: Share of the new mean; 0 leaves the running mean alone.
    """
    if runs_reference(x, left, center):
        unit = F.normalize(x, dim=1)
        if momentum:
            with torch.no_grad():
                center.lerp_(unit.mean(0), momentum)
        # A copy, because the buffer moves on before the backward pass reads it.
        return torch.cat([left, F.normalize(unit - center.clone(), dim=1)], dim=1)
    out: Tensor = _Beside.apply(x, left, center, momentum)  # type: ignore[no-untyped-call]
    return out


def take_rows(x: Tensor, *chosen: Tensor) -> tuple[Tensor, ...]:
    """Return ``x[rows]`` for several lists of rows; their gradients are added up together."""
    if runs_reference(x):
        return tuple(x[rows] for rows in chosen)
    out: tuple[Tensor, ...] = _Take.apply(x, *chosen)  # type: ignore[no-untyped-call]
    return out


class _Take(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *chosen: Tensor) -> tuple[Tensor, ...]:
        ctx.chosen, ctx.shape = chosen, x.shape
        return tuple(x.index_select(0, rows) for rows in chosen)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        out = new_tensor(*ctx.shape).zero_()
        for rows, grad in zip(ctx.chosen, grads, strict=True):
            _add_rows(readable(rows), readable(grad), out.numpy())
        return out, *[None] * len(grads)


@jit
def _add_rows(rows: Array, grad: Array, out: Array) -> None:
    for k in range(len(rows)):
        i = rows[k]
        for d in range(out.shape[1]):
            out[i, d] += grad[k, d]


class _Unit(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        out = new_tensor(*x.shape)
        ctx.lengths = np.empty(len(x), dtype=np.float32)
        normalise(readable(x), out.numpy(), ctx.lengths)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (unit,) = ctx.saved_tensors
        out = new_tensor(*grad.shape)
        normalise_back(readable(unit), ctx.lengths, readable(grad), out.numpy())
        return out


class _Beside(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, left: Tensor, center: Tensor, momentum: float) -> Tensor:
        unit = new_tensor(*x.shape)
        lengths = np.empty((2, len(x)), dtype=np.float32)
        normalise(readable(x), unit.numpy(), lengths[0])
        if momentum:
            center.lerp_(unit.mean(0), momentum)
        width = left.shape[1]
        out = new_tensor(len(x), width + x.shape[1])
        joined = out.numpy()
        _beside(unit.numpy(), readable(left), center.numpy(), joined, lengths[1])
        ctx.lengths, ctx.width = lengths, width
        ctx.save_for_backward(unit, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        unit, joined = ctx.saved_tensors
        out = new_tensor(*unit.shape)
        _beside_back(
            readable(unit), readable(joined), ctx.lengths, readable(grad), ctx.width, out.numpy()
        )
        return out, None, None, None


@jit
def normalise(x: Array, out: Array, lengths: Array) -> None:
    """Write unit rows and the length each row had."""
    rows, dim = x.shape
    for i in range(rows):
        total = np.float32(0.0)
        for d in range(dim):
            total += x[i, d] * x[i, d]
        lengths[i] = max(np.sqrt(total), np.float32(_SHORTEST))
        scale = np.float32(1.0) / lengths[i]
        for d in range(dim):
            out[i, d] = x[i, d] * scale


@jit
def normalise_back(unit: Array, lengths: Array, grad: Array, out: Array) -> None:
    """Turn the gradient of unit rows into that of the rows they were made from."""
    rows, dim = unit.shape
    for i in range(rows):
        along = np.float32(0.0)
        if lengths[i] > np.float32(_SHORTEST):
            for d in range(dim):
                along += unit[i, d] * grad[i, d]
        scale = np.float32(1.0) / lengths[i]
        for d in range(dim):
            out[i, d] = (grad[i, d] - along * unit[i, d]) * scale


@jit
def _beside(unit: Array, left: Array, center: Array, out: Array, lengths: Array) -> None:
    rows, dim = unit.shape
    width = left.shape[1]
    for i in range(rows):
        # A view: the compiler must not doubt that places are positive, or it leaves vectors.
        place = out[i, width:]
        for d in range(width):
            out[i, d] = left[i, d]
        total = np.float32(0.0)
        for d in range(dim):
            place[d] = unit[i, d] - center[d]
        for d in range(dim):
            total += place[d] * place[d]
        lengths[i] = max(np.sqrt(total), np.float32(_SHORTEST))
        scale = np.float32(1.0) / lengths[i]
        for d in range(dim):
            place[d] *= scale


@jit
def _beside_back(
    unit: Array, joined: Array, lengths: Array, grad: Array, width: int, out: Array
) -> None:
    rows, dim = unit.shape
    part = np.empty(dim, dtype=np.float32)
    for i in range(rows):
        made, given = joined[i, width:], grad[i, width:]
        along = np.float32(0.0)
        if lengths[1, i] > np.float32(_SHORTEST):
            for d in range(dim):
                along += made[d] * given[d]
        scale = np.float32(1.0) / lengths[1, i]
        for d in range(dim):
            part[d] = (given[d] - along * made[d]) * scale
        again = np.float32(0.0)
        if lengths[0, i] > np.float32(_SHORTEST):
            for d in range(dim):
                again += unit[i, d] * part[d]
        scale = np.float32(1.0) / lengths[0, i]
        for d in range(dim):
            out[i, d] = (part[d] - again * unit[i, d]) * scale
