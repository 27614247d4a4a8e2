"""Compiled loops of the read-out: all neighbours of a range of nodes, nothing of size edges.

Training keeps what it needs for gradients; reading out does not, so one loop does the work of six:
scores, both softmaxes, their product, the weighted sum, and how far the two attentions disagree.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphham.system.jit import Array, exp_below_zero, inlined, jit, log_positive, prefetch

# Source rows are fetched this many edges before they are read.
_AHEAD = 8
# Rows of a neighbourhood up to this length stay in the cache between the two passes over them.
_NEAR = 256


@inlined
def _weighted_sum(rows: Any, near: Any, w: Any, degree: Any, t: Any, out: Any) -> Any:
    """Add the neighbours' projected states to ``out[t]``, four at a time."""
    heads, dim = out.shape[1], out.shape[2]
    width = rows.shape[1]
    k = 0
    while k + 4 <= degree:
        if degree > _NEAR:
            for ahead in range(k + _AHEAD, min(k + _AHEAD + 4, degree)):
                for line in range(0, heads * dim, 16):
                    prefetch(rows, near[ahead] * width + line)
        j0, j1, j2, j3 = near[k], near[k + 1], near[k + 2], near[k + 3]
        for m in range(heads):
            w0, w1, w2, w3 = w[m, k], w[m, k + 1], w[m, k + 2], w[m, k + 3]
            at = m * dim
            for d in range(dim):
                out[t, m, d] += (
                    w0 * rows[j0, at + d]
                    + w1 * rows[j1, at + d]
                    + w2 * rows[j2, at + d]
                    + w3 * rows[j3, at + d]
                )
        k += 4
    while k < degree:
        j = near[k]
        for m in range(heads):
            at = m * dim
            for d in range(dim):
                out[t, m, d] += w[m, k] * rows[j, at + d]
        k += 1


@inlined
def _longest(indptr: Any, first: Any, count: Any, extra: Any) -> Any:
    """Return the most edges of a target, the one to itself (``extra``) included."""
    longest = 1
    for t in range(count):
        longest = max(longest, indptr[first + t + 1] - indptr[first + t] + extra)
    return longest


@inlined
def _begin_target(out: Any, gap: Any, t: Any, heads: Any, dim: Any) -> None:
    for m in range(heads):
        for d in range(dim):
            out[t, m, d] = np.float32(0.0)
    gap[t] = np.float32(0.0)


@inlined
def _list_neighbors(indices: Any, low: Any, degree: Any, extra: Any, own: Any, near: Any) -> None:
    """Write the sources of a target: itself first where ``extra`` is 1."""
    if extra == 1:
        near[0] = own
    for k in range(extra, degree):
        near[k] = indices[low + k - extra]


@jit
def attend(
    indptr: Array,
    indices: Array,
    first: int,
    last: int,
    self_edge: bool,
    rows: Array,
    right: Array,
    left: Array,
    pulled: Array,
    slope: float,
    out: Array,
    gap: Array,
) -> None:
    """Attend over all neighbours of the nodes ``first`` to ``last - 1`` (E5-E9, A11).

    Args:
        indptr: ``(num_nodes + 1,)`` int64 row bounds of the whole graph.
        indices: ``(num_edges,)`` neighbours.
        first: First target.
        last: One past the last target.
        self_edge: Whether a node attends to itself too.
        rows: ``(num_nodes, heads * dim + groups)``: projected states, then assignments z. Side by
            side, because both are read for every edge and a row comes from memory at once.
        right: ``(num_nodes, heads)`` source terms of the node attention.
        left: ``(last - first, heads)`` target terms.
        pulled: ``(last - first, groups)`` z_i B, or zero wide without group attention.
        slope: Slope of the LeakyReLU.
        out: ``(last - first, heads, dim)``, overwritten with the weighted sums.
        gap: ``(last - first,)``, overwritten with the mean of alpha log(alpha / lambda).
    """
    count, heads, dim = out.shape
    width, groups = rows.shape[1], pulled.shape[1]
    begin = heads * dim
    bend = np.float32(slope)
    least = np.float32(np.log(1e-12))
    extra = 1 if self_edge else 0
    longest = _longest(indptr, first, count, extra)
    near = np.empty(longest, dtype=np.int64)
    e = np.empty((heads, longest), dtype=np.float32)
    f = np.empty(longest, dtype=np.float32)
    w = np.empty((heads, longest), dtype=np.float32)
    powers = np.empty(longest, dtype=np.float32)
    group_log = np.empty(longest, dtype=np.float32)
    mean_alpha = np.empty(longest, dtype=np.float32)
    end = indptr[last]
    for t in range(count):
        low = indptr[first + t]
        degree = indptr[first + t + 1] - low + extra
        _begin_target(out, gap, t, heads, dim)
        if degree == 0:
            continue
        _list_neighbors(indices, low, degree, extra, first + t, near)
        for k in range(degree):
            # The next target's edges follow in memory, so its rows are already on their way.
            ahead = low + k - extra + _AHEAD
            if ahead < end:
                base = np.int64(indices[ahead]) * width
                for line in range(0, width, 16):
                    prefetch(rows, base + line)
            j = near[k]
            total = np.float32(0.0)
            for g in range(groups):
                total += pulled[t, g] * rows[j, begin + g]
            f[k] = total
            for m in range(heads):
                raw = left[t, m] + right[j, m]
                e[m, k] = raw if raw > 0 else bend * raw
        if groups > 0:
            top = np.float32(-np.inf)
            for k in range(degree):
                top = max(top, f[k])
            total = np.float32(0.0)
            for k in range(degree):
                powers[k] = exp_below_zero(f[k] - top)
            for k in range(degree):
                total += powers[k]
            shift = top + np.log(total)
            for k in range(degree):
                group_log[k] = max(f[k] - shift, least)
        else:
            even = np.float32(-np.log(np.float32(degree)))
            for k in range(degree):
                f[k] = np.float32(0.0)
                group_log[k] = even
        for k in range(degree):
            mean_alpha[k] = np.float32(0.0)
        apart = np.float32(0.0)
        for m in range(heads):
            top = np.float32(-np.inf)
            both = np.float32(-np.inf)
            for k in range(degree):
                top = max(top, e[m, k])
                both = max(both, e[m, k] + f[k])
            total = np.float32(0.0)
            mass = np.float32(0.0)
            for k in range(degree):
                powers[k] = exp_below_zero(e[m, k] - top)
                w[m, k] = exp_below_zero(e[m, k] + f[k] - both)
            for k in range(degree):
                total += powers[k]
                mass += w[m, k]
            scale, share = np.float32(1.0) / total, np.float32(1.0) / mass
            shift = top + np.log(total)
            for k in range(degree):
                w[m, k] *= share
                alpha = powers[k] * scale
                mean_alpha[k] += alpha
                if heads == 1:
                    apart += alpha * (max(e[m, k] - shift, least) - group_log[k])
        if heads > 1:
            for k in range(degree):
                alpha = max(mean_alpha[k] / np.float32(heads), np.float32(1e-12))
                apart += alpha * (np.log(alpha) - group_log[k])
        gap[t] = max(apart / np.float32(degree), np.float32(0.0))
        _weighted_sum(rows, near, w, degree, t, out)


@jit
def attend_additive(
    indptr: Array,
    indices: Array,
    first: int,
    last: int,
    self_edge: bool,
    rows: Array,
    right: Array,
    left: Array,
    slope: float,
    out: Array,
    gap: Array,
) -> None:
    """Do as :func:`attend` where the group score is additive too, one per head (E7).

    Args:
        indptr: ``(num_nodes + 1,)`` int64 row bounds of the whole graph.
        indices: ``(num_edges,)`` neighbours.
        first: First target.
        last: One past the last target.
        self_edge: Whether a node attends to itself too.
        rows: ``(num_nodes, at least heads * dim)``: projected states first.
        right: ``(num_nodes, 2 * heads)`` source terms of the node attention, then of the group
            attention: both are read for every edge.
        left: ``(last - first, 2 * heads)`` target terms.
        slope: Slope of the LeakyReLU.
        out: ``(last - first, heads, dim)``, overwritten with the weighted sums.
        gap: ``(last - first,)``, overwritten with the mean of alpha log(alpha / lambda).
    """
    count, heads, dim = out.shape
    width, begin = rows.shape[1], heads * dim
    bend, least = np.float32(slope), np.float32(1e-12)
    extra = 1 if self_edge else 0
    longest = _longest(indptr, first, count, extra)
    near = np.empty(longest, dtype=np.int64)
    e = np.empty((heads, longest), dtype=np.float32)
    f = np.empty((heads, longest), dtype=np.float32)
    w = np.empty((heads, longest), dtype=np.float32)
    powers = np.empty(longest, dtype=np.float32)
    alpha = np.empty(longest, dtype=np.float32)
    lam = np.empty(longest, dtype=np.float32)
    even = np.float32(1.0) / np.float32(heads)
    end = indptr[last]
    for t in range(count):
        low = indptr[first + t]
        degree = indptr[first + t + 1] - low + extra
        _begin_target(out, gap, t, heads, dim)
        if degree == 0:
            continue
        _list_neighbors(indices, low, degree, extra, first + t, near)
        for k in range(degree):
            ahead = low + k - extra + _AHEAD
            if ahead < end:
                later = np.int64(indices[ahead])
                prefetch(right, later * 2 * heads)
                for line in range(0, begin, 16):
                    prefetch(rows, later * width + line)
            j = near[k]
            for m in range(heads):
                raw = left[t, m] + right[j, m]
                e[m, k] = raw if raw > 0 else bend * raw
                raw = left[t, heads + m] + right[j, heads + m]
                f[m, k] = raw if raw > 0 else bend * raw
            alpha[k] = np.float32(0.0)
            lam[k] = np.float32(0.0)
        for m in range(heads):
            for turn in range(3):
                # Node attention, group attention, and what is done with both.
                scores = f[m] if turn == 1 else e[m]
                if turn == 2:
                    for k in range(degree):
                        e[m, k] += f[m, k]
                top = np.float32(-np.inf)
                for k in range(degree):
                    top = max(top, scores[k])
                for k in range(degree):
                    powers[k] = exp_below_zero(scores[k] - top)
                total = np.float32(0.0)
                for k in range(degree):
                    total += powers[k]
                if turn == 2:
                    share = np.float32(1.0) / total
                    for k in range(degree):
                        w[m, k] = share * powers[k]
                else:
                    share = even / total
                    mean = lam if turn == 1 else alpha
                    for k in range(degree):
                        mean[k] += share * powers[k]
        apart = np.float32(0.0)
        for k in range(degree):
            alpha[k], lam[k] = max(alpha[k], least), max(lam[k], least)
        for k in range(degree):
            apart += alpha[k] * (log_positive(alpha[k]) - log_positive(lam[k]))
        gap[t] = max(apart / np.float32(degree), np.float32(0.0))
        _weighted_sum(rows, near, w, degree, t, out)


@jit
def lead_with_self(
    indptr: Array, indices: Array, weights: Array, first: int, last: int
) -> tuple[Array, Array, Array]:
    """Return the block arrays of some targets with the edge to itself first in each row.

    As :meth:`graphham.graph.neighborhoods.Block.full` does it for all nodes at once: the self edge
    carries the mean weight of the others.
    """
    count = last - first
    weighted = len(weights) > 0
    begin = indptr[first]
    bounds = np.empty(count + 1, dtype=np.int64)
    kept = np.empty(indptr[last] - begin + count, dtype=np.int32)
    given = np.ones(len(kept) if weighted else 0, dtype=np.float32)
    place = 0
    for t in range(count):
        low, high = indptr[first + t], indptr[first + t + 1]
        bounds[t] = place
        kept[place] = first + t
        total = 0.0
        for k in range(low, high):
            kept[place + 1 + k - low] = indices[k]
            if weighted:
                given[place + 1 + k - low] = weights[k]
                total += weights[k]
        if weighted and high > low:
            given[place] = total / (high - low)
        place += high - low + 1
    bounds[count] = place
    return bounds, kept, given
