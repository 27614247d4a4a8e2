"""Edges of npz files: lists of edges, or the parts of a sparse matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.graph import fits_single
from graphham.graph.ids import NodeIds
from graphham.io.edge_streams import Batch, EdgeColumns, EdgeSource
from graphham.io.encode import Edges, arrow_ids, listed, node_ids
from graphham.io.files import Raw, read_arrays
from graphham.io.weights import advice_for, check_weights

# A matrix may declare this many nodes without edges for each entry it holds, and a million anyway.
_NODES_PER_ENTRY = 100
_FREE_NODES = 1_000_000
_WEIGHT_NAMES = ("weights", "weight")


def open_arrays(path: Path, raw: Raw, columns: EdgeColumns) -> EdgeSource:
    """Read the arrays of an npz file: ``edges`` or the parts of a sparse matrix.

    ``ids`` names the nodes when present; then whole numbers in the structure are rows into it. Text
    in ``edges`` is always an id.
    """
    origin, arrays = str(path), read_arrays(path, raw)
    weights = _array_weights(arrays, columns.weight, origin)
    ids = arrays.get("ids")
    if ids is not None and (ids.ndim != 1 or ids.dtype.kind not in "iuU"):
        raise InputError(f"the array 'ids' of {origin} must be one row of whole numbers or text")
    if "edges" not in arrays:
        names = None if ids is None else node_ids(ids)
        entries = edges_of_matrix(_matrix_of(arrays, origin), names, origin)
        return _row_source(tidy_rows(entries, columns.directed, origin), origin)
    edges = _edge_array(arrays["edges"], origin)
    if weights is not None and len(weights) != len(edges):
        raise InputError(f"{origin} has {len(weights):,} weights for {len(edges):,} edges")
    if ids is None or edges.dtype.kind == "U":
        ends = [arrow_ids(edges[:, i]).combine_chunks() for i in (0, 1)]
        nodes = None if ids is None else arrow_ids(ids).combine_chunks()
        return _id_source(ends, nodes, weights, origin)
    if edges.min() < 0 or edges.max() >= len(ids):
        worst = int(edges.min() if edges.min() < 0 else edges.max())
        raise InputError(f"{origin} has an edge to row {worst}, but 'ids' has {len(ids):,} rows")
    rows = edges.astype(np.int64)
    return _row_source(Edges(rows[:, 0], rows[:, 1], node_ids(ids), weights), origin)


def _edge_array(edges: npt.NDArray[Any], origin: str) -> npt.NDArray[Any]:
    """Return the array of edges as ``(count, 2)``."""
    if edges.ndim != 2 or 2 not in edges.shape or edges.dtype.kind not in "iuU":
        raise InputError(
            f"the array 'edges' of {origin} has shape {edges.shape} and type {edges.dtype}; "
            f"it must be (count, 2) whole numbers or text"
        )
    if edges.shape[1] != 2:
        edges = edges.T
    if not len(edges):
        raise InputError(f"{origin} has no edges; it needs at least one")
    return edges


def _id_source(
    ends: Sequence[pa.Array],
    nodes: pa.Array | None,
    weights: npt.NDArray[np.float64] | None,
    origin: str,
) -> EdgeSource:
    def batches(integers: bool) -> Iterator[Batch]:
        source, target = ends if integers else (end.cast(pa.large_string()) for end in ends)
        yield Batch(source, target, weights)

    whole = all(pa.types.is_integer(end.type) for end in ends)
    return EdgeSource(origin, batches, whole, weights is not None, nodes=nodes)


def _row_source(edges: Edges, origin: str) -> EdgeSource:
    def batches(integers: bool) -> Iterator[Batch]:
        yield Batch(pa.array(edges.source), pa.array(edges.target), edges.weights)

    return EdgeSource(origin, batches, True, edges.weights is not None, row_ids=edges.ids)


def edges_of_matrix(matrix: Any, ids: NodeIds | None, origin: str) -> Edges:
    """Take edges out of a square SciPy matrix; its values are the weights unless all are one."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(
            f"the adjacency matrix of {origin} has shape {tuple(matrix.shape)}; it must be square"
        )
    if ids is not None and len(ids) != matrix.shape[0]:
        raise InputError(
            f"{origin} has {len(ids):,} ids for {matrix.shape[0]:,} rows of its adjacency matrix"
        )
    entries = matrix.tocoo()
    kept = entries.data != 0  # an explicitly stored zero is no edge
    values = entries.data[kept].astype(np.float64)
    weights = None if bool(np.all(values == 1)) else values
    return Edges(
        entries.row[kept].astype(np.int64),
        entries.col[kept].astype(np.int64),
        ids if ids is not None else NodeIds.range(matrix.shape[0]),
        weights,
        is_matrix=True,
    )


def tidy_rows(edges: Edges, directed: bool, origin: str) -> Edges:
    """Refuse weights that a graph cannot hold, and make one edge of a matrix's two entries."""
    if edges.weights is not None:
        odd = np.flatnonzero(~fits_single(edges.weights))
        if odd.size:
            first = int(odd[0])
            ends = edges.ids[int(edges.source[first])], edges.ids[int(edges.target[first])]
            raise InputError(
                f"the edge {ends[0]!r} - {ends[1]!r} of {origin} has the weight "
                f"{edges.weights[first]}; {advice_for(float(edges.weights[first]))}"
            )
    return _upper_triangle(edges) if edges.is_matrix and not directed else edges


def _upper_triangle(edges: Edges) -> Edges:
    """Make one edge of the two entries (i, j) and (j, i) of a matrix; the larger weight counts."""
    n = len(edges.ids)
    low, high = np.minimum(edges.source, edges.target), np.maximum(edges.source, edges.target)
    if edges.weights is None:
        key = np.unique(low * n + high)
        return replace(edges, source=key // n, target=key % n)
    shape = (n, n)
    matrix = sp.coo_matrix((edges.weights, (edges.source, edges.target)), shape=shape).tocsr()
    both = sp.triu(matrix.maximum(matrix.T)).tocoo()
    return replace(
        edges, source=both.row.astype(np.int64), target=both.col.astype(np.int64), weights=both.data
    )


def _array_weights(
    arrays: dict[str, npt.NDArray[Any]], weight: str | None, origin: str
) -> npt.NDArray[np.float64] | None:
    if weight is not None and weight not in arrays:
        raise InputError(f"{origin} has no array {weight!r}; it has {listed(arrays, 'the arrays')}")
    name = weight or next((w for w in _WEIGHT_NAMES if w in arrays), None)
    if name is None or "edges" not in arrays:
        return None
    values = arrays[name]
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise InputError(f"the array {name!r} of {origin} must be one row of numbers")
    return check_weights(values, origin)


def check_declared(
    shape: npt.NDArray[Any],
    entries: int,
    names: npt.NDArray[Any] | None,
    origin: str,
    what: tuple[str, str] = ("nodes", "'ids' with the id of every node"),
) -> None:
    """Refuse a shape that nothing in the file bears out: memory for it would be set aside."""
    most = max(_FREE_NODES, _NODES_PER_ENTRY * entries, 0 if names is None else len(names))
    declared = max(shape.tolist(), default=0)
    if declared > most:
        raise InputError(
            f"the matrix in {origin} declares {declared:,} {what[0]} for {entries:,} entries; "
            f"write the shape that it needs, or {what[1]}"
        )


def check_matrix_parts(arrays: dict[str, npt.NDArray[Any]], prefix: str, origin: str) -> None:
    """Refuse parts of a matrix that SciPy would cut to whole numbers, or cannot use at all."""
    whole = ("indptr", "indices", "row", "col", "shape")
    for name, kinds in (*((name, "iu") for name in whole), ("data", "biuf")):
        part = arrays.get(prefix + name)
        if part is not None and part.size and part.dtype.kind not in kinds:
            what = "whole numbers" if kinds == "iu" else "numbers"
            raise InputError(
                f"the array {prefix + name!r} of {origin} is of type {part.dtype}, but it must "
                f"hold {what}"
            )
    pointers, entries = arrays.get(prefix + "indptr"), arrays.get(prefix + "indices")
    if pointers is None or entries is None or not pointers.size:
        return
    # SciPy does not look at the pointers of a matrix whose last one says that it is empty.
    is_rising = pointers.ndim == 1 and bool((pointers[:-1] <= pointers[1:]).all())
    if not is_rising or pointers[0] != 0 or pointers[-1] > len(entries):
        raise InputError(
            f"the sparse matrix in {origin} is damaged ({prefix}indptr must rise from 0 to at most "
            f"{len(entries):,}, the number of its entries); write it again"
        )


def _matrix_of(arrays: dict[str, npt.NDArray[Any]], origin: str) -> sp.spmatrix:
    """Put a sparse matrix together from its parts, as SciPy and graph benchmarks save them."""
    prefix = "adj_" if "adj_indptr" in arrays else ""
    shape = arrays.get(prefix + "shape")
    check_matrix_parts(arrays, prefix, origin)
    try:
        if {prefix + "indptr", prefix + "indices"} <= arrays.keys():
            pointers, indices = arrays[prefix + "indptr"], arrays[prefix + "indices"]
            data = arrays.get(prefix + "data", np.ones(len(indices), np.float32))
            size = (len(pointers) - 1,) * 2 if shape is None else tuple(shape.tolist())
            layout = arrays.get("format")
            by_column = layout is not None and layout.item() in (b"csc", "csc")
            make = sp.csc_matrix if by_column else sp.csr_matrix
            matrix = make((data, indices, pointers), shape=size)
            matrix.check_format(full_check=True)
            return matrix
        if shape is not None and {"row", "col"} <= arrays.keys():
            ends = (arrays["row"], arrays["col"])
            data = arrays.get("data", np.ones(len(ends[0]), np.float32))
            check_declared(shape, len(ends[0]), arrays.get("ids"), origin)
            return sp.coo_matrix((data, ends), shape=tuple(shape.tolist()))
    except (ValueError, TypeError, IndexError) as error:
        if isinstance(error, InputError):
            raise
        reason = str(error).splitlines()[0]
        raise InputError(
            f"the sparse matrix in {origin} is damaged ({reason}); write it again"
        ) from None
    raise InputError(
        f"{origin} has neither an array 'edges' nor the parts of a CSR matrix "
        f"(data, indices, indptr, shape); it has {listed(arrays, 'the arrays')}"
    )
