"""Compiled loops over the edges of a block: float32, one thread, nothing of size edges x dim.

Two heavy loops carry everything. ``gather_sum`` adds weighted source vectors up over each row (the
aggregation, its gradient by columns, the mean, and a sparse matrix times a dense one) and
``edge_inner`` takes a dot product per edge (dot-product scores and the gradient of edge weights).
"""

from __future__ import annotations

import numpy as np

from graphham.system.jit import Array, exp_below_zero, jit, prefetch

# How many edges ahead source vectors are fetched; 8 to 16 was flat on the machines measured.
_AHEAD = 12


@jit
def gather_sum(
    indptr: Array,
    columns: Array,
    positions: Array,
    weights: Array,
    values: Array,
    out: Array,
) -> None:
    """Write ``out[i, m] = sum_k weights[p(k), m] * values[columns[k], m]`` over row i.

    Args:
        indptr: ``(rows + 1,)`` int64 row bounds.
        columns: ``(edges,)`` int32 rows of ``values``.
        positions: ``(edges,)`` int32 place of each edge's weight, or empty for p(k) = k.
        weights: ``(edges, heads)``.
        values: ``(sources, heads, dim)``.
        out: ``(rows, heads, dim)``, overwritten.
    """
    num_rows, heads, dim = out.shape
    width = heads * dim
    permuted = len(positions) > 0
    num_edges = len(columns)
    for i in range(num_rows):
        low, high = indptr[i], indptr[i + 1]
        for m in range(heads):
            for d in range(dim):
                out[i, m, d] = np.float32(0.0)
        # Four edges at a time: out is read and written once per four source vectors.
        k = low
        while k + 4 <= high:
            for ahead in range(k + _AHEAD, min(k + _AHEAD + 4, num_edges)):
                base = np.int64(columns[ahead]) * width
                for line in range(0, width, 16):
                    prefetch(values, base + line)
            j0, j1, j2, j3 = columns[k], columns[k + 1], columns[k + 2], columns[k + 3]
            e0, e1, e2, e3 = k, k + 1, k + 2, k + 3
            if permuted:
                e0, e1 = np.int64(positions[k]), np.int64(positions[k + 1])
                e2, e3 = np.int64(positions[k + 2]), np.int64(positions[k + 3])
            for m in range(heads):
                w0, w1, w2, w3 = weights[e0, m], weights[e1, m], weights[e2, m], weights[e3, m]
                for d in range(dim):
                    out[i, m, d] += (
                        w0 * values[j0, m, d]
                        + w1 * values[j1, m, d]
                        + w2 * values[j2, m, d]
                        + w3 * values[j3, m, d]
                    )
            k += 4
        while k < high:
            if k + _AHEAD < num_edges:
                base = np.int64(columns[k + _AHEAD]) * width
                for line in range(0, width, 16):
                    prefetch(values, base + line)
            j = columns[k]
            e = np.int64(positions[k]) if permuted else k
            for m in range(heads):
                w = weights[e, m]
                for d in range(dim):
                    out[i, m, d] += w * values[j, m, d]
            k += 1


@jit
def edge_inner(indptr: Array, indices: Array, left: Array, right: Array, out: Array) -> None:
    """Write ``out[e, m] = left[i, m] . right[j, m]`` for each edge e from source j to target i.

    Args:
        indptr: ``(targets + 1,)`` int64 row bounds.
        indices: ``(edges,)`` int32 source rows.
        left: ``(targets, heads, dim)``.
        right: ``(sources, heads, dim)``.
        out: ``(edges, heads)``, overwritten.
    """
    num_rows, heads, dim = left.shape
    width = heads * dim
    num_edges = len(indices)
    for i in range(num_rows):
        for e in range(indptr[i], indptr[i + 1]):
            if e + _AHEAD < num_edges:
                base = np.int64(indices[e + _AHEAD]) * width
                for line in range(0, width, 16):
                    prefetch(right, base + line)
            j = indices[e]
            for m in range(heads):
                total = np.float32(0.0)
                for d in range(dim):
                    total += left[i, m, d] * right[j, m, d]
                out[e, m] = total


@jit
def score_forward(
    indptr: Array, indices: Array, left: Array, right: Array, slope: float, out: Array
) -> None:
    """Write ``out[e, m] = LeakyReLU(left[i, m] + right[j, m])``."""
    num_rows, heads = left.shape
    bend = np.float32(slope)
    for i in range(num_rows):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            for m in range(heads):
                raw = left[i, m] + right[j, m]
                out[e, m] = raw if raw > 0 else bend * raw


@jit
def score_backward(
    indptr: Array,
    indices: Array,
    scores: Array,
    grad: Array,
    slope: float,
    grad_left: Array,
    grad_right: Array,
) -> None:
    """Add up the gradient of both ends of each edge; the sign of a score tells its slope.

    With one thread, adding into ``grad_right`` in edge order is deterministic and needs no
    transposed block, which a layer on fixed features would otherwise build for this alone.
    """
    num_rows, heads = grad_left.shape
    bend = np.float32(slope)
    for i in range(num_rows):
        for m in range(heads):
            grad_left[i, m] = np.float32(0.0)
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            for m in range(heads):
                part = grad[e, m] if scores[e, m] > 0 else bend * grad[e, m]
                grad_left[i, m] += part
                grad_right[j, m] += part


@jit
def softmax_forward(indptr: Array, logits: Array, out: Array) -> None:
    """Write the softmax of each head's logits over each row's edges."""
    num_edges, heads = logits.shape
    for i in range(len(indptr) - 1):
        low, high = indptr[i], indptr[i + 1]
        for m in range(heads):
            top = np.float32(-np.inf)
            for e in range(low, high):
                top = max(top, logits[e, m])
            for e in range(low, high):
                out[e, m] = logits[e, m] - top
    # All powers in one pass without row bounds, so that short rows do not break up the vectors.
    flat = out.reshape(num_edges * heads)
    for k in range(num_edges * heads):
        flat[k] = exp_below_zero(flat[k])
    for i in range(len(indptr) - 1):
        low, high = indptr[i], indptr[i + 1]
        for m in range(heads):
            total = np.float32(0.0)
            for e in range(low, high):
                total += out[e, m]
            scale = np.float32(1.0) / total
            for e in range(low, high):
                out[e, m] *= scale


@jit
def softmax_backward(indptr: Array, probabilities: Array, grad: Array, out: Array) -> None:
    """Write the gradient of the logits from that of the probabilities."""
    heads = probabilities.shape[1]
    for i in range(len(indptr) - 1):
        low, high = indptr[i], indptr[i + 1]
        for m in range(heads):
            mean = np.float32(0.0)
            for e in range(low, high):
                mean += probabilities[e, m] * grad[e, m]
            for e in range(low, high):
                out[e, m] = probabilities[e, m] * (grad[e, m] - mean)
