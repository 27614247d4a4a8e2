"""Compiled loops over pairs of a target and a row of a table: loss, gradients, ordered updates.

Nothing of size pairs x dim is made: a row is read, scored and added to its target's gradient while
it is in the cache, and only one number per pair is kept for the way back.
"""

from __future__ import annotations

import numpy as np

from graphham.system.jit import Array, exp_below_zero, inlined, jit, prefetch

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
def sort_pairs(rows: Array, slopes: Array, anchors: Array, bounds: Array) -> tuple[Array, ...]:
    """Sort pairs by the owner of their row, as they came within each; leave out rows below zero.

    Args:
        rows: ``(pairs,)`` int64.
        slopes: ``(pairs,)`` float32.
        anchors: ``(pairs,)`` int32.
        bounds: ``(owners + 1,)`` int64: owner o has the rows from ``bounds[o]`` to the next.

    Returns:
        The three sorted, and the ``(owners + 1,)`` places where each owner's pairs begin.
    """
    owners = len(bounds) - 1
    # One more, in front, has the rows below zero. Counting bounds takes no branch to foresee.
    owned = np.zeros(len(rows), dtype=np.int32)
    for bound in bounds[:-1]:
        for p in range(len(rows)):
            owned[p] += np.int32(rows[p] >= bound)
    sizes = np.zeros(owners + 1, dtype=np.int64)
    for owner in owned:
        sizes[owner] += 1
    starts = np.zeros(owners + 1, dtype=np.int64)
    for o in range(owners):
        starts[o + 1] = starts[o] + sizes[o + 1]
    place = starts.copy()
    total = starts[owners]
    out_rows = np.empty(total, dtype=np.int64)
    out_slopes = np.empty(total, dtype=np.float32)
    out_anchors = np.empty(total, dtype=np.int32)
    for p in range(len(rows)):
        if owned[p] > 0:
            to = place[owned[p] - 1]
            out_rows[to], out_slopes[to], out_anchors[to] = rows[p], slopes[p], anchors[p]
            place[owned[p] - 1] += 1
    return out_rows, out_slopes, out_anchors, starts


@jit
def pair_keys(rows: Array, bits: int) -> Array:
    """Return numbers whose order is by row and then by pair; rows below zero are left out.

    The pair's number is in the lowest ``bits`` bits, which makes every key distinct.
    """
    keys = np.empty(len(rows), dtype=np.int64)
    place = 0
    for p in range(len(rows)):
        if rows[p] >= 0:
            keys[place] = (rows[p] << bits) | p
            place += 1
    return keys[:place]


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
    bits: int,
    slopes: Array,
    anchors: Array,
    targets: Array,
    lr: float,
    weight: Array,
    squares: Array,
) -> None:
    """Take one row-wise Adagrad step on every row that some pair names.

    Args:
        keys: Sorted numbers of :func:`pair_keys`.
        bits: How many of their bits number the pair.
        slopes: ``(pairs,)`` float32.
        anchors: ``(pairs,)`` int32: a pair adds its slope times this target to its row's gradient.
        targets: ``(anchors, dim)`` float32.
        lr: Learning rate.
        weight: ``(table rows, dim)``, changed in place.
        squares: ``(table rows,)``, changed in place.
    """
    dim = weight.shape[1]
    grad = np.empty(dim, dtype=np.float32)
    rate = np.float32(lr)
    mask = (1 << bits) - 1
    k = 0
    while k < len(keys):
        if k + _AHEAD < len(keys):
            later = keys[k + _AHEAD] >> bits
            prefetch(squares, later)
            for line in range(0, dim, 16):
                prefetch(weight, later * dim + line)
        row = keys[k] >> bits
        for d in range(dim):
            grad[d] = np.float32(0.0)
        while k < len(keys) and keys[k] >> bits == row:
            pair = keys[k] & mask
            slope, a = slopes[pair], np.int64(anchors[pair])
            for d in range(dim):
                grad[d] += slope * targets[a, d]
            k += 1
        _descend(row, grad, rate, weight, squares)
