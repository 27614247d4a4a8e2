"""The neighbourhood a layer attends over: which source rows each target row reads.

A block is all a layer needs to know about the graph. A full-batch block has every node as target
and source; a sampled one has the targets of a batch first and the further sampled nodes after them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from graphham.errors import InputError
from graphham.system.jit import Array, frozen, jit, mix, unit

if TYPE_CHECKING:
    import torch

    from graphham.graph.graph import Graph


# Not a field of the graph: a graph that is copied or sent elsewhere leaves its blocks behind.
_FULL_BLOCKS: WeakKeyDictionary[Graph, dict[bool, Block]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class BlockTensors:
    """The arrays of a block as torch tensors on one device, for the plain-torch operations.

    Args:
        indptr: ``(num_targets + 1,)`` int64 row bounds.
        sources: ``(num_edges,)`` int64 local source row of each edge.
        targets: ``(num_edges,)`` int64 local target row of each edge.
        weights: ``(num_edges,)`` float32 edge weights, or ``None``.
        mean_weights: ``(num_edges,)`` float32 weights that sum to one over each target's edges.
        source_rows: ``(num_sources,)`` int64 graph rows, or ``None``.
    """

    indptr: torch.Tensor
    sources: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor | None
    mean_weights: torch.Tensor
    source_rows: torch.Tensor | None


@dataclass(frozen=True, eq=False)
class Block:
    """A bipartite neighbourhood in compressed-row form; arrays are read-only.

    The first ``num_targets`` source rows are the targets themselves, in target order.

    Args:
        indptr: ``(num_targets + 1,)`` int64 row bounds.
        indices: ``(num_edges,)`` int32 local source rows.
        num_sources: Number of source rows.
        self_edge: Whether each row begins with the edge from the target to itself.
        weights: ``(num_edges,)`` float32 edge weights, or ``None`` for all ones.
        source_rows: ``(num_sources,)`` int64 graph rows of the sources; ``None`` where local and
            graph rows are the same.
    """

    indptr: Array
    indices: Array
    num_sources: int
    self_edge: bool = True
    weights: Array | None = None
    source_rows: Array | None = None

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "indptr", frozen(self.indptr, np.int64))
        set_field(self, "indices", frozen(self.indices, np.int32))
        if self.num_edges >= 2**31:
            raise InputError(
                f"a block holds fewer than 2**31 edges, got {self.num_edges:,}; sample fewer"
            )
        if self.weights is not None:
            set_field(self, "weights", frozen(self.weights, np.float32))
            if len(self.weights) != self.num_edges:
                raise InputError(
                    f"the block has {self.num_edges:,} edges but {len(self.weights):,} weights"
                )
        if self.source_rows is not None:
            set_field(self, "source_rows", frozen(self.source_rows, np.int64))
            if len(self.source_rows) != self.num_sources:
                raise InputError(
                    f"the block has {self.num_sources:,} sources but "
                    f"{len(self.source_rows):,} source rows"
                )
        if len(self.indptr) == 0 or self.indptr[0] != 0 or self.indptr[-1] != self.num_edges:
            raise InputError("the row bounds of the block do not add up to its number of edges")
        if self.num_targets > self.num_sources:
            raise InputError(
                f"the block has {self.num_targets:,} targets but only {self.num_sources:,} "
                f"sources; every target is also a source"
            )

    @classmethod
    def full(cls, graph: Graph, self_edge: bool = True) -> Block:
        """Return the block of the whole graph: every node attends to all its neighbours.

        In a weighted graph the self edge carries the mean weight of the node's other edges, so that
        its share does not depend on the unit of the weights. A graph's block is made once and kept
        as long as the graph.
        """
        kept = _FULL_BLOCKS.setdefault(graph, {})
        if self_edge not in kept:
            kept[self_edge] = cls._make_full(graph, self_edge)
        return kept[self_edge]

    @classmethod
    def _make_full(cls, graph: Graph, self_edge: bool) -> Block:
        graph.require_whole()
        if graph.num_nodes >= 2**31:
            raise InputError(
                f"a block holds fewer than 2**31 rows but the graph has {graph.num_nodes:,} nodes; "
                f"sample blocks instead"
            )
        plain = cls(graph.indptr, graph.indices, graph.num_nodes, False, graph.weights)
        return plain._with_self_edges() if self_edge else plain

    @classmethod
    def from_edges(
        cls,
        sources: Any,
        targets: Any,
        num_targets: int,
        num_sources: int | None = None,
        self_edge: bool = False,
        weights: Any = None,
    ) -> Block:
        """Return the block of an edge list (``sources[e]`` is read by ``targets[e]``).

        Args:
            sources: ``(edges,)`` local source rows.
            targets: ``(edges,)`` local target rows.
            num_targets: Number of targets, those without edges included.
            num_sources: Number of sources; as many as targets when not given.
            self_edge: Put a self edge first in each row; self edges in the list are then dropped.
            weights: ``(edges,)`` weights, or ``None``. A self edge gets the mean of its row.
        """
        src = np.asarray(sources).astype(np.int64)
        dst = np.asarray(targets).astype(np.int64)
        count = num_targets if num_sources is None else num_sources
        for name, rows, limit in (("source", src, count), ("target", dst, num_targets)):
            if rows.size and not 0 <= int(rows.min()) <= int(rows.max()) < limit:
                worst = int(rows.min()) if int(rows.min()) < 0 else int(rows.max())
                raise InputError(f"edge {name} {worst} lies outside 0..{limit - 1}")
        if len(src) != len(dst):
            raise InputError(f"there are {len(src):,} edge sources but {len(dst):,} edge targets")
        value = None if weights is None else np.asarray(weights, dtype=np.float32)
        if value is not None and len(value) != len(src):
            raise InputError(f"there are {len(src):,} edges but {len(value):,} weights")
        if self_edge:
            keep = src != dst
            src, dst = src[keep], dst[keep]
            value = None if value is None else value[keep]
        indptr, _, edges = transpose(
            frozen([0, len(dst)], np.int64), frozen(dst, np.int32), num_targets
        )
        plain = cls(indptr, src[edges], count, False, None if value is None else value[edges])
        return plain._with_self_edges() if self_edge else plain

    def _with_self_edges(self) -> Block:
        weights = _NONE if self.weights is None else self.weights
        indptr, indices, grown = _lead_with_self(
            self.indptr, self.indices, weights, self.weights is not None
        )
        kept = None if self.weights is None else grown
        return Block(indptr, indices, self.num_sources, True, kept, self.source_rows)

    @property
    def num_targets(self) -> int:
        """Number of target rows."""
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """Number of edges, self edges included."""
        return len(self.indices)

    @property
    def target_rows(self) -> Array | None:
        """``(num_targets,)`` graph rows of the targets; ``None`` like ``source_rows``."""
        return None if self.source_rows is None else self.source_rows[: self.num_targets]

    def degrees(self) -> Array:
        """Return the ``(num_targets,)`` number of edges of each target."""
        return np.diff(self.indptr)

    @cached_property
    def strengths(self) -> Array:
        """Return the ``(num_targets,)`` sum of the weights of each target's edges."""
        if self.weights is None:
            return self.degrees().astype(np.float32)
        sums = np.bincount(self.edge_targets, self.weights, minlength=self.num_targets)
        return sums.astype(np.float32)

    @cached_property
    def edge_targets(self) -> Array:
        """``(num_edges,)`` int32 local target row of each edge."""
        rows = np.arange(self.num_targets, dtype=np.int32)
        return frozen(np.repeat(rows, self.degrees()))

    @cached_property
    def mean_weights(self) -> Array:
        """``(num_edges,)`` float32 weights that sum to one over each target's edges."""
        weights = _NONE if self.weights is None else self.weights
        return frozen(_normalised(self.indptr, frozen(weights, np.float32)))

    @cached_property
    def neighbor_weights(self) -> Array:
        """``(num_edges,)`` float32 weights that sum to one over the edges but the self edge."""
        weights = (
            np.ones(self.num_edges, dtype=np.float32) if self.weights is None else self.weights
        )
        if self.self_edge:
            weights = weights.copy()
            weights[self.indptr[:-1]] = 0.0
        return frozen(_normalised(self.indptr, frozen(weights, np.float32)))

    @cached_property
    def _transposed(self) -> tuple[Array, Array, Array]:
        parts = transpose(self.indptr, self.indices, self.num_sources)
        return frozen(parts[0]), frozen(parts[1]), frozen(parts[2])

    @property
    def t_indptr(self) -> Array:
        """``(num_sources + 1,)`` int64 bounds of the edges that leave each source."""
        return self._transposed[0]

    @property
    def t_targets(self) -> Array:
        """``(num_edges,)`` int32 local target rows in source order."""
        return self._transposed[1]

    @property
    def t_edges(self) -> Array:
        """``(num_edges,)`` int32 position of each edge of the source order in the target order."""
        return self._transposed[2]

    def drop_edges(self, rate: float, key: int | np.integer[Any]) -> Block:
        """Return the block with about a share ``rate`` of its edges left out.

        Self edges stay. Whether an edge stays depends on the key and its unordered pair of graph
        rows alone, so both directions of an undirected edge go together, in any batch.
        """
        if not 0.0 <= rate < 1.0:
            raise InputError(f"the share of dropped edges must lie in [0, 1), got {rate}")
        if rate == 0.0:
            return self
        rows = _NO_ROWS if self.source_rows is None else self.source_rows
        keep = _kept_edges(self.indptr, self.indices, rows, self.self_edge, rate, np.uint64(key))
        counts = np.concatenate([[0], np.cumsum(keep)])
        weights = None if self.weights is None else self.weights[keep]
        return replace(
            self, indptr=counts[self.indptr], indices=self.indices[keep], weights=weights
        )

    @cached_property
    def _tensors(self) -> dict[str, BlockTensors]:
        return {}

    def to(self, device: torch.device | str) -> BlockTensors:
        """Return the block's arrays as tensors on ``device``; copied once and then remembered."""
        import torch

        name = str(torch.device(device))
        if name not in self._tensors:

            def tensor(array: Array, dtype: Any = None) -> torch.Tensor:
                return torch.tensor(array, device=device, dtype=dtype)

            self._tensors[name] = BlockTensors(
                indptr=tensor(self.indptr),
                sources=tensor(self.indices, torch.int64),
                targets=tensor(self.edge_targets, torch.int64),
                weights=None if self.weights is None else tensor(self.weights),
                mean_weights=tensor(self.mean_weights),
                source_rows=None if self.source_rows is None else tensor(self.source_rows),
            )
        return self._tensors[name]

    def __repr__(self) -> str:
        return (
            f"Block({self.num_targets:,} targets, {self.num_sources:,} sources, "
            f"{self.num_edges:,} edges)"
        )


_NONE = frozen(np.empty(0, dtype=np.float32))
_NO_ROWS = frozen(np.empty(0, dtype=np.int64))


@jit
def _lead_with_self(
    indptr: Array, indices: Array, weights: Array, weighted: bool
) -> tuple[Array, Array, Array]:
    """Put an edge from each row to itself at the front of the row."""
    num_rows = len(indptr) - 1
    new_indptr = np.empty(num_rows + 1, dtype=np.int64)
    new_indices = np.empty(len(indices) + num_rows, dtype=np.int32)
    new_weights = np.ones(len(new_indices) if weighted else 0, dtype=np.float32)
    for i in range(num_rows):
        low, high = indptr[i], indptr[i + 1]
        new_indptr[i] = low + i
        new_indices[low + i] = i
        total = 0.0
        for e in range(low, high):
            new_indices[e + i + 1] = indices[e]
            if weighted:
                new_weights[e + i + 1] = weights[e]
                total += weights[e]
        if weighted and high > low:
            new_weights[low + i] = total / (high - low)
    new_indptr[num_rows] = len(new_indices)
    return new_indptr, new_indices, new_weights


@jit
def transpose(indptr: Array, indices: Array, num_columns: int) -> tuple[Array, Array, Array]:
    """List the edges by column instead of by row, rows ascending: a counting sort."""
    num_edges = len(indices)
    t_indptr = np.zeros(num_columns + 1, dtype=np.int64)
    for e in range(num_edges):
        t_indptr[indices[e] + 1] += 1
    for j in range(num_columns):
        t_indptr[j + 1] += t_indptr[j]
    place = t_indptr[:-1].copy()
    rows = np.empty(num_edges, dtype=np.int32)
    edges = np.empty(num_edges, dtype=np.int32)
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            spot = place[j]
            place[j] = spot + 1
            rows[spot] = i
            edges[spot] = e
    return t_indptr, rows, edges


@jit
def _normalised(indptr: Array, weights: Array) -> Array:
    """Divide each row's weights (ones if there are none) by their sum; a sum of zero stays zero."""
    weighted = len(weights) > 0
    result = np.empty(indptr[-1], dtype=np.float32)
    for i in range(len(indptr) - 1):
        low, high = indptr[i], indptr[i + 1]
        total = 0.0
        for e in range(low, high):
            total += weights[e] if weighted else 1.0
        for e in range(low, high):
            result[e] = (weights[e] if weighted else 1.0) / total if total > 0.0 else 0.0
    return result


@jit
def _kept_edges(
    indptr: Array, indices: Array, rows: Array, self_edge: bool, rate: float, key: Any
) -> Array:
    """Decide for each edge whether it stays, by its unordered pair of graph rows."""
    keep = np.ones(len(indices), dtype=np.bool_)
    for i in range(len(indptr) - 1):
        start = indptr[i] + (1 if self_edge else 0)
        for e in range(start, indptr[i + 1]):
            first, second = np.int64(i), np.int64(indices[e])
            if len(rows) > 0:
                first, second = rows[first], rows[second]
            low, high = min(first, second), max(first, second)
            keep[e] = unit(mix(mix(key, low), high)) >= rate
    return keep
