"""Differentiable operations over the edges of a block, compiled where that is possible.

On the CPU in float32 each operation runs the loops of :mod:`graphham.kernels.edge_loops`, forward
and backward. On other devices, in float64, and where ``GRAPHHAM_OPS=reference`` is set, the
plain torch versions of :mod:`graphham.kernels.reference` run instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from graphham.errors import InputError
from graphham.kernels import edge_loops as kernels
from graphham.kernels import reference
from graphham.kernels.row_softmax import RowSoftmax
from graphham.system.jit import Array, frozen
from graphham.system.tensors import new_tensor, readable, runs_reference

if TYPE_CHECKING:
    from graphham.graph.neighborhoods import Block

IN_ORDER = frozen(np.empty(0, dtype=np.int32))


def edge_scores(left: Tensor, right: Tensor, block: Block, slope: float = 0.2) -> Tensor:
    """Score each edge by a term of its target and a term of its source.

    Args:
        left: ``(num_targets, heads)`` terms of the targets.
        right: ``(num_sources, heads)`` terms of the sources.
        block: The neighbourhood.
        slope: Slope of the LeakyReLU below zero, not negative.

    Returns:
        ``(num_edges, heads)`` LeakyReLU(left_i + right_j).
    """
    _check_ends(left, right, block)
    if slope < 0:
        raise InputError(f"the slope of the LeakyReLU must not be negative, got {slope}")
    if runs_reference(left, right):
        return reference.edge_scores(left, right, block, slope)
    return _called(_EdgeScores, left, right, block, slope)


def edge_dot(left: Tensor, right: Tensor, block: Block) -> Tensor:
    """Score each edge by the dot product of its two ends.

    Args:
        left: ``(num_targets, dim)`` vectors of the targets.
        right: ``(num_sources, dim)`` vectors of the sources.
        block: The neighbourhood.

    Returns:
        ``(num_edges,)`` dot products; nothing of size edges x dim is made.
    """
    _check_ends(left, right, block)
    if runs_reference(left, right):
        return reference.edge_dot(left, right, block)
    return _called(_EdgeDot, left, right, block)


def edge_softmax(logits: Tensor, block: Block) -> Tensor:
    """Normalise edge logits over each target's edges.

    Args:
        logits: ``(num_edges, heads)``.
        block: The neighbourhood; a target without edges is skipped.

    Returns:
        ``(num_edges, heads)`` weights that sum to one over each target's edges.
    """
    check_rows("logits", logits, block.num_edges, 2)
    if runs_reference(logits):
        return reference.edge_softmax(logits, block)
    return _called(_EdgeSoftmax, logits, block)


def aggregate(weights: Tensor, values: Tensor, block: Block) -> Tensor:
    """Add up each target's source values, weighted by edge and head.

    Args:
        weights: ``(num_edges, heads)`` edge weights.
        values: ``(num_sources, heads, dim)`` source values.
        block: The neighbourhood.

    Returns:
        ``(num_targets, heads, dim)`` sums; zero for a target without edges.
    """
    check_rows("weights", weights, block.num_edges, 2)
    check_rows("values", values, block.num_sources, 3)
    _samecheck_rows("weights", weights, "values", values)
    if runs_reference(weights, values):
        return reference.aggregate(weights, values, block)
    return _called(_Aggregate, weights, values, block)


def mean_aggregate(values: Tensor, block: Block) -> Tensor:
    """Average each target's source values, by the block's weights where it has them.

    Args:
        values: ``(num_sources, dim)`` source values.
        block: The neighbourhood.

    Returns:
        ``(num_targets, dim)`` means; zero for a target without edges.
    """
    check_rows("values", values, block.num_sources, 2)
    if runs_reference(values):
        return reference.mean_aggregate(values, block)
    return _called(_MeanAggregate, values, block)


def gather(
    indptr: Array, columns: Array, positions: Array, weights: Array, values: Array
) -> Tensor:
    """Return ``gather_sum`` as a new ``(rows, heads, dim)`` tensor."""
    out = new_tensor(len(indptr) - 1, *values.shape[1:])
    kernels.gather_sum(indptr, columns, positions, weights, values, out.numpy())
    return out


class _EdgeScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, block: Block, slope: float) -> Tensor:
        out = new_tensor(block.num_edges, left.shape[1])
        kernels.score_forward(
            block.indptr, block.indices, readable(left), readable(right), slope, out.numpy()
        )
        ctx.block, ctx.slope = block, slope
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        block = ctx.block
        (scores,) = ctx.saved_tensors
        grad_left = new_tensor(block.num_targets, grad.shape[1])
        grad_right = new_tensor(block.num_sources, grad.shape[1]).zero_()
        kernels.score_backward(
            block.indptr,
            block.indices,
            readable(scores),
            readable(grad),
            ctx.slope,
            grad_left.numpy(),
            grad_right.numpy(),
        )
        return grad_left, grad_right, None, None


class _EdgeDot(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, block: Block) -> Tensor:
        out = new_tensor(block.num_edges, 1)
        kernels.edge_inner(
            block.indptr,
            block.indices,
            readable(left)[:, None],
            readable(right)[:, None],
            out.numpy(),
        )
        ctx.block = block
        ctx.save_for_backward(left, right)
        return out.squeeze(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        block = ctx.block
        left, right = ctx.saved_tensors
        weights = readable(grad)[:, None]
        grad_left = grad_right = None
        if ctx.needs_input_grad[0]:
            values = readable(right)[:, None]
            grad_left = gather(block.indptr, block.indices, IN_ORDER, weights, values).squeeze(1)
        if ctx.needs_input_grad[1]:
            values = readable(left)[:, None]
            grad_right = gather(
                block.t_indptr, block.t_targets, block.t_edges, weights, values
            ).squeeze(1)
        return grad_left, grad_right, None


class _EdgeSoftmax(RowSoftmax):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, block: Block) -> Tensor:
        out, indptr = new_tensor(*logits.shape), block.indptr
        kernels.softmax_forward(indptr, readable(logits), out.numpy())
        return RowSoftmax.keep(
            ctx, out, lambda z, grad, to: kernels.softmax_backward(indptr, z, grad, to)
        )


class _Aggregate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, values: Tensor, block: Block) -> Tensor:
        ctx.block = block
        ctx.save_for_backward(weights, values)
        return gather(block.indptr, block.indices, IN_ORDER, readable(weights), readable(values))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        block = ctx.block
        weights, values = ctx.saved_tensors
        incoming = readable(grad)
        grad_weights = grad_values = None
        if ctx.needs_input_grad[0]:
            grad_weights = new_tensor(*weights.shape)
            kernels.edge_inner(
                block.indptr, block.indices, incoming, readable(values), grad_weights.numpy()
            )
        if ctx.needs_input_grad[1]:
            grad_values = gather(
                block.t_indptr, block.t_targets, block.t_edges, readable(weights), incoming
            )
        return grad_weights, grad_values, None


class _MeanAggregate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, block: Block) -> Tensor:
        ctx.block = block
        weights = block.mean_weights[:, None]
        rows = readable(values)[:, None]
        return gather(block.indptr, block.indices, IN_ORDER, weights, rows).squeeze(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        block = ctx.block
        weights = block.mean_weights[:, None]
        rows = readable(grad)[:, None]
        out = gather(block.t_indptr, block.t_targets, block.t_edges, weights, rows)
        return out.squeeze(1), None


def _called(function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
    out: Tensor = function.apply(*arguments)  # type: ignore[no-untyped-call]
    return out


def check_rows(name: str, tensor: Tensor, rows: int, dims: int) -> None:
    """Refuse a tensor that does not fit the block or holds no floating-point numbers."""
    if tensor.dim() != dims or tensor.shape[0] != rows:
        raise InputError(
            f"{name} must have {dims} dimensions and {rows:,} rows to fit the block, "
            f"got shape {tuple(tensor.shape)}"
        )
    if not tensor.is_floating_point():
        raise InputError(f"{name} must hold floating-point numbers, got {tensor.dtype}")


def _check_ends(left: Tensor, right: Tensor, block: Block) -> None:
    check_rows("left", left, block.num_targets, 2)
    check_rows("right", right, block.num_sources, 2)
    _samecheck_rows("left", left, "right", right)


def _samecheck_rows(name: str, one: Tensor, other_name: str, other: Tensor) -> None:
    if one.shape[1] != other.shape[1]:
        raise InputError(
            f"{name} and {other_name} must agree in their second dimension, "
            f"got {tuple(one.shape)} and {tuple(other.shape)}"
        )
    if one.dtype != other.dtype or one.device != other.device:
        raise InputError(
            f"{name} and {other_name} must share type and device, "
            f"got {one.dtype} on {one.device} and {other.dtype} on {other.device}"
        )
