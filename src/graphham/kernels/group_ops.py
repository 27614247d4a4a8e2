"""Operations on memberships: rows of a few groups, taken through in one pass each.

Torch spends more time on starting an operation, and on softmaxes over a handful of columns, than on
the arithmetic of a graph's memberships. What belongs together is one operation here, its gradient
written out. :mod:`graphham.model.membership` and :mod:`graphham.model.losses` hold the same in
plain torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from graphham.kernels import group_loops as kernels
from graphham.kernels.row_softmax import RowSoftmax
from graphham.system.tensors import new_tensor, readable


def relax(affinity: Tensor, noise: Tensor | None, tau: float) -> Tensor:
    """Return ``softmax((affinity + noise) / tau)`` by row (E4)."""
    out: Tensor = _called(_Relax, affinity, noise, tau)
    return out


def chance_violation(lower: Tensor, upper: Tensor, must: float, cannot: float) -> Tensor:
    """Return the constraints between two levels (E13), relative to independent levels.

    The must-link term moves only the upper level and the cannot-link term only the lower one.
    """
    out: Tensor = _called(_Violation, lower, upper, must, cannot)
    return out


class _Relax(RowSoftmax):
    @staticmethod
    def forward(ctx: Any, affinity: Tensor, noise: Tensor | None, tau: float) -> Tensor:
        out, sharpness = new_tensor(*affinity.shape), np.float32(1 / tau)
        scores = readable(affinity if noise is None else affinity + noise)
        kernels.softmax(scores, sharpness, out.numpy())
        return RowSoftmax.keep(
            ctx, out, lambda z, grad, to: kernels.softmax_back(z, grad, sharpness, to)
        )


class _Violation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lower: Tensor, upper: Tensor, must: float, cannot: float) -> Tensor:
        both = torch.mm(lower.t(), upper)
        grads = torch.mm(upper, both.t()), torch.mm(lower, both)
        value = kernels.violation(
            readable(lower),
            readable(upper),
            readable(both),
            must,
            cannot,
            grads[0].numpy(),
            grads[1].numpy(),
        )
        ctx.save_for_backward(*grads)
        return torch.tensor((must + cannot) * value, dtype=torch.float32)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        lower, upper = ctx.saved_tensors
        return grad * lower, grad * upper, None, None


def _called(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    return function.apply(*arguments)  # type: ignore[no-untyped-call]
