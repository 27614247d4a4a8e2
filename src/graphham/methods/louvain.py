"""Find communities by modularity: Louvain's method, compiled, one result per key.

Nodes move to the neighbouring community with the largest gain until none gains; communities then
become nodes and the same is done again (Blondel et al., 2008). As in Leiden's fast moving phase
(Traag et al., 2019), only nodes next to a change are looked at again, so a round costs the edges.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.sampling.keys import derive_key, numpy_generator
from graphham.system.jit import Array, frozen, jit

Codes = npt.NDArray[np.int64]
# A gain below this share of an edge is rounding; moving for it could go on for ever.
_LEAST_GAIN = 1e-10
_MOST_ROUNDS = 50


def louvain(adjacency: Any, key: Any, resolution: float = 1.0) -> tuple[Codes, float]:
    """Split a graph into communities of high modularity.

    Args:
        adjacency: ``(num_nodes, num_nodes)`` symmetric SciPy matrix of weights >= 0, no diagonal.
        key: Decides the order in which nodes are looked at.
        resolution: Above 1 for more and smaller communities.

    Returns:
        ``(num_nodes,)`` communities numbered from 0 by first node, and their modularity (0 where
        there is no edge).
    """
    if not resolution > 0:
        raise InputError(f"resolution must be above 0, got {resolution}")
    rows = sp.csr_matrix(adjacency, copy=True)
    rows.eliminate_zeros()
    if rows.nnz and not float(rows.data.min()) > 0:
        raise InputError(f"an edge weight is {rows.data.min()}; Louvain needs weights above 0")
    num_nodes = int(rows.shape[0])
    indptr, indices = frozen(rows.indptr, np.int64), frozen(rows.indices, np.int64)
    weights, inner = frozen(rows.data, np.float64), np.zeros(num_nodes)
    member = np.arange(num_nodes, dtype=np.int64)
    for number in range(_MOST_ROUNDS):
        order = numpy_generator(derive_key(key, "louvain", number)).permutation(len(inner))
        codes, count = _move(indptr, indices, weights, frozen(inner), frozen(order), resolution)
        if count == len(inner):
            break
        member = codes[member]
        indptr, indices, weights, inner = _merge(
            indptr, indices, weights, frozen(inner), codes, count
        )
        indptr, indices, weights = frozen(indptr), frozen(indices), frozen(weights)
    first = np.unique(member, return_index=True)[1]
    place = np.empty(len(first), dtype=np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    member = place[member]
    return member, modularity(rows, member, resolution)


def modularity(adjacency: Any, codes: Codes, resolution: float = 1.0) -> float:
    """Return the modularity of a division of a symmetric graph; 0 where there is no edge."""
    rows = sp.coo_matrix(adjacency)
    total = float(rows.data.sum(dtype=np.float64))
    if total == 0:
        return 0.0
    strength = np.bincount(codes[rows.row], weights=rows.data)
    inside = float(rows.data[codes[rows.row] == codes[rows.col]].sum(dtype=np.float64))
    return inside / total - resolution * float(((strength / total) ** 2).sum())


@jit
def _move(
    indptr: Array, indices: Array, weights: Array, inner: Array, order: Array, resolution: float
) -> tuple[Array, int]:
    """Move nodes one by one while modularity rises; return dense communities and their number."""
    n = len(inner)
    strength = np.empty(n, dtype=np.float64)
    total = 0.0
    for i in range(n):
        strength[i] = 2.0 * inner[i]
        for e in range(indptr[i], indptr[i + 1]):
            strength[i] += weights[e]
        total += strength[i]
    codes = np.arange(n)
    volume = strength.copy()
    towards = np.zeros(n, dtype=np.float64)
    met = np.empty(n, dtype=np.int64)
    # A ring buffer: a node waits in it at most once, so n places are enough.
    queue = order.copy()
    waiting = np.ones(n, dtype=np.bool_)
    head, length = 0, n
    visits = 0
    while length > 0 and total > 0 and visits < 1000 * n:
        visits += 1
        i = queue[head]
        head = (head + 1) % n
        length -= 1
        waiting[i] = False
        own = codes[i]
        count = 0
        for e in range(indptr[i], indptr[i + 1]):
            c = codes[indices[e]]
            if towards[c] == 0.0:
                met[count] = c
                count += 1
            towards[c] += weights[e]
        volume[own] -= strength[i]
        share = resolution * strength[i] / total
        best, best_gain = own, towards[own] - share * volume[own]
        for k in range(count):
            gain = towards[met[k]] - share * volume[met[k]]
            if gain > best_gain + _LEAST_GAIN * strength[i]:
                best, best_gain = met[k], gain
        for k in range(count):
            towards[met[k]] = 0.0
        volume[best] += strength[i]
        if best == own:
            continue
        codes[i] = best
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if not waiting[j] and codes[j] != best:
                waiting[j] = True
                queue[(head + length) % n] = j
                length += 1
    place = np.full(n, -1, dtype=np.int64)
    found = 0
    for i in range(n):
        if place[codes[i]] < 0:
            place[codes[i]] = found
            found += 1
        codes[i] = place[codes[i]]
    return codes, found


@jit
def _merge(
    indptr: Array, indices: Array, weights: Array, inner: Array, codes: Array, count: int
) -> tuple[Array, Array, Array, Array]:
    """Make each community a node; edges inside it become its inner weight."""
    n = len(inner)
    bounds = np.zeros(count + 1, dtype=np.int64)
    for i in range(n):
        bounds[codes[i] + 1] += 1
    bounds = np.cumsum(bounds)
    fill = bounds[:-1].copy()
    members = np.empty(n, dtype=np.int64)
    for i in range(n):
        members[fill[codes[i]]] = i
        fill[codes[i]] += 1
    new_inner = np.zeros(count, dtype=np.float64)
    new_indptr = np.zeros(count + 1, dtype=np.int64)
    new_indices = np.empty(len(indices), dtype=np.int64)
    new_weights = np.empty(len(indices), dtype=np.float64)
    towards = np.zeros(count, dtype=np.float64)
    used = 0
    for c in range(count):
        start = used
        for m in range(bounds[c], bounds[c + 1]):
            i = members[m]
            new_inner[c] += inner[i]
            for e in range(indptr[i], indptr[i + 1]):
                other = codes[indices[e]]
                if other == c:
                    # Stored from both ends.
                    new_inner[c] += 0.5 * weights[e]
                    continue
                if towards[other] == 0.0:
                    new_indices[used] = other
                    used += 1
                towards[other] += weights[e]
        for k in range(start, used):
            new_weights[k] = towards[new_indices[k]]
            towards[new_indices[k]] = 0.0
        new_indptr[c + 1] = used
    return new_indptr, new_indices[:used].copy(), new_weights[:used].copy(), new_inner
