"""The whole attention block as one differentiable operation.

``fused_attention`` is a layer: it takes inputs and weights and decides whether vectors are
transformed before they are gathered or after. ``attend`` is what both ways share: scores from
attention vectors, group scores, softmax and weighted sum over vectors as they are.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from graphham.errors import InputError
from graphham.kernels import attention_full as kernels
from graphham.kernels import attention_sampled as sampled_kernels
from graphham.kernels import reference
from graphham.kernels.edge_ops import check_rows
from graphham.kernels.group_terms import GroupTerms
from graphham.system.buffers import LENT, aligned
from graphham.system.jit import Array, frozen
from graphham.system.tensors import readable, runs_reference

if TYPE_CHECKING:
    from graphham.graph.neighborhoods import Block

_NO_ROWS = frozen(np.empty(0, dtype=np.int64))
_NO_WEIGHTS = frozen(np.empty(0, dtype=np.float32))
_NOTHING = frozen(np.empty((0, 1), dtype=np.float32))
# Memory for this many numbers goes back to the system when it is freed, and is cleared anew.
_LARGE = 1 << 22
# With more edges per source than this, terms of a source are taken once and kept.
_REUSE = 2.0


def fused_attention(
    x: Tensor,
    weight: Tensor,
    attention: Tensor,
    block: Block,
    *,
    groups: GroupTerms | None = None,
    slope: float = 0.2,
    rows: Array | None = None,
    scale: Tensor | None = None,
    average: bool = False,
    order: Literal["auto", "aggregate", "transform"] = "auto",
) -> Tensor:
    """Run a graph attention layer over a block, forward and (by autograd) backward.

    ``h_i^m = sum_j softmax_j(LeakyReLU(a_left^m . W^m x_i + a_right^m . W^m x_j) + f_ij) W^m x_j``
    where f is the group score, if any. With ``block.weights`` attention is scaled by them and
    renormalised. No gradient is computed for an ``x`` that does not require it.

    Args:
        x: ``(num_sources, in_dim)`` float32, or float16 without gradient; with ``rows`` a table of
            any number of rows.
        weight: ``(in_dim, heads * out_dim)`` W, heads side by side.
        attention: ``(2, heads, out_dim)`` attention vectors of target and source.
        block: The neighbourhood.
        groups: Terms of the group score.
        slope: LeakyReLU slope, not negative.
        rows: ``(num_sources,)`` row of ``x`` that holds each source, so that a batch need not copy
            its features out of the table; no gradient goes to such a table.
        scale: ``(num_edges, heads)`` factors on the final weights, such as dropout; no gradient.
        average: Average the heads.
        order: ``aggregate`` sums inputs and then transforms the sums, ``transform`` transforms
            first; the same numbers up to rounding. ``auto`` takes what costs less.

    Returns:
        ``(num_targets, heads, out_dim)``, or ``(num_targets, out_dim)`` when averaged.

    Example:
        >>> import torch
        >>> from graphham.graph.neighborhoods import Block
        >>> block = Block([0, 2, 3], [0, 1, 1], 2)
        >>> fused_attention(torch.eye(2), torch.eye(2), torch.zeros(2, 1, 2), block)[:, 0]
        tensor([[0.5000, 0.5000],
                [0.0000, 1.0000]])
    """
    _, heads, out_dim = attention.shape
    if weight.shape != (x.shape[1], heads * out_dim):
        raise InputError(
            f"the weight must have shape {(x.shape[1], heads * out_dim)} to fit the input and the "
            f"attention vectors, got {tuple(weight.shape)}"
        )
    in_dim = int(x.shape[1])
    if order == "auto":
        order = _cheaper_order(block, in_dim, heads, out_dim, rows is not None)
    if order == "transform":
        numbers = x if rows is None else x[torch.tensor(rows)]
        projected = (numbers.to(weight.dtype) @ weight).view(-1, heads, out_dim)
        out = attend(projected, attention, block, groups=groups, slope=slope, scale=scale)
        return out.mean(dim=1) if average else out
    # a . W x = (W^T a) . x: scores need no transformed vectors either.
    shaped = weight.view(in_dim, heads, out_dim)
    vectors = torch.einsum("dmo,smo->smd", shaped, attention)
    sums = attend(x[:, None], vectors, block, groups=groups, slope=slope, rows=rows, scale=scale)
    if average:
        joined = shaped.transpose(0, 1).reshape(heads * in_dim, out_dim)
        return sums.view(-1, heads * in_dim) @ (joined / heads)
    if heads == 1:
        return (sums.view(-1, in_dim) @ weight)[:, None]
    return torch.einsum("tmd,dmo->tmo", sums, shaped)


def _cheaper_order(
    block: Block, in_dim: int, heads: int, out_dim: int, mapped: bool
) -> Literal["aggregate", "transform"]:
    """Compare what both orders multiply and read; a gathered number costs like two multiplied."""
    product = in_dim * heads * out_dim
    aggregate_first = block.num_targets * product + block.num_edges * 2 * in_dim * (heads + 2)
    transform_first = block.num_sources * product + block.num_edges * 2 * heads * out_dim * 3
    if mapped:
        transform_first += block.num_sources * in_dim * 4
    return "aggregate" if aggregate_first <= transform_first else "transform"


def attend(
    values: Tensor,
    vectors: Tensor,
    block: Block,
    *,
    groups: GroupTerms | None = None,
    slope: float = 0.2,
    rows: Array | None = None,
    scale: Tensor | None = None,
) -> Tensor:
    """Sum source vectors, weighted by attention between them.

    Args:
        values: ``(num_sources, heads, dim)`` source vectors, or ``(num_sources, 1, dim)`` when all
            heads read the same; float32, or float16 without gradient.
        vectors: ``(2, heads, dim)`` attention vectors: an edge of head m scores
            LeakyReLU(vectors[0, m] . values_i + vectors[1, m] . values_j).
        block: The neighbourhood.
        groups: Terms of the group score that is added before the softmax.
        slope: LeakyReLU slope, not negative.
        rows: ``(num_sources,)`` row of ``values`` that holds each source; excludes its gradient.
        scale: ``(num_edges, heads)`` factors on the final weights; no gradient.

    Returns:
        ``(num_targets, heads, dim)`` sums; zero for a target without edges.
    """
    heads = _check(values, vectors, block, groups, slope, rows, scale)
    dense = [vectors] if groups is None else [vectors, groups.left, groups.right]
    if values.dtype == torch.float16 and values.requires_grad:
        values = values.to(vectors.dtype)
    half = values.dtype == torch.float16
    if runs_reference(*dense) or (not half and runs_reference(values)) or values.is_cuda:
        return reference.attend(values, vectors, block, groups, slope, rows, scale)
    left = right = None
    kind, is_table = kernels.NO_GROUPS, groups is not None and groups.kind == "table"
    if groups is not None:
        left, right = groups.left, groups.right
        kind = kernels.ADDITIVE if groups.kind == "additive" else kernels.PAIR
    place = _NO_ROWS if rows is None else frozen(rows, np.int64)
    factors = _NOTHING if scale is None else readable(scale)
    if not _numbers(values).size:
        return values.new_zeros(block.num_targets, heads, values.shape[2], dtype=torch.float32)
    out: Tensor = _Attend.apply(  # type: ignore[no-untyped-call]
        values, vectors, left, right, block, kind, is_table, slope, place, factors
    )
    return out


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,
        vectors: Tensor,
        group_left: Tensor | None,
        group_right: Tensor | None,
        block: Block,
        kind: int,
        is_table: bool,
        slope: float,
        rows: Array,
        scale: Array,
    ) -> Tensor:
        heads, dim = vectors.shape[1:]
        numbers, pairs = _numbers(values), readable(vectors)
        reuse = len(rows) == 0 and block.num_edges > _REUSE * block.num_sources
        if group_left is None or group_right is None:
            ends = _NOTHING, _NOTHING
        else:
            mixed = group_right[: block.num_targets] @ group_left if is_table else group_left
            ends = readable(mixed), readable(group_right)
        out = _new(block.num_targets, heads, dim)
        weights = _new(block.num_edges, heads)
        bent = np.empty((block.num_edges, heads), dtype=np.uint8)
        given = _NO_WEIGHTS if block.weights is None else block.weights
        scores: tuple[Any, ...] = (kind, *ends, given, scale, slope, out, weights, bent)
        if reuse:
            left, right = _new(block.num_targets, heads), _new(block.num_sources, heads)
            kernels.node_terms(numbers, pairs[:1], left)
            kernels.node_terms(numbers, pairs[1:], right)
            kernels.attend_forward(
                block.indptr, block.indices, numbers, frozen(left), frozen(right), *scores
            )
        else:
            sampled_kernels.sampled_forward(
                block.indptr, block.indices, rows, numbers, _per_line(numbers), pairs, *scores
            )
        ctx.block, ctx.kind, ctx.slope, ctx.reuse = block, kind, slope, reuse
        ctx.rows, ctx.scale, ctx.weights, ctx.bent = rows, scale, frozen(weights), frozen(bent)
        ctx.is_table, ctx.ends = is_table, ends
        ctx.save_for_backward(values, vectors, group_left, group_right)
        return torch.from_numpy(out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        values, vectors, group_left, group_right = ctx.saved_tensors
        block, rows = ctx.block, ctx.rows
        heads, dim = vectors.shape[1:]
        numbers, pairs, incoming = _numbers(values), readable(vectors), readable(grad)
        grad_values = _new(*values.shape) if ctx.needs_input_grad[0] else None
        grad_scores = _new(block.num_edges, heads)
        grad_left = _new(block.num_targets, heads)
        grad_right = _zeros(block.num_sources if ctx.reuse else 0, heads)
        grad_vectors = _zeros(2, heads, dim)
        grad_ends: tuple[Any, ...] = (_zeros(0, 1), _zeros(0, 1))
        # The additive score takes both gradients in one pass; the others leave out what is unasked.
        wants_right = bool(ctx.needs_input_grad[3]) or ctx.kind == kernels.ADDITIVE
        wants_groups = bool(ctx.needs_input_grad[2]) or wants_right
        if group_left is not None and wants_groups:
            right = _zeros(*ctx.ends[1].shape) if wants_right else grad_ends[1]
            grad_ends = _new(*ctx.ends[0].shape), right
        by_source = (block, numbers, pairs, ctx.scale, ctx.weights, incoming)
        back: tuple[Any, ...] = (
            ctx.kind,
            *ctx.ends,
            ctx.scale,
            ctx.slope,
            ctx.weights,
            ctx.bent,
            incoming,
        )
        if ctx.reuse:
            # One pass by source serves the gradients of source vectors and of edge weights.
            ready = grad_values is not None
            if grad_values is not None:
                _by_source(*by_source, True, grad_scores, grad_values)
            kernels.attend_backward(
                block.indptr,
                block.indices,
                numbers,
                ready,
                *(*back, grad_scores, grad_left, grad_right, *grad_ends),
            )
        else:
            # Sources have about one edge: what a target's pass leaves is read by source once.
            sampled_kernels.sampled_backward(
                block.indptr,
                block.indices,
                rows,
                numbers,
                _per_line(numbers),
                *(*back, grad_scores, grad_left, grad_vectors[1], *grad_ends),
            )
            if grad_values is not None:
                _by_source(*by_source, False, grad_scores, grad_values)
        kernels.finish_sources(
            numbers,
            rows,
            pairs,
            frozen(grad_left),
            frozen(grad_right),
            grad_vectors,
            _zeros(0, 1, dim) if grad_values is None else grad_values,
        )
        grad_groups: list[Tensor | None] = [None, None]
        if group_left is not None and wants_groups:
            left, right = torch.from_numpy(grad_ends[0]), torch.from_numpy(grad_ends[1])
            if ctx.is_table:
                if wants_right:
                    right[: block.num_targets] += left @ group_left.t()
                left = group_right[: block.num_targets].t() @ left
            grad_groups = [left, right if wants_right else None]
        return (
            None if grad_values is None else torch.from_numpy(grad_values),
            torch.from_numpy(grad_vectors),
            *grad_groups,
            *[None] * 6,
        )


def _by_source(block: Block, *passed: Any) -> None:
    """Run the pass by source over a block; what it takes besides is passed on."""
    kernels.source_backward(block.t_indptr, block.t_targets, block.t_edges, *passed)


def _new(*shape: int) -> Array:
    """Return an uninitialised array that begins at a cache line."""
    count = math.prod(shape)
    numbers = LENT.take(1, count) if count >= _LARGE else aligned(count)
    return numbers.reshape(shape)


def _zeros(*shape: int) -> Array:
    out = _new(*shape)
    out.fill(0.0)
    return out


def _numbers(values: Tensor) -> Array:
    numbers = values.detach().numpy()
    return frozen(numbers.view(np.int16) if numbers.dtype == np.float16 else numbers)


def _per_line(numbers: Array) -> int:
    return 64 // numbers.itemsize


def _check(
    values: Tensor,
    vectors: Tensor,
    block: Block,
    groups: GroupTerms | None,
    slope: float,
    rows: Array | None,
    scale: Tensor | None,
) -> int:
    """Refuse what does not fit together, and return the number of heads."""
    if vectors.dim() != 3 or vectors.shape[0] != 2:
        raise InputError(
            f"the attention vectors must have shape (2, heads, dim), got {tuple(vectors.shape)}"
        )
    heads, dim = int(vectors.shape[1]), int(vectors.shape[2])
    if rows is None:
        check_rows("values", values, block.num_sources, 3)
    elif len(rows) != block.num_sources:
        raise InputError(
            f"rows must name one row of the table for each of the block's {block.num_sources:,} "
            f"sources, got {len(rows):,}"
        )
    elif values.requires_grad:
        raise InputError(
            "a table read by rows gets no gradient; gather its rows first, or detach it"
        )
    elif len(rows) and not 0 <= int(np.min(rows)) <= int(np.max(rows)) < len(values):
        worst = int(np.min(rows)) if int(np.min(rows)) < 0 else int(np.max(rows))
        raise InputError(f"row {worst} lies outside 0..{len(values) - 1} of the table")
    if values.shape[1] not in (1, heads) or values.shape[2] != dim:
        raise InputError(
            f"values of shape {tuple(values.shape)} do not fit attention vectors of shape "
            f"{tuple(vectors.shape)}"
        )
    if slope < 0:
        raise InputError(f"the slope of the LeakyReLU must not be negative, got {slope}")
    if scale is not None and tuple(scale.shape) != (block.num_edges, heads):
        raise InputError(
            f"scale must have shape {(block.num_edges, heads)}, got {tuple(scale.shape)}"
        )
    if groups is not None:
        is_table = groups.kind == "table"
        count = int(groups.right.shape[-1]) if is_table else block.num_targets
        check_rows("the groups' left terms", groups.left, count, 2)
        check_rows("the groups' right terms", groups.right, block.num_sources, 2)
        columns = heads if groups.kind == "additive" else groups.left.shape[1]
        if groups.left.shape[1] != columns or groups.right.shape[1] != columns:
            raise InputError(
                f"the groups' terms must both have {columns} columns, got "
                f"{groups.left.shape[1]} and {groups.right.shape[1]}"
            )
    return heads
