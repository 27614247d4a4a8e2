"""Compiled loops of the fused attention block over sampled neighbourhoods.

In a sampled block a source has about one edge. Its terms are then taken where its vector is read
anyway, and vectors may be read straight out of a table of all nodes: source j is row ``rows[j]`` of
``values``, or row j where ``rows`` is empty. Layout and meaning of the rest are those of
:mod:`graphham.kernels.attention_full`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphham.kernels.attention_full import (
    ADDITIVE,
    AHEAD,
    CHUNK,
    NO_GROUPS,
    PAIR,
    dot,
    dot_four,
    fetch,
)
from graphham.system.jit import Array, exp_below_zero, inlined, jit, prefetch, read_float


@inlined
def _add_four(
    out: Any, i: Any, m: Any, w: Any, e: Any, scale: Any, scaled: Any, values: Any, j: Any, dim: Any
) -> Any:
    """Add four weighted edges to four heads that read the same vectors, each read once."""
    j0, j1, j2, j3 = j
    a0, a1, a2, a3 = w[e, m], w[e + 1, m], w[e + 2, m], w[e + 3, m]
    b0, b1, b2, b3 = w[e, m + 1], w[e + 1, m + 1], w[e + 2, m + 1], w[e + 3, m + 1]
    c0, c1, c2, c3 = w[e, m + 2], w[e + 1, m + 2], w[e + 2, m + 2], w[e + 3, m + 2]
    d0, d1, d2, d3 = w[e, m + 3], w[e + 1, m + 3], w[e + 2, m + 3], w[e + 3, m + 3]
    if scaled:
        a0, a1 = a0 * scale[e, m], a1 * scale[e + 1, m]
        a2, a3 = a2 * scale[e + 2, m], a3 * scale[e + 3, m]
        b0, b1 = b0 * scale[e, m + 1], b1 * scale[e + 1, m + 1]
        b2, b3 = b2 * scale[e + 2, m + 1], b3 * scale[e + 3, m + 1]
        c0, c1 = c0 * scale[e, m + 2], c1 * scale[e + 1, m + 2]
        c2, c3 = c2 * scale[e + 2, m + 2], c3 * scale[e + 3, m + 2]
        d0, d1 = d0 * scale[e, m + 3], d1 * scale[e + 1, m + 3]
        d2, d3 = d2 * scale[e + 2, m + 3], d3 * scale[e + 3, m + 3]
    for d in range(dim):
        v0, v1 = read_float(values[j0, 0, d]), read_float(values[j1, 0, d])
        v2, v3 = read_float(values[j2, 0, d]), read_float(values[j3, 0, d])
        o0, o1, o2, o3 = out[i, m, d], out[i, m + 1, d], out[i, m + 2, d], out[i, m + 3, d]
        out[i, m, d] = o0 + a0 * v0 + a1 * v1 + a2 * v2 + a3 * v3
        out[i, m + 1, d] = o1 + b0 * v0 + b1 * v1 + b2 * v2 + b3 * v3
        out[i, m + 2, d] = o2 + c0 * v0 + c1 * v1 + c2 * v2 + c3 * v3
        out[i, m + 3, d] = o3 + d0 * v0 + d1 * v1 + d2 * v2 + d3 * v3


@inlined
def _add_row(out: Any, i: Any, factor: Any, rows: Any, j: Any, dim: Any) -> Any:
    """Add ``factor * rows[j]`` to ``out[i]``; reading eight ahead of writing lets it vectorise."""
    # Unsigned, because numba looks at every signed index whether it counts from the end.
    i, j = np.uintp(i), np.uintp(j)
    for block in range(dim // 8):
        k0 = np.uintp(8 * block)
        k1, k2, k3 = k0 + np.uintp(1), k0 + np.uintp(2), k0 + np.uintp(3)
        k4, k5, k6, k7 = k0 + np.uintp(4), k0 + np.uintp(5), k0 + np.uintp(6), k0 + np.uintp(7)
        a, b, c, d = rows[j, k0], rows[j, k1], rows[j, k2], rows[j, k3]
        e, f, g, h = rows[j, k4], rows[j, k5], rows[j, k6], rows[j, k7]
        p, q, r, s = out[i, k0], out[i, k1], out[i, k2], out[i, k3]
        t, u, v, w = out[i, k4], out[i, k5], out[i, k6], out[i, k7]
        out[i, k0] = p + factor * a
        out[i, k1] = q + factor * b
        out[i, k2] = r + factor * c
        out[i, k3] = s + factor * d
        out[i, k4] = t + factor * e
        out[i, k5] = u + factor * f
        out[i, k6] = v + factor * g
        out[i, k7] = w + factor * h
    for k in range(8 * (dim // 8), dim):
        out[i, np.uintp(k)] += factor * rows[j, np.uintp(k)]


@jit
def sampled_forward(
    indptr: Array,
    indices: Array,
    rows: Array,
    values: Array,
    per_line: int,
    vectors: Array,
    kind: int,
    group_left: Array,
    group_right: Array,
    given: Array,
    scale: Array,
    slope: float,
    out: Array,
    weights: Array,
    bent: Array,
) -> None:
    """Write attention weights and weighted sums of every target.

    Args:
        indptr: ``(targets + 1,)`` int64 row bounds.
        indices: ``(edges,)`` int32 sources.
        rows: ``(sources,)`` int64 row of each source in ``values``, or empty.
        values: Source vectors.
        per_line: Numbers in a cache line of ``values``.
        vectors: ``(2, heads, dim)`` attention vectors of target and source.
        kind: Kind of group score.
        group_left: ``(targets, K or heads)`` group terms of targets.
        group_right: ``(sources, K or heads)`` group terms of sources.
        given: ``(edges,)`` edge weights that scale attention, or empty.
        scale: ``(edges, heads)`` factors on the final weights (dropout), or empty.
        slope: LeakyReLU slope.
        out: ``(targets, heads, dim)``, overwritten.
        weights: ``(edges, heads)`` softmax, overwritten.
        bent: ``(edges, heads)`` uint8, overwritten: 1 if the node score is positive, plus 2 if the
            additive group score is.
    """
    num_targets, heads, dim = out.shape
    num_edges = len(indices)
    shared = values.shape[1] == 1
    width = values.shape[1] * dim
    mapped = len(rows) > 0
    group_dim = group_right.shape[1]
    weighted, scaled = len(given) > 0, len(scale) > 0
    bend = np.float32(slope)
    own = np.empty(heads, dtype=np.float32)
    flat = weights.reshape(num_edges * heads)
    first = 0
    while first < num_targets:
        last = first + 1
        while last < num_targets and indptr[last + 1] - indptr[first] <= CHUNK:
            last += 1
        for i in range(first, last):
            low, high = indptr[i], indptr[i + 1]
            if low == high:
                continue
            mine = rows[i] if mapped else np.int64(i)
            for m in range(heads):
                own[m] = dot(vectors, 0, m, values, mine, 0 if shared else m, dim)
            for e in range(low, high):
                if e + AHEAD < num_edges:
                    later = np.int64(indices[e + AHEAD])
                    if kind != NO_GROUPS:
                        prefetch(group_right, later * group_dim)
                    fetch(values, rows[later] if mapped else later, width, per_line)
                j = np.int64(indices[e])
                r = rows[j] if mapped else j
                extra = np.float32(0.0)
                if kind == PAIR:
                    for k in range(group_dim):
                        extra += group_left[i, k] * group_right[j, k]
                m = 0
                while shared and m + 4 <= heads:
                    four = dot_four(vectors, 1, m, values, r, dim)
                    weights[e, m], weights[e, m + 1] = four[0], four[1]
                    weights[e, m + 2], weights[e, m + 3] = four[2], four[3]
                    m += 4
                while m < heads:
                    weights[e, m] = dot(vectors, 1, m, values, r, 0 if shared else m, dim)
                    m += 1
                for m in range(heads):
                    raw = own[m] + weights[e, m]
                    mark = np.uint8(1) if raw > 0 else np.uint8(0)
                    score = (raw if raw > 0 else bend * raw) + extra
                    if kind == ADDITIVE:
                        raw = group_left[i, m] + group_right[j, m]
                        mark += np.uint8(2) if raw > 0 else np.uint8(0)
                        score += raw if raw > 0 else bend * raw
                    weights[e, m] = score
                    bent[e, m] = mark
            for m in range(heads):
                top = np.float32(-np.inf)
                for e in range(low, high):
                    if not weighted or given[e] > 0:
                        top = max(top, weights[e, m])
                for e in range(low, high):
                    # A NaN is no maximum; the difference below keeps it a NaN all the same.
                    weights[e, m] = (
                        min(weights[e, m] - top, np.float32(0.0))
                        if weighted and not (given[e] > 0)
                        else weights[e, m] - top
                    )
        start, stop = indptr[first] * heads, indptr[last] * heads
        for k in range(start, stop):
            flat[k] = exp_below_zero(flat[k])
        for i in range(first, last):
            low, high = indptr[i], indptr[i + 1]
            for m in range(heads):
                total = np.float32(0.0)
                for e in range(low, high):
                    if weighted:
                        weights[e, m] *= given[e]
                    total += weights[e, m]
                # Where no edge has any weight the sum stays zero.
                norm = np.float32(0.0) if weighted and total == 0 else np.float32(1.0) / total
                for e in range(low, high):
                    weights[e, m] *= norm
                for d in range(dim):
                    out[i, m, d] = np.float32(0.0)
            # The heads before ``alone`` are summed four at a time.
            alone = heads - heads % 4 if shared else 0
            for m in range(0, alone, 4):
                done = high - (high - low) % 4
                for e in range(low, done, 4):
                    j0, j1 = np.int64(indices[e]), np.int64(indices[e + 1])
                    j2, j3 = np.int64(indices[e + 2]), np.int64(indices[e + 3])
                    if mapped:
                        j0, j1, j2, j3 = rows[j0], rows[j1], rows[j2], rows[j3]
                    four = (j0, j1, j2, j3)
                    _add_four(out, i, m, weights, e, scale, scaled, values, four, dim)
                for e in range(done, high):
                    j = np.int64(indices[e])
                    r = rows[j] if mapped else j
                    for n in range(m, m + 4):
                        w = weights[e, n] * scale[e, n] if scaled else weights[e, n]
                        for d in range(dim):
                            out[i, n, d] += w * read_float(values[r, 0, d])
            for m in range(alone, heads):
                h = 0 if shared else m
                e = low
                while e + 4 <= high:
                    j0, j1 = np.int64(indices[e]), np.int64(indices[e + 1])
                    j2, j3 = np.int64(indices[e + 2]), np.int64(indices[e + 3])
                    if mapped:
                        j0, j1, j2, j3 = rows[j0], rows[j1], rows[j2], rows[j3]
                    w0, w1, w2, w3 = (
                        weights[e, m],
                        weights[e + 1, m],
                        weights[e + 2, m],
                        weights[e + 3, m],
                    )
                    if scaled:
                        w0, w1 = w0 * scale[e, m], w1 * scale[e + 1, m]
                        w2, w3 = w2 * scale[e + 2, m], w3 * scale[e + 3, m]
                    for d in range(dim):
                        out[i, m, d] += (
                            w0 * read_float(values[j0, h, d])
                            + w1 * read_float(values[j1, h, d])
                            + w2 * read_float(values[j2, h, d])
                            + w3 * read_float(values[j3, h, d])
                        )
                    e += 4
                while e < high:
                    j = np.int64(indices[e])
                    r = rows[j] if mapped else j
                    w = weights[e, m] * scale[e, m] if scaled else weights[e, m]
                    for d in range(dim):
                        out[i, m, d] += w * read_float(values[r, h, d])
                    e += 1
        first = last


@jit
def sampled_backward(
    indptr: Array,
    indices: Array,
    rows: Array,
    values: Array,
    per_line: int,
    kind: int,
    group_left: Array,
    group_right: Array,
    scale: Array,
    slope: float,
    weights: Array,
    bent: Array,
    grad: Array,
    grad_scores: Array,
    grad_left: Array,
    grad_vector: Array,
    grad_group_left: Array,
    grad_group_right: Array,
) -> None:
    """Go back through the weighted sum, the softmax and both scores, target by target.

    With one thread, adding into the sources' gradients in edge order is deterministic.

    Args:
        indptr: ``(targets + 1,)`` int64 row bounds.
        indices: ``(edges,)`` int32 sources.
        rows: ``(sources,)`` int64 row of each source in ``values``, or empty.
        values: Source vectors.
        per_line: Numbers in a cache line of ``values``.
        kind: Kind of group score.
        group_left: ``(targets, K or heads)`` group terms of targets.
        group_right: ``(sources, K or heads)`` group terms of sources.
        scale: ``(edges, heads)`` factors on the final weights, or empty.
        slope: LeakyReLU slope.
        weights: ``(edges, heads)`` softmax.
        bent: ``(edges, heads)`` signs of the scores.
        grad: ``(targets, heads, dim)`` gradient of the sums.
        grad_scores: ``(edges, heads)``, gets the gradient of ``left_i + right_j``.
        grad_left: ``(targets, heads)``, overwritten.
        grad_vector: ``(heads, dim)`` zeros that the gradient of the sources' attention vector is
            added to.
        grad_group_left: ``(targets, K or heads)``, overwritten; empty for none.
        grad_group_right: ``(sources, K or heads)`` zeros that are added to; empty for none.
    """
    num_targets, heads, dim = grad.shape
    num_edges = len(indices)
    shared = values.shape[1] == 1
    width = values.shape[1] * dim
    mapped = len(rows) > 0
    group_dim = group_right.shape[1]
    scaled = len(scale) > 0
    left_back = kind != NO_GROUPS and len(grad_group_left) > 0
    right_back = kind != NO_GROUPS and len(grad_group_right) > 0
    whole = grad_vector.reshape(1, len(grad_vector), dim)
    bend = np.float32(slope)
    for i in range(num_targets):
        low, high = indptr[i], indptr[i + 1]
        for m in range(heads):
            grad_left[i, m] = np.float32(0.0)
        if left_back:
            for k in range(group_dim):
                grad_group_left[i, k] = np.float32(0.0)
        for e in range(low, high):
            if e + AHEAD < num_edges:
                later = np.int64(indices[e + AHEAD])
                fetch(values, rows[later] if mapped else later, width, per_line)
                if left_back and kind == PAIR:
                    prefetch(group_right, later * group_dim)
                if right_back:
                    prefetch(grad_group_right, later * group_dim)
            j = np.int64(indices[e])
            r = rows[j] if mapped else j
            m = 0
            while shared and m + 4 <= heads:
                four = dot_four(grad, i, m, values, r, dim)
                grad_scores[e, m], grad_scores[e, m + 1] = four[0], four[1]
                grad_scores[e, m + 2], grad_scores[e, m + 3] = four[2], four[3]
                m += 4
            while m < heads:
                grad_scores[e, m] = dot(grad, i, m, values, r, 0 if shared else m, dim)
                m += 1
        for m in range(heads):
            mean = np.float32(0.0)
            for e in range(low, high):
                if scaled:
                    grad_scores[e, m] *= scale[e, m]
                mean += weights[e, m] * grad_scores[e, m]
            for e in range(low, high):
                grad_scores[e, m] = weights[e, m] * (grad_scores[e, m] - mean)
        if kind == PAIR and (left_back or right_back):
            for e in range(low, high):
                j = np.int64(indices[e])
                total = np.float32(0.0)
                for m in range(heads):
                    total += grad_scores[e, m]
                if left_back:
                    _add_row(grad_group_left, i, total, group_right, j, group_dim)
                if right_back:
                    _add_row(grad_group_right, j, total, group_left, i, group_dim)
        for m in range(heads):
            total, both = np.float32(0.0), np.float32(0.0)
            if kind == ADDITIVE and right_back:
                # One pass for both scores: it takes the slope of each sign from the same byte.
                for e in range(low, high):
                    part, mark = grad_scores[e, m], bent[e, m]
                    other = part if mark & np.uint8(2) else bend * part
                    part = part if mark & np.uint8(1) else bend * part
                    grad_group_right[np.uintp(indices[e]), np.uintp(m)] += other
                    grad_scores[e, m] = part
                    total += part
                    both += other
            else:
                for e in range(low, high):
                    part = grad_scores[e, m]
                    part = part if bent[e, m] & np.uint8(1) else bend * part
                    grad_scores[e, m] = part
                    total += part
            grad_left[i, m] = total
            if kind == ADDITIVE and left_back:
                grad_group_left[i, m] = both
        alone = heads - heads % 4 if shared else 0
        for m in range(0, alone, 4):
            done = high - (high - low) % 4
            for e in range(low, done, 4):
                j0, j1 = np.int64(indices[e]), np.int64(indices[e + 1])
                j2, j3 = np.int64(indices[e + 2]), np.int64(indices[e + 3])
                if mapped:
                    j0, j1, j2, j3 = rows[j0], rows[j1], rows[j2], rows[j3]
                four = (j0, j1, j2, j3)
                _add_four(whole, 0, m, grad_scores, e, scale, False, values, four, dim)
            for e in range(done, high):
                j = np.int64(indices[e])
                r = rows[j] if mapped else j
                for n in range(m, m + 4):
                    w = grad_scores[e, n]
                    for d in range(dim):
                        grad_vector[n, d] += w * read_float(values[r, 0, d])
        for m in range(alone, heads):
            h = 0 if shared else m
            e = low
            while e + 4 <= high:
                j0, j1 = np.int64(indices[e]), np.int64(indices[e + 1])
                j2, j3 = np.int64(indices[e + 2]), np.int64(indices[e + 3])
                if mapped:
                    j0, j1, j2, j3 = rows[j0], rows[j1], rows[j2], rows[j3]
                w0, w1, w2, w3 = (
                    grad_scores[e, m],
                    grad_scores[e + 1, m],
                    grad_scores[e + 2, m],
                    grad_scores[e + 3, m],
                )
                for d in range(dim):
                    grad_vector[m, d] += (
                        w0 * read_float(values[j0, h, d])
                        + w1 * read_float(values[j1, h, d])
                        + w2 * read_float(values[j2, h, d])
                        + w3 * read_float(values[j3, h, d])
                    )
                e += 4
            while e < high:
                j = np.int64(indices[e])
                r = rows[j] if mapped else j
                w = grad_scores[e, m]
                for d in range(dim):
                    grad_vector[m, d] += w * read_float(values[r, h, d])
                e += 1
