"""Compiled loops over memberships: float32, one thread, rows of a few groups.

Powers are taken over a whole array at once, not row by row, so that rows of seven groups fill the
processor's vectors as well as rows of sixteen.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphham.system.jit import Array, exp_below_zero, inlined, jit

_RULED_OUT = -80.0  # log evidence for a parent without children, as in membership.py


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
def add_softmax_back(p: Array, grad: Array, out: Array) -> None:
    """Add the gradient of ``x`` from that of ``softmax(x)``."""
    rows, width = p.shape
    for i in range(rows):
        mean = np.float32(0.0)
        for k in range(width):
            mean += p[i, k] * grad[i, k]
        for k in range(width):
            out[i, k] += p[i, k] * (grad[i, k] - mean)


@jit
def log_softmax(x: Array, scale: Any, logs: Array, plain: Array) -> None:
    """Write the logarithm of ``softmax(scale * x)`` by row, and the softmax itself."""
    rows, width = x.shape
    for i in range(rows):
        top = x[i, 0]
        for k in range(1, width):
            top = max(top, x[i, k])
        for k in range(width):
            logs[i, k] = (x[i, k] - top) * scale
            plain[i, k] = logs[i, k]
    _powers(plain.reshape(rows * width))
    for i in range(rows):
        total = np.float32(0.0)
        for k in range(width):
            total += plain[i, k]
        share = np.float32(1.0) / total
        less = np.float32(math.log(total))
        for k in range(width):
            plain[i, k] *= share
            logs[i, k] -= less


@jit
def log_softmax_back(
    plain: Array, grad_logs: Array, grad_plain: Array, scale: Any, out: Array
) -> None:
    """Write the gradient of ``x`` from those of both outputs of :func:`log_softmax`."""
    rows, width = plain.shape
    for i in range(rows):
        total, mean = np.float32(0.0), np.float32(0.0)
        for k in range(width):
            total += grad_logs[i, k]
            mean += plain[i, k] * grad_plain[i, k]
        for k in range(width):
            part = plain[i, k] * (grad_plain[i, k] - mean - total)
            out[i, k] = (grad_logs[i, k] + part) * scale


@jit
def listen(
    indptr: Array,
    indices: Array,
    weights: Array,
    skip: bool,
    said: Array,
    own: Array,
    degrees: Array,
    out: Array,
) -> None:
    """Write ``own_i + degrees_i * (mean of the neighbours' said)``; a self edge does not count."""
    rows, width = out.shape
    weighted = len(weights) > 0
    for i in range(rows):
        low, high = indptr[i] + (1 if skip else 0), indptr[i + 1]
        for k in range(width):
            out[i, k] = np.float32(0.0)
        for e in range(low, high):
            j = indices[e]
            w = weights[e] if weighted else np.float32(1.0)
            for k in range(width):
                out[i, k] += w * said[j, k]
        scale = degrees[i]
        if not weighted and high > low:
            scale /= np.float32(high - low)
        for k in range(width):
            out[i, k] = own[i, k] + scale * out[i, k]


@jit
def listen_back(
    indptr: Array,
    indices: Array,
    weights: Array,
    skip: bool,
    grad: Array,
    degrees: Array,
    out: Array,
) -> None:
    """Add up the gradient of what each neighbour said."""
    rows, width = grad.shape
    weighted = len(weights) > 0
    part = np.empty(width, dtype=np.float32)
    for i in range(rows):
        low, high = indptr[i] + (1 if skip else 0), indptr[i + 1]
        scale = degrees[i]
        if not weighted and high > low:
            scale /= np.float32(high - low)
        for k in range(width):
            part[k] = scale * grad[i, k]
        for e in range(low, high):
            j = indices[e]
            w = weights[e] if weighted else np.float32(1.0)
            for k in range(width):
                out[j, k] += w * part[k]


@jit
def climb(
    up: Array, target: Array, parent: Array, joint: Array, powers: Array, share: Array
) -> None:
    """Write the joint log evidence, its powers, and each child's share of its family."""
    rows, children = up.shape
    parents = target.shape[1]
    top = np.empty(parents, dtype=np.float32)
    # Each family is shifted by its own largest member, so even a family that the evidence all but
    # rules out keeps exact shares.
    for i in range(rows):
        for p in range(parents):
            top[p] = np.float32(-np.inf)
        for c in range(children):
            top[parent[c]] = max(top[parent[c]], up[i, c])
        for c in range(children):
            share[i, c] = up[i, c] - top[parent[c]]
        for p in range(parents):
            joint[i, p] = top[p]
    _powers(share.reshape(rows * children))
    for i in range(rows):
        for p in range(parents):
            top[p] = np.float32(0.0)
        for c in range(children):
            top[parent[c]] += share[i, c]
        for c in range(children):
            share[i, c] /= top[parent[c]]
        largest = np.float32(-np.inf)
        for p in range(parents):
            total = np.float32(_RULED_OUT)
            if top[p] > 0:
                total = np.float32(math.log(top[p])) + joint[i, p]
            joint[i, p] = np.float32(0.5) * (target[i, p] + total)
            largest = max(largest, joint[i, p])
        for p in range(parents):
            joint[i, p] -= largest
            powers[i, p] = joint[i, p]
    _powers(powers.reshape(rows * parents))
    for i in range(rows):
        mass = np.float32(0.0)
        for p in range(parents):
            mass += powers[i, p]
        less = np.float32(math.log(mass))
        for p in range(parents):
            powers[i, p] /= mass
            joint[i, p] -= less


@jit
def climb_back(
    powers: Array,
    share: Array,
    parent: Array,
    grad_joint: Array,
    grad_share: Array,
    grad_up: Array,
    grad_target: Array,
) -> None:
    """Write the gradients of both levels from those of the joint evidence and the shares."""
    rows, children = share.shape
    parents = powers.shape[1]
    family = np.empty(parents, dtype=np.float32)
    for i in range(rows):
        total = np.float32(0.0)
        for p in range(parents):
            total += grad_joint[i, p]
            family[p] = np.float32(0.0)
        for p in range(parents):
            grad_target[i, p] = np.float32(0.5) * (grad_joint[i, p] - powers[i, p] * total)
        for c in range(children):
            family[parent[c]] += share[i, c] * grad_share[i, c]
        for c in range(children):
            p = parent[c]
            grad_up[i, c] = share[i, c] * (grad_target[i, p] + grad_share[i, c] - family[p])


@jit
def descend(above: Array, share: Array, parent: Array, out: Array) -> None:
    """Write ``above[:, parent] * share``."""
    rows, children = share.shape
    for i in range(rows):
        for c in range(children):
            out[i, c] = above[i, parent[c]] * share[i, c]


@jit
def descend_back(
    above: Array, share: Array, parent: Array, grad: Array, grad_above: Array, grad_share: Array
) -> None:
    """Write the gradients of both factors of :func:`descend`."""
    rows, children = share.shape
    for i in range(rows):
        for p in range(above.shape[1]):
            grad_above[i, p] = np.float32(0.0)
        for c in range(children):
            grad_above[i, parent[c]] += grad[i, c] * share[i, c]
            grad_share[i, c] = grad[i, c] * above[i, parent[c]]


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


@jit
def use(
    memberships: Array, prior: Array, seeds: Array, tiny: float, slope: Array
) -> tuple[float, float]:
    """Return the balance and the seed loss; write the balance's gradient by column."""
    rows, width = memberships.shape
    mean = np.zeros(width)
    missed = 0.0
    for i in range(rows):
        for k in range(width):
            mean[k] += memberships[i, k]
    if len(seeds) > 0:
        for i in range(rows):
            missed -= math.log(memberships[i, seeds[i]] + tiny)
    balance = 0.0
    for k in range(width):
        mean[k] /= rows
        log = math.log((mean[k] + tiny) / prior[k])
        balance += mean[k] * log
        slope[k] = np.float32((log + mean[k] / (mean[k] + tiny)) / rows)
    return balance, missed / rows


@jit
def use_back(
    memberships: Array,
    seeds: Array,
    tiny: float,
    slope: Array,
    grad_balance: float,
    grad_seed: float,
    out: Array,
) -> None:
    """Write the gradient of the memberships from those of the two losses."""
    rows, width = memberships.shape
    scale = np.float32(grad_balance)
    for i in range(rows):
        for k in range(width):
            out[i, k] = scale * slope[k]
    if len(seeds) > 0:
        for i in range(rows):
            k = seeds[i]
            out[i, k] -= np.float32(grad_seed / (rows * (memberships[i, k] + tiny)))
