"""Compiled loops over memberships: float32, one thread, rows of a few groups.

Powers are taken over a whole array at once, not row by row, so that rows of seven groups fill the
processor's vectors as well as rows of sixteen.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphham.system.jit import Array, exp_below_zero, inlined, jit


@inlined
def _powers(flat: Array) -> None:
    for k in range(len(flat)):
        flat[k] = exp_below_zero(flat[k])


@jit
def softmax(x: Array, scale: Any, out: Array) -> None:
    """Write ``softmax(scale * x)`` by row, for a positive scale."""
    rows, width = x.shape
    for i in range(rows):
        top = x[i, 0]
        for k in range(1, width):
            top = max(top, x[i, k])
        for k in range(width):
            out[i, k] = (x[i, k] - top) * scale
    _powers(out.reshape(rows * width))
    for i in range(rows):
        total = np.float32(0.0)
        for k in range(width):
            total += out[i, k]
        share = np.float32(1.0) / total
        for k in range(width):
            out[i, k] *= share


@jit
def softmax_back(p: Array, grad: Array, scale: Any, out: Array) -> None:
    """Write the gradient of ``x`` from that of ``softmax(scale * x)``."""
    rows, width = p.shape
    for i in range(rows):
        mean = np.float32(0.0)
        for k in range(width):
            mean += p[i, k] * grad[i, k]
        for k in range(width):
            out[i, k] = p[i, k] * (grad[i, k] - mean) * scale


@jit
def violation(
    lower: Array,
    upper: Array,
    both: Array,
    must: float,
    cannot: float,
    grad_lower: Array,
    grad_upper: Array,
) -> float:
    """Return V of E12 over what independent levels would give, and write both gradients.

    Args:
        lower: ``(nodes, K)`` A.
        upper: ``(nodes, parents)`` C.
        both: ``(K, parents)`` A^T C.
        must: Factor of the upper level's gradient.
        cannot: Factor of the lower level's gradient.
        grad_lower: Holds C (A^T C)^T; overwritten with the gradient of A.
        grad_upper: Holds A (A^T C); overwritten with the gradient of C.
    """
    rows, below = lower.shape
    above = upper.shape[1]
    # Double precision: V is a small difference of large sums.
    low, high = np.zeros(below), np.zeros(above)
    squares = np.empty((2, rows), dtype=np.float32)
    same_low, same_high, own = 0.0, 0.0, 0.0
    for i in range(rows):
        square, other = np.float32(0.0), np.float32(0.0)
        for k in range(below):
            square += lower[i, k] * lower[i, k]
            low[k] += lower[i, k]
        for p in range(above):
            other += upper[i, p] * upper[i, p]
            high[p] += upper[i, p]
        squares[0, i], squares[1, i] = square, other
        same_low += float(square)
        same_high += float(other)
        own += float(square * (np.float32(1.0) - other))
    pairs = np.float64(rows) * np.float64(rows - 1)
    below_all, above_all, agree = 0.0, 0.0, 0.0
    for k in range(below):
        below_all += low[k] * low[k]
        for p in range(above):
            agree += np.float64(both[k, p]) * np.float64(both[k, p])
    for p in range(above):
        above_all += high[p] * high[p]
    mass = below_all - agree - own
    shared = below_all - same_low
    apart = 1.0 - (above_all - same_high) / pairs
    # The floor keeps a collapsing upper level (nothing expected) from dividing by zero.
    bound = shared * apart + 1e-3 * pairs
    value = mass / bound
    up_scale, low_scale = np.float32(2.0 * must / bound), np.float32(2.0 * cannot / bound)
    column_low, column_high = low.astype(np.float32), high.astype(np.float32)
    lean_low = np.float32(value * apart)
    lean_high = np.float32(-value * shared / pairs)
    for i in range(rows):
        square, rest = squares[0, i], np.float32(1.0) - squares[1, i]
        for k in range(below):
            left = column_low[k] - grad_lower[i, k] - lower[i, k] * rest
            grad_lower[i, k] = low_scale * (left - lean_low * (column_low[k] - lower[i, k]))
        for p in range(above):
            left = square * upper[i, p] - grad_upper[i, p]
            grad_upper[i, p] = up_scale * (left - lean_high * (column_high[p] - upper[i, p]))
    return value
