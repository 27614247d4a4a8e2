"""Draw neighbourhoods, walks and negatives; every draw is named by a key and a node.

What is drawn for a node depends on the key and that node alone: not on the other nodes of the
batch, not on their order and not on the number of workers. Use a new key for every epoch and
purpose (see :func:`graphham.sampling.keys.derive_key`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from graphham.errors import InputError
from graphham.graph.neighborhoods import Block
from graphham.sampling.keys import derive_key, numpy_generator, torch_generator
from graphham.system.jit import Array, below, exact, frozen, inlined, jit, mix, prefetch, unit

if TYPE_CHECKING:
    from graphham.graph.graph import Graph

__all__ = [
    "NeighborSampler",
    "derive_key",
    "numpy_generator",
    "sample_block",
    "sample_negatives",
    "torch_generator",
    "walk_contexts",
]

Key = int | np.integer[Any]

# Walkers advanced together, so that the memory reads of one hide behind those of the others.
_WALKERS = 64
# Draws tried before a negative is picked by counting; only nodes linked to most others get there.
_TRIES = 16
# Graphs whose neighbour lists take more than this are walked where they are.
_COPIED_BYTES = 256 << 20
_NO_WEIGHTS = frozen(np.empty(0, dtype=np.float32))


class NeighborSampler:
    """Sample neighbourhood blocks of one graph, reusing its scratch arrays from call to call.

    The scratch arrays take 8 bytes per node and 8 per neighbour of the best-connected node. One
    sampler serves one thread; give each worker its own.

    Args:
        graph: The graph; of a directed one, the nodes a node points to are drawn.
    """

    def __init__(self, graph: Graph) -> None:
        if graph.num_nodes >= 2**31:
            raise InputError(
                f"the sampler serves fewer than 2**31 nodes, the graph has {graph.num_nodes:,}"
            )
        self.graph = graph
        self._indptr = frozen(graph.indptr, np.int64)
        self._indices = frozen(graph.indices)
        self._weights = _NO_WEIGHTS if graph.weights is None else frozen(graph.weights, np.float32)
        # Low half: local row. High half: number of the call that gave it, so nothing is cleared.
        self._places = np.zeros(graph.num_nodes, dtype=np.int64)
        widest = int(graph.degrees().max()) if graph.num_nodes else 0
        self._drawn = np.zeros(widest, dtype=np.int64)
        self._counters = np.zeros(2, dtype=np.int64)

    def sample_block(
        self, targets: Any, fanout: int | None, key: Key, self_edge: bool = True
    ) -> Block:
        """Draw up to ``fanout`` neighbours of each target, without replacement.

        Args:
            targets: ``(num_targets,)`` distinct graph rows.
            fanout: Largest number of neighbours per target, all where it has no more; ``None``
                takes all neighbours of every target.
            key: Key of the draw.
            self_edge: Whether each row begins with the target itself (in a weighted graph with the
                mean weight of the drawn edges).

        Returns:
            The block; its sources are the targets, then the new nodes in order of appearance.
        """
        rows = _checked_rows(targets, self.graph.require_whole())
        if fanout is not None and fanout < 0:
            raise InputError(f"the fan-out must not be negative, got {fanout}")
        self._counters[0] += 1
        limit = np.iinfo(np.int64).max if fanout is None else fanout
        indptr, indices, weights, sources, num_sources, repeated = _sample_rows(
            self._indptr,
            self._indices,
            self._weights,
            self.graph.weights is not None,
            rows,
            limit,
            np.uint64(key),
            self_edge,
            self._places,
            self._drawn,
            self._counters,
        )
        if repeated >= 0:
            raise InputError(
                f"row {rows[repeated]} is a target twice; give each target of a block once"
            )
        kept = None if self.graph.weights is None else weights
        # A copy, because the array was made for the case that every neighbour is new.
        rows_used = sources[:num_sources].copy()
        return Block(indptr, indices, num_sources, self_edge, kept, rows_used)

    def sample_blocks(
        self, targets: Any, fanouts: Sequence[int | None], key: Key, self_edge: bool = True
    ) -> list[Block]:
        """Draw the blocks of all layers of a network.

        Args:
            targets: ``(num_targets,)`` distinct graph rows, the targets of the last layer.
            fanouts: Fan-out of each layer, first layer first.
            key: Key of the draw; each layer derives its own.
            self_edge: As in :meth:`sample_block`.

        Returns:
            One block per layer, first layer first; the targets of each are the sources of the next.
        """
        blocks: list[Block] = []
        rows = targets
        for layer in reversed(range(len(fanouts))):
            block = self.sample_block(rows, fanouts[layer], derive_key(key, layer), self_edge)
            blocks.append(block)
            rows = block.source_rows
        return blocks[::-1]


def sample_block(
    graph: Graph, targets: Any, fanout: int | None, key: Key, self_edge: bool = True
) -> Block:
    """Draw one block with a sampler made for the occasion; see :class:`NeighborSampler`."""
    return NeighborSampler(graph).sample_block(targets, fanout, key, self_edge)


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
    rows = _checked_rows(targets, graph.require_whole())
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
    rows = _checked_rows(targets, graph)
    if count < 0:
        raise InputError(f"the number of negatives must not be negative, got {count}")
    return _reject_neighbors(
        frozen(graph.indptr, np.int64), frozen(graph.indices), rows, count, np.uint64(key)
    )


def _checked_rows(targets: Any, graph: Graph) -> Array:
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
def pick_entry(d: Any, taken: Any, degree: Any, node_key: Any, drawn: Any, mark: Any) -> Any:
    """Return the place of a node's ``d``-th drawn neighbour among its ``degree`` neighbours.

    Floyd's way: every subset is equally likely after ``taken`` draws, none of them rejected.
    ``drawn`` remembers by ``mark`` what was drawn for this node.
    """
    pick = d
    if taken < degree:
        top = degree - taken + d
        pick = below(mix(node_key, d), top + 1)
        if drawn[pick] == mark:
            pick = top
        drawn[pick] = mark
    return pick


@inlined
def walker_key(key: Any, start: Any, number: Any) -> Any:
    """Return the key of a node's ``number``-th walk; its steps are drawn by their number."""
    return mix(mix(key, start), number)


@jit
def _sample_rows(
    indptr: Array,
    indices: Array,
    weights: Array,
    weighted: bool,
    targets: Array,
    limit: int,
    key: Any,
    self_edge: bool,
    places: Array,
    drawn: Array,
    counters: Array,
) -> tuple[Array, Array, Array, Array, int, int]:
    """Draw and relabel; the last result is the position of a repeated target, or -1."""
    num_targets = len(targets)
    extra = 1 if self_edge else 0
    stamp = counters[0] << 32
    bounds = np.empty(num_targets + 1, dtype=np.int64)
    bounds[0] = 0
    repeated = -1
    for t in range(num_targets):
        if t + 8 < num_targets:
            prefetch(indptr, targets[t + 8])
            prefetch(places, targets[t + 8])
        node = targets[t]
        if places[node] >= stamp:
            repeated = t
        places[node] = stamp | t
        degree = indptr[node + 1] - indptr[node]
        bounds[t + 1] = bounds[t] + min(degree, limit) + extra
    num_edges = bounds[num_targets]
    local = np.empty(num_edges, dtype=np.int32)
    kept = np.empty(num_edges if weighted else 0, dtype=np.float32)
    sources = np.empty(num_targets + num_edges, dtype=np.int64)
    for t in range(num_targets):
        sources[t] = targets[t]
    num_sources = num_targets
    mark = counters[1]
    for t in range(num_targets):
        if t + 4 < num_targets:
            prefetch(indices, indptr[targets[t + 4]])
        node = targets[t]
        low = indptr[node]
        degree = indptr[node + 1] - low
        start = bounds[t] + extra
        taken = bounds[t + 1] - start
        total = 0.0
        mark += 1
        node_key = mix(key, node)
        for d in range(taken):
            pick = pick_entry(d, taken, degree, node_key, drawn, mark)
            neighbor = indices[low + pick]
            prefetch(places, neighbor)
            # The row holds the graph row until the relabelling below; the place is on its way.
            local[start + d] = neighbor
            if weighted:
                kept[start + d] = weights[low + pick]
                total += weights[low + pick]
        if self_edge:
            local[bounds[t]] = t
            if weighted:
                kept[bounds[t]] = total / taken if taken > 0 else 1.0
        for e in range(start, bounds[t + 1]):
            neighbor = local[e]
            place = places[neighbor]
            if place < stamp:
                place = stamp | num_sources
                places[neighbor] = place
                sources[num_sources] = neighbor
                num_sources += 1
            local[e] = place & 0xFFFFFFFF
    counters[1] = mark
    return bounds, local, kept, sources, num_sources, repeated


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
