"""Samplers: who draws neighbourhoods, walks and negatives, each draw named by a key and a node.

What is drawn for a node depends on the key and that node alone: not on the other nodes of the
batch, not on their order and not on the number of workers. Use a new key for every epoch and
purpose (see :func:`graphham.sampling.keys.derive_key`).
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from graphham.errors import InputError
from graphham.graph.neighborhoods import Block
from graphham.sampling.keys import derive_key
from graphham.sampling.walks import Key, checked_rows, sample_negatives, walk_contexts
from graphham.system.jit import Array, below, frozen, inlined, jit, mix, prefetch

if TYPE_CHECKING:
    from graphham.graph.graph import Graph

_NO_WEIGHTS = frozen(np.empty(0, dtype=np.float32))


class Sampler(ABC):
    """Draws neighbourhoods, walks and negatives of one graph, wherever its links are.

    Any thread may ask, and what is drawn for a node is the same for every kind of sampler.
    """

    #: Whether all processes of a job must draw at the same time, also with nothing to draw.
    draws_together: ClassVar[bool] = False

    @abstractmethod
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

    @abstractmethod
    def walk_contexts(self, targets: Any, walks: int, steps: int, key: Key) -> Array:
        """Walk at random from each target; see :func:`walk_contexts`."""

    @abstractmethod
    def sample_negatives(self, targets: Any, count: int, key: Key) -> Array:
        """Draw nodes that are no neighbours of each target; see :func:`sample_negatives`."""

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


class Scratch(threading.local):
    """Arrays a sampler uses from call to call; every thread that asks gets its own.

    They take 8 bytes per node and 8 per neighbour of the best-connected node.

    Args:
        num_nodes: Nodes of the graph.
        widest: Neighbours of the best-connected one.
    """

    def __init__(self, num_nodes: int, widest: int) -> None:
        super().__init__()
        # Low half: local row. High half: number of the call that gave it, so nothing is cleared.
        self.places = np.zeros(num_nodes, dtype=np.int64)
        self.drawn = np.zeros(widest, dtype=np.int64)
        self.counters = np.zeros(2, dtype=np.int64)

    @classmethod
    def of(cls, graph: Graph) -> Scratch:
        """Return the arrays for a graph; refuse one with too many nodes for them."""
        if graph.num_nodes >= 2**31:
            raise InputError(
                f"the sampler serves fewer than 2**31 nodes, the graph has {graph.num_nodes:,}"
            )
        return cls(graph.num_nodes, int(graph.degrees().max()) if graph.num_nodes else 0)


class NeighborSampler(Sampler):
    """Samples a graph that this process has at hand as a whole.

    Args:
        graph: The graph; of a directed one, the nodes a node points to are drawn.
    """

    def __init__(self, graph: Graph) -> None:
        self._scratch = Scratch.of(graph)
        self.graph = graph
        self._indptr = frozen(graph.indptr, np.int64)
        self._indices = frozen(graph.indices)
        self._weights = _NO_WEIGHTS if graph.weights is None else frozen(graph.weights, np.float32)

    def sample_block(
        self, targets: Any, fanout: int | None, key: Key, self_edge: bool = True
    ) -> Block:
        """Draw up to ``fanout`` neighbours of each target; see :meth:`Sampler.sample_block`."""
        rows = checked_rows(targets, self.graph.require_whole())
        if fanout is not None and fanout < 0:
            raise InputError(f"the fan-out must not be negative, got {fanout}")
        scratch = self._scratch
        scratch.counters[0] += 1
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
            scratch.places,
            scratch.drawn,
            scratch.counters,
        )
        if repeated >= 0:
            raise InputError(
                f"row {rows[repeated]} is a target twice; give each target of a block once"
            )
        kept = None if self.graph.weights is None else weights
        # A copy, because the array was made for the case that every neighbour is new.
        rows_used = sources[:num_sources].copy()
        return Block(indptr, indices, num_sources, self_edge, kept, rows_used)

    def walk_contexts(self, targets: Any, walks: int, steps: int, key: Key) -> Array:
        """Walk at random from each target; see :func:`walk_contexts`."""
        return walk_contexts(self.graph, targets, walks, steps, key)

    def sample_negatives(self, targets: Any, count: int, key: Key) -> Array:
        """Draw nodes that are no neighbours of each target; see :func:`sample_negatives`."""
        return sample_negatives(self.graph, targets, count, key)


def sample_block(
    graph: Graph, targets: Any, fanout: int | None, key: Key, self_edge: bool = True
) -> Block:
    """Draw one block with a sampler made for the occasion; see :class:`NeighborSampler`."""
    return NeighborSampler(graph).sample_block(targets, fanout, key, self_edge)


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
