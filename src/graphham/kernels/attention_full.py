"""Compiled loops of the fused attention block: scores, softmax and weighted sum row by row.

Source vectors ``values`` are ``(rows, H, dim)``: H = 1 when all heads read the same vector, else
H is the number of heads. They are float32, or float16 viewed as int16. A source j is row
``rows[j]`` of ``values``, or row j where ``rows`` is empty. Nothing of size edges x dim is made: an
edge's vector is fetched once, and its score, its share of the sum and its gradients are taken while
it is in the nearest cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphham.system.jit import Array, exp_below_zero, inlined, jit, prefetch, read_float

# Kinds of group score.
NO_GROUPS, PAIR, ADDITIVE = 0, 1, 2
AHEAD = 12
# Rows are taken together until they have this many edges, so that short rows share one run of
# exponentials and their source vectors still fit the nearest caches.
CHUNK = 96


@inlined
def dot(left: Any, i: Any, m: Any, values: Any, r: Any, h: Any, dim: Any) -> Any:
    """Return ``left[i, m] . values[r, h]``."""
    total = np.float32(0.0)
    for d in range(dim):
        total += left[i, m, d] * read_float(values[r, h, d])
    return total


@inlined
def dot_four(left: Any, i: Any, m: Any, values: Any, r: Any, dim: Any) -> Any:
    """Return ``left[i, m + n] . values[r, 0]`` for n from 0 to 3, reading the vector once."""
    a, b, c, f = np.float32(0.0), np.float32(0.0), np.float32(0.0), np.float32(0.0)
    for d in range(dim):
        v = read_float(values[r, 0, d])
        a += left[i, m, d] * v
        b += left[i, m + 1, d] * v
        c += left[i, m + 2, d] * v
        f += left[i, m + 3, d] * v
    return a, b, c, f


@inlined
def fetch(values: Any, r: Any, width: Any, per_line: Any) -> Any:
    """Fetch the cache lines of row r."""
    base = np.int64(r) * width
    for line in range(0, width, per_line):
        prefetch(values, base + line)


@jit
def node_terms(values: Array, vectors: Array, out: Array) -> None:
    """Write ``out[j, m] = vectors[0, m] . values[j, m]`` for as many rows as ``out`` has."""
    count, heads = out.shape
    shared = values.shape[1] == 1
    dim = values.shape[2]
    for j in range(count):
        for m in range(heads):
            out[j, m] = dot(vectors, 0, m, values, j, 0 if shared else m, dim)


@jit
def attend_forward(
    indptr: Array,
    indices: Array,
    values: Array,
    left: Array,
    right: Array,
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
        values: Source vectors.
        left: ``(targets, heads)`` terms of targets.
        right: ``(sources, heads)`` terms of sources.
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
    group_dim = group_right.shape[1]
    weighted, scaled = len(given) > 0, len(scale) > 0
    bend = np.float32(slope)
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
            for e in range(low, high):
                if e + AHEAD < num_edges:
                    later = np.int64(indices[e + AHEAD])
                    if kind != NO_GROUPS:
                        prefetch(group_right, later * group_dim)
                    prefetch(right, later * heads)
                    fetch(values, later, width, 16)
                j = np.int64(indices[e])
                extra = np.float32(0.0)
                if kind == PAIR:
                    for k in range(group_dim):
                        extra += group_left[i, k] * group_right[j, k]
                for m in range(heads):
                    raw = left[i, m] + right[j, m]
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
                h = 0 if shared else m
                e = low
                while e + 4 <= high:
                    j0, j1 = np.int64(indices[e]), np.int64(indices[e + 1])
                    j2, j3 = np.int64(indices[e + 2]), np.int64(indices[e + 3])
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
                    w = weights[e, m] * scale[e, m] if scaled else weights[e, m]
                    for d in range(dim):
                        out[i, m, d] += w * read_float(values[j, h, d])
                    e += 1
        first = last


@jit
def attend_backward(
    indptr: Array,
    indices: Array,
    values: Array,
    ready: bool,
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
    grad_right: Array,
    grad_group_left: Array,
    grad_group_right: Array,
) -> None:
    """Go back through the weighted sum, the softmax and both scores, target by target.

    With one thread, adding into the sources' gradients in edge order is deterministic.

    Args:
        indptr: ``(targets + 1,)`` int64 row bounds.
        indices: ``(edges,)`` int32 sources.
        values: Source vectors.
        ready: Whether ``grad_scores`` already holds the gradients of the final weights.
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
        grad_right: ``(sources, heads)`` zeros that are added to.
        grad_group_left: ``(targets, K or heads)``, overwritten; empty for none.
        grad_group_right: ``(sources, K or heads)`` zeros that are added to; empty for none.
    """
    num_targets, heads, dim = grad.shape
    num_edges = len(indices)
    shared = values.shape[1] == 1
    width = values.shape[1] * dim
    group_dim = group_right.shape[1]
    scaled = len(scale) > 0
    left_back = kind != NO_GROUPS and len(grad_group_left) > 0
    right_back = kind != NO_GROUPS and len(grad_group_right) > 0
    bend = np.float32(slope)
    for i in range(num_targets):
        low, high = indptr[i], indptr[i + 1]
        for m in range(heads):
            grad_left[i, m] = np.float32(0.0)
        if left_back:
            for k in range(group_dim):
                grad_group_left[i, k] = np.float32(0.0)
        if not ready:
            for e in range(low, high):
                if e + AHEAD < num_edges:
                    later = np.int64(indices[e + AHEAD])
                    fetch(values, later, width, 16)
                    if left_back and kind == PAIR:
                        prefetch(group_right, later * group_dim)
                    if right_back:
                        prefetch(grad_group_right, later * group_dim)
                j = np.int64(indices[e])
                m = 0
                while shared and m + 4 <= heads:
                    four = dot_four(grad, i, m, values, j, dim)
                    grad_scores[e, m], grad_scores[e, m + 1] = four[0], four[1]
                    grad_scores[e, m + 2], grad_scores[e, m + 3] = four[2], four[3]
                    m += 4
                while m < heads:
                    grad_scores[e, m] = dot(grad, i, m, values, j, 0 if shared else m, dim)
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
                    for k in range(group_dim):
                        grad_group_left[i, k] += total * group_right[j, k]
                if right_back:
                    for k in range(group_dim):
                        grad_group_right[j, k] += total * group_left[i, k]
        if kind == ADDITIVE and right_back:
            for m in range(heads):
                total = np.float32(0.0)
                for e in range(low, high):
                    part = grad_scores[e, m]
                    part = part if bent[e, m] & np.uint8(2) else bend * part
                    total += part
                    grad_group_right[indices[e], m] += part
                if left_back:
                    grad_group_left[i, m] = total
        for m in range(heads):
            total = np.float32(0.0)
            for e in range(low, high):
                part = grad_scores[e, m]
                part = part if bent[e, m] & np.uint8(1) else bend * part
                grad_scores[e, m] = part
                total += part
            grad_left[i, m] = total
        for e in range(low, high):
            j = np.int64(indices[e])
            for m in range(heads):
                grad_right[j, m] += grad_scores[e, m]


@jit
def source_backward(
    t_indptr: Array,
    t_targets: Array,
    t_edges: Array,
    values: Array,
    vectors: Array,
    scale: Array,
    weights: Array,
    grad: Array,
    inner: bool,
    grad_scores: Array,
    out: Array,
) -> None:
    """Write the gradient of every source vector, source by source.

    Either (``inner``) the source terms are still unknown: then the gradients of the edge weights
    are taken in the same pass, from the targets' vectors that are in the cache anyway, and written
    to ``grad_scores``. Or ``grad_scores`` is what :func:`attend_backward` left: then its part goes
    into the result too.

    Args:
        t_indptr: ``(sources + 1,)`` int64 bounds of the edges that leave each source.
        t_targets: ``(edges,)`` int32 targets in source order.
        t_edges: ``(edges,)`` int32 place of each edge in target order.
        values: ``(sources, H, dim)`` source vectors.
        vectors: ``(2, heads, dim)`` attention vectors.
        scale: ``(edges, heads)`` factors on the final weights, or empty.
        weights: ``(edges, heads)`` softmax.
        grad: ``(targets, heads, dim)`` gradient of the sums.
        inner: See above.
        grad_scores: ``(edges, heads)``.
        out: ``(sources, H, dim)``, overwritten.
    """
    num_sources, views, dim = out.shape
    heads = grad.shape[1]
    num_edges = len(t_targets)
    shared = views == 1
    width = heads * dim
    scaled = len(scale) > 0
    for j in range(num_sources):
        low, high = t_indptr[j], t_indptr[j + 1]
        for h in range(views):
            for d in range(dim):
                out[j, h, d] = np.float32(0.0)
        for k in range(low, high):
            if k + AHEAD < num_edges:
                prefetch(weights, np.int64(t_edges[k + AHEAD]) * heads)
                fetch(grad, t_targets[k + AHEAD], width, 16)
            i, e = np.int64(t_targets[k]), np.int64(t_edges[k])
            for m in range(heads):
                h = 0 if shared else m
                w = weights[e, m] * scale[e, m] if scaled else weights[e, m]
                if inner:
                    total = np.float32(0.0)
                    for d in range(dim):
                        g = grad[i, m, d]
                        total += g * values[j, h, d]
                        out[j, h, d] += w * g
                    grad_scores[e, m] = total
                else:
                    part = grad_scores[e, m]
                    for d in range(dim):
                        out[j, h, d] += w * grad[i, m, d] + part * vectors[1, m, d]


@jit
def finish_sources(
    values: Array,
    rows: Array,
    vectors: Array,
    grad_left: Array,
    grad_right: Array,
    grad_vectors: Array,
    out: Array,
) -> None:
    """Add the part of the node scores to the gradients of source vectors and attention vectors.

    Args:
        values: Source vectors.
        rows: ``(sources,)`` int64 row of each source in ``values``, or empty.
        vectors: ``(2, heads, dim)`` attention vectors.
        grad_left: ``(targets, heads)``.
        grad_right: ``(sources, heads)``, or empty where both results have its part already.
        grad_vectors: ``(2, heads, dim)``, added to.
        out: ``(sources, H, dim)``, added to; empty for none.
    """
    heads, dim = vectors.shape[1:]
    shared = values.shape[1] == 1
    wanted = len(out) > 0
    for side in range(2):
        terms = grad_left if side == 0 else grad_right
        for j in range(len(terms)):
            r = rows[j] if len(rows) > 0 else np.int64(j)
            for m in range(heads):
                h = 0 if shared else m
                part = terms[j, m]
                for d in range(dim):
                    grad_vectors[side, m, d] += part * read_float(values[r, h, d])
                if wanted:
                    for d in range(dim):
                        out[j, h, d] += part * vectors[side, m, d]
