"""Build the rows of a large undirected graph in linear time and memory.

:func:`graphham.graph.graph.build_graph` is the general way in. The functions here serve generators
and readers that already hold distinct pairs by the ten million, where sorting twice is what hurts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from graphham.system.jit import jit

Pairs = npt.NDArray[np.int64]


def pair_keys(source: npt.NDArray[Any], target: npt.NDArray[Any], num_nodes: int) -> Pairs:
    """Return one sorted key ``low * num_nodes + high`` per distinct unordered pair, loops dropped.

    Args:
        source: ``(rows,)`` first ends, as rows ``0..num_nodes-1``.
        target: ``(rows,)`` second ends.
        num_nodes: Number of nodes.
    """
    keys = np.minimum(source, target).astype(np.int64)
    keys *= num_nodes
    keys += np.maximum(source, target)
    keys = keys[np.asarray(source) != np.asarray(target)]
    keys.sort()
    return drop_repeats(keys)


def drop_repeats(keys: Pairs) -> Pairs:
    """Return a sorted key array with each key once."""
    if len(keys) < 2:
        return keys
    first = np.empty(len(keys), dtype=bool)
    first[0] = True
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    return keys if bool(first.all()) else keys[first]


def rows_from_keys(
    keys: Pairs, num_nodes: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Turn sorted distinct pair keys into the ``indptr`` and ``indices`` of both directions.

    Args:
        keys: ``(num_edges,)`` ascending output of :func:`pair_keys`.
        num_nodes: Number of nodes, below ``2**31``.

    Returns:
        ``(num_nodes + 1,)`` int64 bounds and ``(2 * num_edges,)`` int32 neighbours, each row
        ascending.
    """
    indptr = np.zeros(num_nodes + 1, dtype=np.int64)
    indices = np.empty(2 * len(keys), dtype=np.int32)
    _fill_rows(keys, num_nodes, indptr, indices)
    return indptr, indices


def count_components(indptr: npt.NDArray[np.int64], indices: npt.NDArray[Any]) -> int:
    """Return the number of connected components of an undirected graph in rows form."""
    return int(_count_components(indptr, indices))


def mean_clustering(indptr: npt.NDArray[np.int64], indices: npt.NDArray[Any]) -> float:
    """Return the mean local clustering coefficient; a node with fewer than two neighbours counts 0.

    Every triangle is found once, from its two ends of highest degree, so hubs cost little: the work
    is O(edges * sqrt(edges)) at worst and near linear on real graphs.

    Args:
        indptr: ``(num_nodes + 1,)`` row bounds.
        indices: ``(num_stored,)`` neighbours, both directions stored, rows ascending.
    """
    if len(indptr) < 2:
        return 0.0
    triangles = _triangles(indptr, indices)
    degree = np.diff(indptr).astype(np.float64)
    possible = degree * (degree - 1) / 2
    local = np.divide(triangles, possible, out=np.zeros_like(degree), where=possible > 0)
    return float(local.mean())


@jit
def _fill_rows(keys: Any, num_nodes: int, indptr: Any, indices: Any) -> None:
    for key in keys:
        indptr[key // num_nodes + 1] += 1
        indptr[key % num_nodes + 1] += 1
    for row in range(num_nodes):
        indptr[row + 1] += indptr[row]
    place = indptr[:-1].copy()
    # Keys ascend, so writing all smaller neighbours before all larger ones leaves each row sorted.
    for key in keys:
        low, high = key // num_nodes, key % num_nodes
        indices[place[high]] = low
        place[high] += 1
    for key in keys:
        low, high = key // num_nodes, key % num_nodes
        indices[place[low]] = high
        place[low] += 1


@jit
def _count_components(indptr: Any, indices: Any) -> int:
    num_nodes = len(indptr) - 1
    parent = np.arange(num_nodes)
    count = num_nodes
    for row in range(num_nodes):
        for at in range(indptr[row], indptr[row + 1]):
            a, b = row, np.int64(indices[at])
            if b > a:
                break
            while parent[a] != a:
                parent[a] = parent[parent[a]]
                a = parent[a]
            while parent[b] != b:
                parent[b] = parent[parent[b]]
                b = parent[b]
            if a != b:
                count -= 1
                if a < b:
                    parent[b] = a
                else:
                    parent[a] = b
    return count


@jit
def _triangles(indptr: Any, indices: Any) -> Any:
    num_nodes = len(indptr) - 1
    # Keep only edges towards the endpoint of higher (degree, row): short lists even at hubs.
    forward = np.zeros(num_nodes + 1, dtype=np.int64)
    targets = np.empty(len(indices) // 2, dtype=indices.dtype)
    filled = 0
    for row in range(num_nodes):
        degree = indptr[row + 1] - indptr[row]
        for at in range(indptr[row], indptr[row + 1]):
            other = indices[at]
            other_degree = indptr[other + 1] - indptr[other]
            if other_degree > degree or (other_degree == degree and other > row):
                targets[filled] = other
                filled += 1
        forward[row + 1] = filled
    stamp = np.full(num_nodes, -1, dtype=np.int64)
    triangles = np.zeros(num_nodes, dtype=np.int64)
    for row in range(num_nodes):
        for at in range(forward[row], forward[row + 1]):
            stamp[targets[at]] = row
        for at in range(forward[row], forward[row + 1]):
            middle = targets[at]
            for far_at in range(forward[middle], forward[middle + 1]):
                far = targets[far_at]
                if stamp[far] == row:
                    triangles[row] += 1
                    triangles[middle] += 1
                    triangles[far] += 1
    return triangles
