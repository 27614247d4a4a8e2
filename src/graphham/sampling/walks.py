"""Random walks and negatives; what is drawn for a node depends on the key and that node alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from graphham.errors import InputError
from graphham.system.jit import Array, below, exact, frozen, inlined, jit, mix, prefetch, unit

if TYPE_CHECKING:
    from graphham.graph.graph import Graph

Key = int | np.integer[Any]

# Walkers advanced together, so that the memory reads of one hide behind those of the others.
_WALKERS = 64
# Draws tried before a negative is picked by counting; only nodes linked to most others get there.
_TRIES = 16
# Graphs whose neighbour lists take more than this are walked where they are.
_COPIED_BYTES = 256 << 20
_NO_WEIGHTS = frozen(np.empty(0, dtype=np.float32))


def walk_contexts(graph: Graph, targets: Any, walks: int, steps: int, key: Key) -> Array:
    """Walk at random from each target and list the nodes met.

    Each step goes to a uniformly drawn neighbour, or in proportion to edge weights where the graph
    has them.

    Args:
        graph: The graph.
        targets: ``(num_targets,)`` graph rows; a row given twice gets the same walks twice.
        walks: Number of walks from each target.
        steps: Number of steps of each walk.
        key: Key of the draw.

    Returns:
        ``(num_targets, walks, steps)`` graph rows, int32 where the graph's are. -1 marks a step
        that stands at the walk's own start again (no context, but the walk goes on) and all
        steps of a walk that has no neighbour to go to.
    """
    rows = checked_rows(targets, graph.require_whole())
    if walks < 0 or steps < 0:
        raise InputError(f"walks and steps must not be negative, got {walks} and {steps}")
    bounds, entries = frozen(graph.indptr, np.int64), frozen(graph.indices)
    if len(rows) * walks * steps >= graph.num_stored and entries.nbytes <= _COPIED_BYTES:
        # Many walks read every entry anyway: a copy on large pages with narrow bounds pays at once.
        bounds, entries = frozen(graph.indptr, np.uint32), frozen(np.array(graph.indices))
    return _walk(bounds, entries, _cumulative_weights(graph), rows, walks, steps, np.uint64(key))


def sample_negatives(graph: Graph, targets: Any, count: int, key: Key) -> Array:
    """Draw nodes that are neither the target nor its neighbours, uniformly and with replacement.

    Args:
        graph: The graph; of a directed one, the nodes a target points to are its neighbours.
        targets: ``(num_targets,)`` graph rows.
        count: Number of draws for each target.
        key: Key of the draw.

    Returns:
        ``(num_targets, count)`` graph rows; -1 throughout for a target linked to every other node.
    """
    rows = checked_rows(targets, graph)
    if count < 0:
        raise InputError(f"the number of negatives must not be negative, got {count}")
    return _reject_neighbors(
        frozen(graph.indptr, np.int64), frozen(graph.indices), rows, count, np.uint64(key)
    )


def checked_rows(targets: Any, graph: Graph) -> Array:
    """Return targets as graph rows; refuse what is none of them."""
    rows = np.asarray(targets)
    if rows.ndim != 1 or (rows.size and not np.issubdtype(rows.dtype, np.integer)):
        raise InputError(
            f"targets must be a list of graph rows, got {rows.dtype} of shape {rows.shape}"
        )
    if rows.size and not 0 <= int(rows.min()) <= int(rows.max()) < graph.num_nodes:
        worst = int(rows.min()) if int(rows.min()) < 0 else int(rows.max())
        raise InputError(f"target row {worst} lies outside 0..{graph.num_nodes - 1}")
    return frozen(rows, np.int64)


_SUMS: WeakKeyDictionary[Graph, Array] = WeakKeyDictionary()


def _cumulative_weights(graph: Graph) -> Array:
    """Return each row's running sum of weights, made once per graph; empty without weights."""
    if graph.weights is None:
        return _NO_WEIGHTS
    if graph not in _SUMS:
        indptr, weights = frozen(graph.indptr, np.int64), frozen(graph.weights, np.float32)
        _SUMS[graph] = frozen(_running_sums(indptr, weights))
    return _SUMS[graph]


@jit
def _running_sums(indptr: Array, weights: Array) -> Array:
    sums = np.empty(len(weights), dtype=np.float32)
    for i in range(len(indptr) - 1):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            total += weights[e]
            sums[e] = total
    return sums


@inlined
def walker_key(key: Any, start: Any, number: Any) -> Any:
    """Return the key of a node's ``number``-th walk; its steps are drawn by their number."""
    return mix(mix(key, start), number)


@jit
def _walk(
    indptr: Array, indices: Array, sums: Array, targets: Array, walks: int, steps: int, key: Any
) -> Array:
    """Advance groups of walkers step by step; see :func:`walk_contexts`."""
    weighted = len(sums) > 0
    count = len(targets) * walks
    met = np.empty((count, steps), dtype=indices.dtype)
    position = np.empty(_WALKERS, dtype=np.int64)
    origin = np.empty(_WALKERS, dtype=np.int64)
    spot = np.empty(_WALKERS, dtype=np.int64)
    walk_keys = np.empty(_WALKERS, dtype=np.uint64)
    for first in range(0, count, _WALKERS):
        group = min(_WALKERS, count - first)
        for w in range(group):
            start = targets[(first + w) // walks]
            origin[w] = start
            position[w] = start
            prefetch(indptr, start)
            walk_keys[w] = walker_key(key, start, (first + w) % walks)
        for s in range(steps):
            # Three passes: row bounds, then entries, then the bounds of the next rows. Each pass
            # asks for what the following one reads.
            for w in range(group):
                spot[w] = -1
                if position[w] >= 0:
                    low = np.int64(indptr[position[w]])
                    degree = np.int64(indptr[position[w] + 1]) - low
                    if degree > 0:
                        bits = mix(walk_keys[w], s)
                        if weighted:
                            spot[w] = low + _heavier(sums, low, degree, unit(bits))
                        else:
                            spot[w] = low + below(bits, degree)
                        prefetch(indices, spot[w])
            for w in range(group):
                place = spot[w]
                position[w] = indices[place] if place >= 0 else -1
                if place >= 0:
                    prefetch(indptr, position[w])
            for w in range(group):
                met[first + w, s] = -1 if position[w] == origin[w] else position[w]
    return met.reshape((len(targets), walks, steps))


@exact
def _heavier(sums: Array, low: Any, degree: Any, share: float) -> int:
    """Return the first entry of a row whose running sum exceeds a share of the row's total."""
    bar = share * sums[low + degree - 1]
    left, right = 0, degree - 1
    while left < right:
        middle = (left + right) // 2
        if sums[low + middle] > bar:
            right = middle
        else:
            left = middle + 1
    return left


@jit
def _reject_neighbors(indptr: Array, indices: Array, targets: Array, count: int, key: Any) -> Array:
    """Draw until neither the target nor a neighbour comes up; see :func:`sample_negatives`."""
    num_nodes = len(indptr) - 1
    negatives = np.empty((len(targets), count), dtype=indices.dtype)
    for t in range(len(targets)):
        node = targets[t]
        low, high = indptr[node], indptr[node + 1]
        free = num_nodes - 1 - (high - low)
        node_key = mix(key, node)
        for c in range(count):
            chosen = np.int64(-1)
            draw_key = mix(node_key, c)
            for attempt in range(_TRIES if free > 0 else 0):
                guess = below(mix(draw_key, attempt), num_nodes)
                left, right = low, high
                while left < right:
                    middle = (left + right) // 2
                    if indices[middle] < guess:
                        left = middle + 1
                    else:
                        right = middle
                if guess != node and (left == high or indices[left] != guess):
                    chosen = guess
                    break
            if chosen < 0 and free > 0:
                # Count to the chosen one among the free rows; the sorted row tells which are not.
                chosen = below(mix(draw_key, _TRIES), free)
                self_seen = False
                for e in range(low, high):
                    if not self_seen and node < indices[e] and node <= chosen:
                        chosen += 1
                        self_seen = True
                    if indices[e] > chosen:
                        break
                    chosen += 1
                if not self_seen and node <= chosen:
                    chosen += 1
            negatives[t, c] = chosen
    return negatives
