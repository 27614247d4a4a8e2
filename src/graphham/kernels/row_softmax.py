"""What every compiled softmax does for autograd: its gradient needs the result alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from graphham.system.jit import Array
from graphham.system.tensors import new_tensor, readable


class RowSoftmax(torch.autograd.Function):
    """A softmax of its first argument; a subclass writes ``forward`` and ends it in ``keep``."""

    @staticmethod
    def keep(ctx: Any, out: Tensor, back: Callable[[Array, Array, Array], None]) -> Tensor:
        """Remember the result of ``forward`` and return it.

        Args:
            ctx: As autograd gives it.
            out: The softmax.
            back: Takes the softmax and its gradient, and writes the gradient of what went in.
        """
        ctx.back = back
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient of the first argument; the others have none."""
        (z,) = ctx.saved_tensors
        out = new_tensor(*grad.shape)
        ctx.back(readable(z), readable(grad), out.numpy())
        return out, *[None] * (len(ctx.needs_input_grad) - 1)
