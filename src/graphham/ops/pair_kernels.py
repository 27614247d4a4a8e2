"""Compiled loops over pairs of a target and a row of a table: loss, gradients, ordered updates.

Nothing of size pairs x dim is made: a row is read, scored and added to its target's gradient while
it is in the cache, and only one number per pair is kept for the way back.
"""

from __future__ import annotations

import numpy as np

from graphham.jit import Array, exp_below_zero, inlined, jit, prefetch

# How many pairs ahead a row is fetched.
_AHEAD = 16


@jit
def pair_forward(
    values: Array,
    target: Array,
    rows: Array,
    sign: float,
    slopes: Array,
    grad_target: Array,
    grad_gate: Array,
) -> tuple[float, int]:
    """Add up -log sigmoid(sign * target_a . values_r) over all pairs, and take its gradients.

    Args:
        values: ``(table rows, dim)``.
        target: ``(anchors, dim)``.
        rows: ``(anchors, contexts)`` int64 rows of ``values``, -1 for none.
        sign: 1 for true contexts, -1 for sampled ones.
        slopes: ``(anchors, contexts)``, gets the derivative by each pair's score, 0 for none.
        grad_target: ``(anchors, dim)``, overwritten.
        grad_gate: ``(anchors,)``, overwritten: gradient of a factor on all scores of an anchor.

    Returns:
        The sum and the number of pairs.
    """
    anchors, contexts = rows.shape
    dim = target.shape[1]
    flat = rows.reshape(anchors * contexts)
    bend = np.float32(sign)
    total, count = 0.0, 0
    for a in range(anchors):
        for d in range(dim):
            grad_target[a, d] = np.float32(0.0)
        gate = np.float32(0.0)
        for c in range(contexts):
            ahead = a * contexts + c + _AHEAD
            if ahead < len(flat) and flat[ahead] >= 0:
                base = flat[ahead] * dim
                for line in range(0, dim, 16):
                    prefetch(values, base + line)
            row = rows[a, c]
            if row < 0:
                slopes[a, c] = np.float32(0.0)
                continue
            score = np.float32(0.0)
            for d in range(dim):
                score += target[a, d] * values[row, d]
            turned = bend * score
            power = exp_below_zero(-abs(turned))
            share = np.float32(1.0) / (np.float32(1.0) + power)
            # The gradient is one minus the sigmoid, in the form that does not overflow.
            slope = -bend * (power * share if turned > 0 else share)
            total += np.log1p(np.float64(power)) + (0.0 if turned > 0 else -np.float64(turned))
            count += 1
            slopes[a, c] = slope
            gate += slope * score
            for d in range(dim):
                grad_target[a, d] += slope * values[row, d]
        grad_gate[a] = gate
    return total, count


@jit
def pair_keys(rows: Array, count: int) -> Array:
    """Return ``(count,)`` numbers whose order is by row and then by pair."""
    flat = rows.reshape(rows.size)
    keys = np.empty(count, dtype=np.int64)
    place = 0
    for p in range(len(flat)):
        if flat[p] >= 0:
            keys[place] = flat[p] * len(flat) + p
            place += 1
    return keys


@inlined
def _descend(row: int, grad: Array, rate: np.float32, weight: Array, squares: Array) -> None:
    """Take one Adagrad step on a row, which keeps one number of the squares of its gradients."""
    dim = len(grad)
    power = np.float32(0.0)
    for d in range(dim):
        power += grad[d] * grad[d]
    squares[row] += power / np.float32(dim)
    step = rate / (np.sqrt(squares[row]) + np.float32(1e-8))
    for d in range(dim):
        weight[row, d] -= step * grad[d]


@jit
def pair_update(
    keys: Array,
    slopes: Array,
    target: Array,
    scale: float,
    lr: float,
    weight: Array,
    squares: Array,
) -> None:
    """Take one row-wise Adagrad step on every row that some pair read.

    Args:
        keys: Sorted numbers of :func:`pair_keys`.
        slopes: ``(anchors, contexts)`` derivatives by the scores.
        target: ``(anchors, dim)`` what the rows were multiplied with.
        scale: Factor on all slopes.
        lr: Learning rate.
        weight: ``(table rows, dim)``, changed in place.
        squares: ``(table rows,)``, changed in place.
    """
    pairs, contexts = slopes.size, slopes.shape[1]
    dim = weight.shape[1]
    flat = slopes.reshape(pairs)
    grad = np.empty(dim, dtype=np.float32)
    factor, rate = np.float32(scale), np.float32(lr)
    k = 0
    while k < len(keys):
        if k + _AHEAD < len(keys):
            later = keys[k + _AHEAD] // pairs
            prefetch(squares, later)
            for line in range(0, dim, 16):
                prefetch(weight, later * dim + line)
        row = keys[k] // pairs
        for d in range(dim):
            grad[d] = np.float32(0.0)
        while k < len(keys) and keys[k] // pairs == row:
            pair = keys[k] - row * pairs
            slope, a = factor * flat[pair], pair // contexts
            for d in range(dim):
                grad[d] += slope * target[a, d]
            k += 1
        _descend(row, grad, rate, weight, squares)


@jit
def pair_gradients(keys: Array, slopes: Array, target: Array, scale: float) -> tuple[Array, Array]:
    """Return the distinct rows in ascending order, and the gradient of each."""
    pairs, contexts = slopes.size, slopes.shape[1]
    dim = target.shape[1]
    flat = slopes.reshape(pairs)
    factor = np.float32(scale)
    distinct = 0
    for k in range(len(keys)):
        if k == 0 or keys[k] // pairs != keys[k - 1] // pairs:
            distinct += 1
    rows = np.empty(distinct, dtype=np.int64)
    grads = np.zeros((distinct, dim), dtype=np.float32)
    place = -1
    for k in range(len(keys)):
        row = keys[k] // pairs
        if k == 0 or row != rows[place]:
            place += 1
            rows[place] = row
        pair = keys[k] - row * pairs
        slope, a = factor * flat[pair], pair // contexts
        for d in range(dim):
            grads[place, d] += slope * target[a, d]
    return rows, grads


@jit
def row_update(
    order: Array, rows: Array, grads: Array, lr: float, weight: Array, squares: Array
) -> None:
    """Take one row-wise Adagrad step on every row named, adding up the gradients of equal ones.

    Args:
        order: ``(count,)`` places of ``rows`` in ascending order, equal rows as they came.
        rows: ``(count,)`` int64 rows of the table.
        grads: ``(count, dim)`` gradients.
        lr: Learning rate.
        weight: ``(table rows, dim)``, changed in place.
        squares: ``(table rows,)``, changed in place.
    """
    dim = weight.shape[1]
    grad = np.empty(dim, dtype=np.float32)
    rate = np.float32(lr)
    k = 0
    while k < len(order):
        if k + _AHEAD < len(order):
            later = order[k + _AHEAD]
            prefetch(squares, rows[later])
            for line in range(0, dim, 16):
                prefetch(grads, later * dim + line)
                prefetch(weight, rows[later] * dim + line)
        row = rows[order[k]]
        for d in range(dim):
            grad[d] = grads[order[k], d]
        k += 1
        while k < len(order) and rows[order[k]] == row:
            for d in range(dim):
                grad[d] += grads[order[k], d]
            k += 1
        _descend(row, grad, rate, weight, squares)
