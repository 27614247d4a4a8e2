"""A store cut into parts, one per process: neighbours and features are asked for where they are.

Every part knows all row bounds and ids, and holds the neighbours and features of its own range of
nodes. What a step draws is decided by key and node alone, so a process draws *which* neighbours it
wants by itself and asks their owners only who they are. Processes answer each other in turns: all
of them call these functions in the same order, also with nothing to ask.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphham.config.settings import RunConfig
from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.graph.mapped_features import MappedFeatures, column_moments
from graphham.graph.neighborhoods import Block
from graphham.graph.spans import span_of
from graphham.parallel.ranks import Ranks
from graphham.sampling.sampler import Sampler, Scratch, pick_entry
from graphham.sampling.walks import Key, sample_negatives, walker_key
from graphham.system.jit import Array, below, frozen, jit, mix

Rows = npt.NDArray[np.int64]


def check_split(graph: Graph, config: RunConfig, ranks: Ranks) -> None:
    """Refuse what one part of a graph cannot do, or what only a part of the processes could."""
    part = graph.part
    if part is None:
        return
    if (part.number, part.count) != (ranks.rank, ranks.count):
        raise InputError(
            f"part {part.number} of {part.count} of a split store is for process {part.number} of "
            f"{part.count}, not for process {ranks.rank} of {ranks.count}; start {part.count} "
            f"processes or split the store anew"
        )
    if config.task != "embed" or config.train.validation_edges:
        raise InputError(
            "a split store serves --task embed without train.validation_edges; fit the whole store "
            "for anything else"
        )
    here = ranks.own_range(graph.num_nodes, span_of(graph.num_nodes))
    if (part.first, part.last) != here:
        raise InputError(
            f"part {part.number} begins with node {part.first:,} and ends before {part.last:,}, "
            f"where this version expects {here[0]:,} and {here[1]:,}; split the store anew"
        )
    if len(set(ranks.collect(part.whole))) > 1:
        raise InputError("the parts are not of one graph; split the store anew and copy all parts")


class Owners:
    """Who holds which rows, and how to ask them.

    Args:
        bounds: ``(processes + 1,)`` first row of each process and one past the last.
        ranks: The processes.
    """

    def __init__(self, bounds: Sequence[int] | Array, ranks: Ranks) -> None:
        self.bounds, self.ranks = np.asarray(bounds, dtype=np.int64), ranks

    def ask(self, rows: Array, answer: Callable[[Rows, int], Array]) -> Array:
        """Return what the owner of each row answers; every process answers for its own.

        Args:
            rows: ``(count,)`` rows, in any order.
            answer: Gives the ``(rows, ...)`` answers of rows that are here, to a process.
        """
        owner = np.searchsorted(self.bounds, rows, side="right") - 1
        order = np.argsort(owner, kind="stable")
        cuts = np.searchsorted(owner[order], np.arange(self.ranks.count + 1))
        sorted_rows = torch.from_numpy(rows[order].astype(np.int64, copy=False))
        parts = [sorted_rows[a:b] for a, b in itertools.pairwise(cuts.tolist())]
        asked = self.ranks.exchange(parts)
        answers = [answer(part.numpy(), asker) for asker, part in enumerate(asked)]
        parts = [torch.from_numpy(np.ascontiguousarray(part)) for part in answers]
        got = self.ranks.swap(parts)
        # Torch's memory begins at a cache line; products of rows from elsewhere differ in bits.
        out = torch.empty_like(got)
        out[torch.from_numpy(order)] = got
        result: Array = out.numpy()
        return result


class PartitionedSampler(Sampler):
    """Draws what :class:`~graphham.sampling.sampler.NeighborSampler` draws from a part only.

    Args:
        graph: The part; its row bounds are those of the whole graph.
        ranks: The processes that hold the parts.
    """

    draws_together = True

    def __init__(self, graph: Graph, ranks: Ranks) -> None:
        self.graph, self._scratch = graph, Scratch.of(graph)
        self._indptr, self._indices = frozen(graph.indptr, np.int64), frozen(graph.indices)
        nodes = ranks.bounds(graph.num_nodes, span_of(graph.num_nodes))
        self.nodes = Owners(nodes, ranks)
        self.entries = Owners(graph.indptr[nodes], ranks)

    def sample_block(
        self, targets: Any, fanout: int | None, key: Key, self_edge: bool = True
    ) -> Block:
        """Draw up to ``fanout`` neighbours of each target; see :meth:`Sampler.sample_block`."""
        rows = frozen(targets, np.int64)
        scratch = self._scratch
        scratch.counters[0] += 1
        limit = np.iinfo(np.int64).max if fanout is None else fanout
        bounds, spots = _draw_spots(
            self._indptr, rows, limit, np.uint64(key), scratch.drawn, scratch.counters
        )
        met = frozen(self.entries.ask(spots, self._answer))
        indptr, local, sources = _relabel(
            rows, bounds, met, self_edge, scratch.places, scratch.counters[0]
        )
        return Block(indptr, local, len(sources), self_edge, None, sources)

    def walk_contexts(self, targets: Any, walks: int, steps: int, key: Key) -> Array:
        """Do as :func:`graphham.sampling.walks.walk_contexts`."""
        rows = frozen(targets, np.int64)
        origin = np.repeat(rows, walks)
        at = origin.copy()
        met = np.empty((len(at), steps), dtype=self._indices.dtype)
        for step in range(steps):
            spots = _walk_spots(self._indptr, frozen(rows), walks, at, step, np.uint64(key))
            walking = spots >= 0
            at[:] = -1
            at[walking] = self.entries.ask(spots[walking], self._answer)
            met[:, step] = np.where(at == origin, -1, at)
        return met.reshape(len(rows), walks, steps)

    def sample_negatives(self, targets: Any, count: int, key: Key) -> Array:
        """Do as :func:`graphham.sampling.walks.sample_negatives`."""
        rows = np.asarray(targets, dtype=np.int64)
        # The owner of a node draws for it, by the key of whoever asks.
        told = self.nodes.ranks.gather(torch.from_numpy(np.array([key], np.uint64).view(np.int64)))
        keys = [part.numpy().view(np.uint64)[0] for part in told]

        def draw(own: Rows, asker: int) -> Array:
            return sample_negatives(self.graph, own, count, keys[asker])

        return self.nodes.ask(rows, draw)

    def _answer(self, spots: Rows, asker: int) -> Array:
        return self._indices[spots]


class PartitionedFeatures(MappedFeatures):
    """Dense features of which this process has the rows of its own range."""

    ranks: Ranks

    @classmethod
    def of(cls, mapped: MappedFeatures, ranks: Ranks) -> PartitionedFeatures:
        """Return the same features, other rows asked for where they are."""
        made = cls(mapped.raw, mapped.shift, mapped.factor, mapped.unit_rows, mapped.skips_blank)
        object.__setattr__(made, "ranks", ranks)
        return made

    def rows(self, selection: Any) -> Tensor:
        """Return the ``(len(selection), num_features)`` scaled rows, whoever has them."""
        chosen = np.asarray(selection, dtype=np.int64)
        bounds = self.ranks.bounds(len(self.raw), span_of(len(self.raw)))
        here = super().rows
        rows = Owners(bounds, self.ranks).ask(chosen, lambda own, _: here(own).numpy())
        return torch.from_numpy(rows)

    def own(self) -> MappedFeatures:
        """Return the features of the own range."""
        first, last = self.ranks.own_range(len(self.raw), span_of(len(self.raw)))
        return MappedFeatures(
            self.raw[first:last], self.shift, self.factor, self.unit_rows, self.skips_blank
        )

    def matmul(self, weight: Tensor) -> Tensor:
        """Return ``(num_nodes, out)`` features times weights, each process doing its own rows."""
        out = torch.empty(len(self.raw), weight.shape[1])
        span = span_of(len(self.raw))
        first, last = self.ranks.own_range(len(self.raw), span)
        out[first:last] = self.own().matmul(weight)
        self.ranks.share_rows(out.numpy(), span)
        return out

    def gram(self) -> npt.NDArray[np.float64]:
        """Return the products of all columns; every process adds up its own rows."""
        return _total(self.own().gram(), self.ranks)

    def to_tensor(self) -> Tensor:
        """Refuse: nobody holds the whole table."""
        raise InputError("a split store has no place for all features; train.batch must be sampled")


def joint_moments(graph: Graph, ranks: Ranks, skips_blank: bool = False) -> tuple[Array, Array]:
    """Return mean and deviation of each feature column over all parts."""
    assert graph.features is not None
    own: Any = graph.features[graph.own_rows()]
    (mean, spread), count = column_moments(own, skips_blank)
    share = count / max(float(_total(np.array([float(count)]), ranks)[0]), 1.0)
    total = _total(share * mean, ranks)
    # What the parts vary in themselves, and what their means do.
    return total, np.sqrt(_total(share * (spread**2 + (mean - total) ** 2), ranks))


def _total(values: npt.NDArray[np.float64], ranks: Ranks) -> npt.NDArray[np.float64]:
    """Add up all processes' arrays in the order of processes."""
    parts = ranks.gather(torch.from_numpy(np.ascontiguousarray(values)))
    total: npt.NDArray[np.float64] = torch.stack(parts).sum(0).numpy()
    return total


@jit
def _draw_spots(
    indptr: Array, targets: Array, limit: int, key: Any, drawn: Array, counters: Array
) -> tuple[Array, Array]:
    """Return the bounds of each target's draw and the entries drawn, as ``_sample_rows`` does."""
    count = len(targets)
    bounds = np.empty(count + 1, dtype=np.int64)
    bounds[0] = 0
    for t in range(count):
        degree = indptr[targets[t] + 1] - indptr[targets[t]]
        bounds[t + 1] = bounds[t] + min(degree, limit)
    spots = np.empty(bounds[count], dtype=np.int64)
    mark = counters[1]
    for t in range(count):
        node = targets[t]
        low = indptr[node]
        degree = indptr[node + 1] - low
        taken = bounds[t + 1] - bounds[t]
        mark += 1
        node_key = mix(key, node)
        for d in range(taken):
            spots[bounds[t] + d] = low + pick_entry(d, taken, degree, node_key, drawn, mark)
    counters[1] = mark
    return bounds, spots


@jit
def _relabel(
    targets: Array, bounds: Array, met: Array, self_edge: bool, places: Array, call: int
) -> tuple[Array, Array, Array]:
    """Return the block's bounds, its local columns, and the graph rows behind them."""
    count = len(targets)
    extra = 1 if self_edge else 0
    stamp = call << 32
    sources = np.empty(count + len(met), dtype=np.int64)
    for t in range(count):
        sources[t] = targets[t]
        places[targets[t]] = stamp | t
    num_sources = count
    indptr = np.empty(count + 1, dtype=np.int64)
    local = np.empty(len(met) + extra * count, dtype=np.int32)
    for t in range(count + 1):
        indptr[t] = bounds[t] + extra * t
    for t in range(count):
        if self_edge:
            local[indptr[t]] = t
        for e in range(bounds[t], bounds[t + 1]):
            neighbor = met[e]
            place = places[neighbor]
            if place < stamp:
                place = stamp | num_sources
                places[neighbor] = place
                sources[num_sources] = neighbor
                num_sources += 1
            local[e + extra * (t + 1)] = place & 0xFFFFFFFF
    return indptr, local, sources[:num_sources].copy()


@jit
def _walk_spots(
    indptr: Array, targets: Array, walks: int, position: Array, step: int, key: Any
) -> Array:
    """Return the entry each walker goes to next as ``_walk`` does, -1 for one that stands still."""
    spots = np.empty(len(position), dtype=np.int64)
    for w in range(len(position)):
        spots[w] = -1
        if position[w] >= 0:
            low = indptr[position[w]]
            degree = indptr[position[w] + 1] - low
            if degree > 0:
                walk = walker_key(key, targets[w // walks], w % walks)
                spots[w] = low + below(mix(walk, step), degree)
    return spots
