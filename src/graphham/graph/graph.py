"""The graph in memory: who is linked to whom, what each node is like, what the user calls it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.ids import NodeIds
from graphham.graph.node_rows import NodeRows, rows_of

Features: TypeAlias = "npt.NDArray[Any] | sp.csr_matrix"


# Beyond this the square of a feature is no finite number in single precision.
_LARGEST_FEATURE = 1e18


@dataclass(frozen=True, eq=False)
class Labels:
    """What is known about each node's class or classes.

    Args:
        classes: The label values as the user wrote them (text or integers), in code order.
        codes: ``(num_nodes,)`` int32 class of each node, -1 where unknown; ``None`` if multi-label.
        matrix: ``(num_nodes, num_classes)`` boolean CSR for multi-label data; a node without any
            stored entry has unknown labels. ``None`` if single-label.
    """

    classes: tuple[Any, ...]
    codes: npt.NDArray[np.int32] | None = None
    matrix: sp.csr_matrix | None = None

    def __post_init__(self) -> None:
        if (self.codes is None) == (self.matrix is None):
            raise InputError("Labels need either codes (single-label) or a matrix (multi-label)")

    @property
    def is_multi(self) -> bool:
        """Whether a node may carry several labels."""
        return self.matrix is not None

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """``(num_nodes,)`` mask of the nodes whose labels are known."""
        if self.codes is not None:
            return np.asarray(self.codes >= 0)
        assert self.matrix is not None
        return np.asarray(np.diff(self.matrix.indptr) > 0)

    def __len__(self) -> int:
        if self.codes is not None:
            return len(self.codes)
        assert self.matrix is not None
        return int(self.matrix.shape[0])

    def values(self) -> list[Any]:
        """Return each node's label as the user wrote it: a value, a list of values, or ``None``."""
        if self.codes is not None:
            return [self.classes[c] if c >= 0 else None for c in self.codes.tolist()]
        assert self.matrix is not None
        bounds, codes = self.matrix.indptr, self.matrix.indices
        return [
            [self.classes[c] for c in codes[a:b].tolist()] or None
            for a, b in pairwise(bounds.tolist())
        ]

    def take(self, rows: npt.NDArray[Any]) -> Labels:
        """Return the labels of ``rows``, in that order."""
        if self.codes is not None:
            return Labels(self.classes, codes=self.codes[rows])
        assert self.matrix is not None
        return Labels(self.classes, matrix=self.matrix[rows])


@dataclass(frozen=True)
class ReadReport:
    """What a reader saw and what it did about it, in plain counts."""

    source: str = ""
    rows_read: int = 0
    duplicates_merged: int = 0
    self_loops_dropped: int = 0
    isolated: int = 0
    components: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """Which part of a split store a graph is.

    Args:
        number: Its number, from 0: it holds the neighbours and features of one range of nodes.
        count: Number of parts.
        first: First node of its range.
        last: One past the last.
        whole: Fingerprint of the whole graph, which all its parts have in common.
    """

    number: int
    count: int
    first: int
    last: int
    whole: str


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph in compressed-row form with features, labels and the user's ids.

    Row ``i`` of the structure lists the neighbours of node ``i`` in ascending order, each once and
    never ``i`` itself. An undirected edge is stored in both rows; with ``directed=True`` row ``i``
    lists the nodes that ``i`` points to, and those are the ones it attends to.

    Args:
        indptr: ``(num_nodes + 1,)`` int64 row bounds.
        indices: ``(num_stored,)`` neighbour rows, int32 where they fit.
        ids: The user's ids in row order.
        features: ``None``, a dense ``(num_nodes, num_features)`` float32/float16 array (possibly
            memory-mapped), or a SciPy CSR matrix of the same shape that is kept sparse.
        feature_names: One name per feature column, or ``None``.
        labels: Known classes, or ``None``.
        weights: ``(num_stored,)`` float32 positive edge weights, or ``None`` for all ones.
        directed: Whether the direction of edges was kept.
        name: What to call the graph in reports.
        splits: Named node-row lists that came with the data, such as ``train``/``val``/``test``.
        titles: One human-readable title per node, or ``None``.
        report: What the reader saw.
        part: Which part of a split store this is; neighbours and features of other nodes are then
            zero here, and only
            :mod:`graphham.parallel.partitioned_graph` knows how to ask for them.
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[Any]
    ids: NodeIds
    features: Features | None = None
    feature_names: Sequence[str] | None = None
    labels: Labels | None = None
    weights: npt.NDArray[np.float32] | None = None
    directed: bool = False
    name: str = "graph"
    splits: dict[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    titles: Sequence[str] | None = None
    report: ReadReport | None = None
    part: Part | None = None

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.indptr) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """Number of nodes and of features, as of a table whose rows are the nodes."""
        return self.num_nodes, self.num_features

    def __len__(self) -> int:
        return self.num_nodes

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, rows: Any) -> NodeRows:
        return rows_of(self, rows)

    @property
    def num_stored(self) -> int:
        """Number of stored neighbour entries: twice the edges of an undirected graph."""
        return len(self.indices)

    @property
    def num_edges(self) -> int:
        """Number of edges, each undirected edge counted once."""
        return self.num_stored if self.directed else self.num_stored // 2

    @property
    def num_features(self) -> int:
        """Number of feature columns; 0 when there are none."""
        return 0 if self.features is None else int(self.features.shape[1])

    @property
    def has_sparse_features(self) -> bool:
        """Whether the features are held as a sparse matrix."""
        return bool(sp.issparse(self.features))

    def degrees(self) -> npt.NDArray[np.int64]:
        """Return the ``(num_nodes,)`` number of neighbours of each node."""
        return np.diff(self.indptr)

    def neighbors(self, row: int) -> npt.NDArray[Any]:
        """Return the neighbour rows of one row."""
        return self.indices[self.indptr[row] : self.indptr[row + 1]]

    def require_whole(self) -> Graph:
        """Return self, or refuse to be read like a whole graph where this is only a part."""
        if self.part is not None:
            raise InputError(
                f"this is part {self.part.number} of {self.part.count} of a split store, which "
                f"only a fit of GraphHAM can read; use the whole store"
            )
        return self

    def own_entries(self) -> slice:
        """Return where the neighbours are that this graph really holds: all, but for a part."""
        if self.part is None:
            return slice(0, self.num_stored)
        return slice(int(self.indptr[self.part.first]), int(self.indptr[self.part.last]))

    def own_rows(self) -> slice:
        """Return the nodes whose neighbours and features this graph really holds."""
        if self.part is None:
            return slice(0, self.num_nodes)
        return slice(self.part.first, self.part.last)

    def adjacency(self) -> sp.csr_matrix:
        """Return the ``(num_nodes, num_nodes)`` SciPy adjacency, sharing memory where it can."""
        self.require_whole()
        data = self.weights if self.weights is not None else np.ones(self.num_stored, np.float32)
        shape = (self.num_nodes, self.num_nodes)
        return sp.csr_matrix((data, self.indices, self.indptr), shape=shape, copy=False)

    def components(self) -> tuple[int, npt.NDArray[np.int32]]:
        """Return the number of (weakly) connected components and each node's component."""
        count, member = sp.csgraph.connected_components(self.adjacency(), directed=self.directed)
        return int(count), member

    def edge_list(self) -> npt.NDArray[np.int64]:
        """Return the ``(num_edges, 2)`` rows of the edges, undirected ones once, first < second."""
        self.require_whole()
        source = np.repeat(np.arange(self.num_nodes), self.degrees())
        target = self.indices.astype(np.int64)
        keep = slice(None) if self.directed else source < target
        return np.stack([source[keep], target[keep]], axis=1)

    def without_edges(self, edges: npt.NDArray[Any]) -> Graph:
        """Return a copy that lacks ``edges`` (``(count, 2)`` rows), to test on held-out links."""
        self.require_whole()
        n = self.num_nodes
        drop = np.concatenate([edges] if self.directed else [edges, edges[:, ::-1]]).astype(
            np.int64
        )
        source = np.repeat(np.arange(n, dtype=np.int64), self.degrees())
        keep = ~np.isin(source * n + self.indices, drop[:, 0] * n + drop[:, 1])
        indptr = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(np.bincount(source[keep], minlength=n), out=indptr[1:])
        weights = None if self.weights is None else self.weights[keep]
        return replace(
            self, indptr=indptr, indices=self.indices[keep], weights=weights, report=None
        )

    def permuted(self, order: npt.NDArray[Any]) -> Graph:
        """Return the same graph with new row ``r`` holding old row ``order[r]``."""
        order = np.asarray(order, dtype=np.int64)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        adjacency = self.adjacency()[order][:, order]
        adjacency.sort_indices()
        return replace(
            self,
            indptr=adjacency.indptr.astype(np.int64),
            indices=adjacency.indices.astype(self.indices.dtype),
            weights=None if self.weights is None else adjacency.data,
            ids=self.ids.take(order),
            features=None if self.features is None else self.features[order],
            labels=None if self.labels is None else self.labels.take(order),
            splits={k: np.sort(place[v]) for k, v in self.splits.items()},
            titles=None if self.titles is None else [self.titles[i] for i in order],
        )

    def fingerprint(self) -> str:
        """Return a short hash of structure and features, by which a run knows its graph again."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        if self.part is not None:
            return self.part.whole
        digest = hashlib.blake2b(digest_size=16)
        _feed(digest, self.indptr, np.int64)
        _feed(digest, self.indices, np.int64)
        if self.weights is not None:
            _feed(digest, self.weights)
        matrix: Any = self.features
        if matrix is not None and sp.issparse(matrix):
            _feed(digest, matrix.indptr, np.int64)
            _feed(digest, matrix.indices, np.int64)
            _feed(digest, matrix.data, np.float32)
        elif matrix is not None:
            _feed(digest, matrix)
        return digest.hexdigest()

    def validate(self) -> Graph:
        """Check every promise of this class; return self or raise :class:`InputError`."""
        n = self.num_nodes
        if n == 0:
            raise InputError("the graph has no nodes; give at least one edge")
        if len(self.ids) != n:
            raise InputError(f"the graph has {n:,} nodes but {len(self.ids):,} ids")
        columns = self.indices[self.own_entries()]
        if columns.size and not 0 <= int(columns.min()) <= int(columns.max()) < n:
            raise InputError(f"a neighbour row lies outside 0..{n - 1}; the structure is damaged")
        if self.indptr[0] != 0 or self.indptr[-1] != self.num_stored or (self.degrees() < 0).any():
            raise InputError("the row bounds of the graph do not add up; the structure is damaged")
        if self.features is not None:
            if self.features.shape[0] != n:
                raise InputError(
                    f"the feature table has {self.features.shape[0]:,} rows but the graph has "
                    f"{n:,} nodes; give one row per node"
                )
            matrix: Any = self.features if self.part is None else self.features[self.own_rows()]
            is_sparse = sp.issparse(matrix)
            values = matrix.data if is_sparse else matrix
            bad = _first_unusable(values)
            if bad is not None:
                where = (
                    int(np.searchsorted(matrix.indptr, bad, side="right")) - 1
                    if is_sparse
                    else bad // matrix.shape[1]
                )
                where += self.own_rows().start
                value = float(values.reshape(-1)[bad])
                if np.isfinite(value):
                    raise InputError(
                        f"the features of node {self.ids[where]!r} hold {value:g}; values "
                        f"beyond {_LARGEST_FEATURE:g} have squares that single precision cannot "
                        f"hold, so scale the features first"
                    )
                raise InputError(
                    f"the features of node {self.ids[where]!r} hold a value that is not a finite "
                    f"number; fill or drop missing values first"
                )
        if self.labels is not None and len(self.labels) != n:
            raise InputError(f"there are {len(self.labels):,} labels for {n:,} nodes")
        codes = None if self.labels is None else self.labels.codes
        if self.labels is not None and codes is not None:
            most = len(self.labels.classes) - 1
            if not -1 <= int(codes.min()) <= int(codes.max()) <= most:
                raise InputError(
                    f"a label code lies outside -1..{most}; give one of the "
                    f"{len(self.labels.classes):,} classes, or -1 where it is unknown"
                )
        if self.weights is not None and not bool(
            np.all((self.weights > 0) & (self.weights < np.inf))
        ):
            raise InputError(
                "an edge weight is zero, negative or not a finite number; weights must be > 0"
            )
        return self

    def __repr__(self) -> str:
        parts = [f"{self.num_nodes:,} nodes", f"{self.num_edges:,} edges"]
        if self.features is not None:
            parts.append(f"{self.num_features:,} {'sparse ' * self.has_sparse_features}features")
        if self.labels is not None:
            parts.append(f"{len(self.labels.classes)} classes")
        return f"Graph({self.name}: {', '.join(parts)}, ids: {self.ids.kind})"


def _feed(digest: Any, values: npt.NDArray[Any], dtype: Any = None, chunk: int = 1 << 22) -> None:
    """Hash an array in pieces, so that one larger than memory is never copied whole."""
    flat = values.reshape(-1)
    for start in range(0, len(flat), chunk):
        digest.update(np.ascontiguousarray(flat[start : start + chunk], dtype=dtype).data)


def _first_unusable(values: Any, chunk: int = 1 << 22) -> int | None:
    """Return the flat position of the first NaN, infinity or value too large to be squared.

    Memory maps are read in pieces.
    """
    flat = values.reshape(-1)
    for start in range(0, flat.shape[0], chunk):
        piece = flat[start : start + chunk]
        if piece.dtype.kind == "b":
            return None
        # Two cheap sums tell most pieces; NaN makes the comparison fail.
        if float(piece.max()) <= _LARGEST_FEATURE and float(piece.min()) >= -_LARGEST_FEATURE:
            continue
        bad = np.flatnonzero(~(np.abs(piece) <= _LARGEST_FEATURE))
        if bad.size:
            return start + int(bad[0])
    return None


def build_graph(
    source: npt.NDArray[Any],
    target: npt.NDArray[Any],
    num_nodes: int,
    *,
    ids: NodeIds | None = None,
    weights: npt.NDArray[Any] | None = None,
    directed: bool = False,
    origin: str = "",
    **parts: Any,
) -> Graph:
    """Turn a list of row pairs into a :class:`Graph`, merging duplicates and dropping self-loops.

    Args:
        source: ``(rows,)`` first ends, as rows ``0..num_nodes-1``.
        target: ``(rows,)`` second ends.
        num_nodes: Number of nodes, isolated ones included.
        ids: The user's ids; ``0..num_nodes-1`` when not given.
        weights: ``(rows,)`` weights; those of merged duplicates are added.
        directed: Keep direction instead of storing every edge both ways.
        origin: File or object the rows came from, for the report.
        **parts: Further fields of :class:`Graph` (``features``, ``labels``, ``name``, ...).
    """
    src = np.asarray(source, dtype=np.int64)
    dst = np.asarray(target, dtype=np.int64)
    loops = src == dst
    num_loops = int(loops.sum())
    weight = None if weights is None else np.asarray(weights, dtype=np.float64)
    if num_loops:
        src, dst = src[~loops], dst[~loops]
        weight = None if weight is None else weight[~loops]
    num_kept = len(src)
    if not directed:
        src, dst = np.concatenate([src, dst]), np.concatenate([dst, src])
        weight = None if weight is None else np.concatenate([weight, weight])
    key = src * num_nodes + dst
    if weight is None:
        key.sort()
        key = key[_firsts(key)]
    else:
        # A stable order adds the weights of both directions in the same sequence: equal to the bit.
        order = np.argsort(key, kind="stable")
        key, weight = key[order], weight[order]
        starts = np.flatnonzero(_firsts(key))
        weight = np.add.reduceat(weight, starts) if len(starts) else weight
        key = key[starts]
    src, dst = np.divmod(key, max(num_nodes, 1))
    if weight is not None:
        heavy = np.flatnonzero((weight > 0) & ~fits_single(weight))
        if heavy.size:
            first = int(heavy[0])
            names = ids if ids is not None else NodeIds.range(num_nodes)
            refuse_sum(names, int(src[first]), int(dst[first]), float(weight[first]), origin)
    indptr = np.zeros(num_nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(src, minlength=num_nodes), out=indptr[1:])
    index_type = np.int32 if num_nodes < 2**31 else np.int64
    graph = Graph(
        indptr=indptr,
        indices=dst.astype(index_type),
        ids=ids if ids is not None else NodeIds.range(num_nodes),
        weights=None if weight is None else weight.astype(np.float32),
        directed=directed,
        **parts,
    )
    report = ReadReport(
        source=origin,
        rows_read=len(np.asarray(source)),
        duplicates_merged=num_kept - graph.num_edges,
        self_loops_dropped=num_loops,
        isolated=int((graph.degrees() == 0).sum()) if not directed else _isolated(graph),
        components=graph.components()[0] if num_nodes else 0,
    )
    return replace(graph, report=report)


def fits_single(weights: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Tell which weights are above 0 and in the range of normal numbers of single precision.

    Below that range precision fades out and reciprocals are infinite.
    """
    with np.errstate(over="ignore", under="ignore"):
        single = np.asarray(weights).astype(np.float32)
    fits: npt.NDArray[np.bool_] = (single >= np.finfo(np.float32).tiny) & (single < np.inf)
    return fits


def refuse_sum(ids: NodeIds, row: int, other: int, total: float, origin: str) -> NoReturn:
    """Refuse an edge whose weights, summed over its duplicates, single precision cannot hold."""
    raise InputError(
        f"the weights of the edge {ids[row]!r} - {ids[other]!r} of {origin or 'the graph'} add up "
        f"to {total:g}; single precision has no such number, so scale the weights to lie in 1e-37 "
        f"to 1e38"
    )


def _firsts(ordered: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Mark the first of each run of equal values."""
    first = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def _isolated(graph: Graph) -> int:
    touched = graph.degrees() > 0
    touched[graph.indices] = True
    return int((~touched).sum())
