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
