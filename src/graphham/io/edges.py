"""Read edges from any supported file and give every id a row."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.ids import NodeIds
from graphham.io.encode import Edges, arrow_ids, encode_edges, id_column, listed, node_ids
from graphham.io.files import Raw, check_file, kind_of, read_arrays, read_parquet, read_raw
from graphham.io.graphml import read_graphml
from graphham.io.header import is_edge_header, is_sure_header
from graphham.io.text import TextTable, is_integer
from graphham.io.weights import check_weights, text_weights, weights_of

_WEIGHT_NAMES = ("weights", "weight")


def read_edges(
    path: str | os.PathLike[str],
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    directed: bool = False,
) -> Edges:
    """Read an edge file of any supported format.

    Args:
        path: CSV, TSV, whitespace text (all also gzipped), Parquet, npz or GraphML.
        source: Name of the first endpoint column; the first column if not given.
        target: Name of the second endpoint column; the first other column if not given.
        weight: Name of the weight column (npz: array, GraphML: edge attribute).
        directed: Only decides what is noted when the file itself has an opinion.
    """
    file = check_file(path, "edge")
    raw = read_raw(file)
    kind = kind_of(file, raw)
    if kind == "parquet":
        return edges_of_table(read_parquet(file, raw), source, target, weight, str(file))
    if kind in ("npz", "npy"):
        return edges_of_arrays(read_arrays(file, raw), weight, str(file))
    if kind == "graphml":
        return _of_graphml(file, raw, weight, directed)
    return _of_text(file, raw, source, target, weight)


def edges_of_table(
    table: pa.Table, source: str | None, target: str | None, weight: str | None, origin: str
) -> Edges:
    """Take edges out of an Arrow table."""
    names = table.column_names
    if len(names) < 2:
        raise InputError(
            f"{origin} has {len(names)} column where an edge needs two; give a source and a target"
        )
    s, t, w = endpoints(names, source, target, weight, origin)
    values = None
    if w is not None:
        values = weights_of(table.column(w), names[w], origin)
    ends = [id_column(table.column(i), names[i], origin) for i in (s, t)]
    for column, name in zip(ends, (names[s], names[t]), strict=True):
        if column.null_count:
            where = pc.index(pc.is_null(column), True).as_py()
            raise InputError(
                f"row {where + 1:,} of {origin} has no id in column {name!r}; "
                f"every edge needs two endpoints"
            )
    return encode_edges(ends[0], ends[1], weights=values)


def edges_of_arrays(arrays: dict[str, npt.NDArray[Any]], weight: str | None, origin: str) -> Edges:
    """Take edges out of named arrays: ``edges`` or the parts of a sparse matrix.

    ``ids`` names the nodes when present; then whole numbers in the structure are rows into it. Text
    in ``edges`` is always an id.
    """
    weights = _array_weights(arrays, weight, origin)
    ids = arrays.get("ids")
    if ids is not None and (ids.ndim != 1 or ids.dtype.kind not in "iuU"):
        raise InputError(f"the array 'ids' of {origin} must be one row of whole numbers or text")
    if "edges" not in arrays:
        matrix = _matrix_of(arrays, origin)
        return edges_of_matrix(matrix, None if ids is None else node_ids(ids), origin)
    edges = arrays["edges"]
    if edges.ndim != 2 or 2 not in edges.shape or edges.dtype.kind not in "iuU":
        raise InputError(
            f"the array 'edges' of {origin} has shape {edges.shape} and type {edges.dtype}; "
            f"it must be (count, 2) whole numbers or text"
        )
    if edges.shape[1] != 2:
        edges = edges.T
    if not len(edges):
        raise InputError(f"{origin} has no edges; it needs at least one")
    if weights is not None and len(weights) != len(edges):
        raise InputError(f"{origin} has {len(weights):,} weights for {len(edges):,} edges")
    if ids is None or edges.dtype.kind == "U":
        ends = [arrow_ids(edges[:, i]) for i in (0, 1)]
        extra = None if ids is None else arrow_ids(ids)
        return encode_edges(ends[0], ends[1], weights=weights, extra=extra)
    if edges.min() < 0 or edges.max() >= len(ids):
        worst = int(edges.min() if edges.min() < 0 else edges.max())
        raise InputError(f"{origin} has an edge to row {worst}, but 'ids' has {len(ids):,} rows")
    rows = edges.astype(np.int64)
    return Edges(rows[:, 0], rows[:, 1], node_ids(ids), weights)


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


def _of_text(
    file: Path, raw: Raw, source: str | None, target: str | None, weight: str | None
) -> Edges:
    table = TextTable(file, raw, "edges")
    layout = text_layout(table, source, target, weight)
    s, t, w, has_header = layout.source, layout.target, layout.weight, layout.has_header
    names = layout.names
    kind = pa.int64() if layout.has_integers and table.integers_are_exact() else pa.large_string()
    types = {s: kind, t: kind} | ({} if w is None else {w: pa.large_string()})
    columns = table.try_read(types, has_header)
    if columns is None:
        # Text further down a file that began with whole numbers, or a real mistake: look again.
        types |= {s: pa.large_string(), t: pa.large_string()}
        columns = table.read(types, has_header)
    ends = [trim(c, table) for c in columns[:2]]
    if not len(ends[0]):
        raise InputError(f"{file} has a header but no edges; it needs at least one")
    for i, column in zip((s, t), ends, strict=True):
        refuse_blank_ids(column, table, i, has_header)
    weights = None
    if w is not None:
        weights = text_weights(columns[2], table, names[w], has_header)
    edges = encode_edges(ends[0], ends[1], weights=weights)
    if not has_header:
        return _note_lonely_first(edges, names)
    if edges.ids.kind == "integer" or not layout.header_note:
        return edges
    return replace(edges, notes=(layout.header_note,))


@dataclass(frozen=True)
class TextLayout:
    """Where the edges of a text table are.

    Args:
        names: The fields of the first line.
        source: Position of the first end.
        target: Position of the second end.
        weight: Position of the weight, or ``None``.
        has_header: The first line holds names.
        has_integers: The ids of the first lines are all whole numbers.
        header_note: What to remark if ids are text: the header might have been an edge.
    """

    names: tuple[str, ...]
    source: int
    target: int
    weight: int | None
    has_header: bool
    has_integers: bool
    header_note: str


def text_layout(
    table: TextTable, source: str | None, target: str | None, weight: str | None
) -> TextLayout:
    """Find the columns of an edge table and whether it has a header."""
    first = table.sample[0]
    if len(first) < 2:
        line = table.line_of(0, False)
        raise InputError(
            f"line {line:,} of {table.path} has one field ({first[0]!r}) where an edge needs two; "
            f"separate the endpoints by a comma, tab or space"
        )
    names = tuple(f.strip() for f in first)
    asked = any(name is not None for name in (source, target, weight))
    s, t, w = 0, 1, None
    has_header = asked or is_edge_header(table.sample)
    if asked:
        s, t, w = endpoints(names, source, target, weight, str(table.path))
    integers = all(
        is_integer(row[i]) for row in table.sample[has_header:] for i in (s, t) if i < len(row)
    )
    note = ""
    if has_header and not asked and not is_sure_header(names):
        note = f"the first line ({names[0]!r}, {names[1]!r}) was taken for a header"
    return TextLayout(names, s, t, w, has_header, integers, note)


def _note_lonely_first(edges: Edges, fields: Sequence[str]) -> Edges:
    """Remark on a first line that shares no id with the rest: it may be a header after all."""
    ends = edges.source[0], edges.target[0]
    others = np.concatenate([edges.source[1:], edges.target[1:]])
    if len(edges.source) < 3 or edges.ids.kind == "integer" or np.isin(others, ends).any():
        return edges
    return replace(edges, notes=(*edges.notes, lonely_note(fields)))


def lonely_note(fields: Sequence[str]) -> str:
    """Say that the first line looks like no other."""
    return (
        f"the first line ({fields[0]!r}, {fields[1]!r}) was read as an edge; if it is a header, "
        f"name its columns with --source and --target"
    )


def _of_graphml(file: Path, raw: Raw, weight: str | None, directed: bool) -> Edges:
    content = read_graphml(file, raw)
    if not content.source:
        raise InputError(f"{file} has no edges; it needs at least one")
    notes: tuple[str, ...] = ()
    if content.directed and not directed:
        notes = ("the file calls its edges directed; they were read as undirected",)
    weights = None
    if weight is not None:
        weights = content.edge_numbers(weight, str(file))
    ends = [pa.chunked_array([v], pa.large_string()) for v in (content.source, content.target)]
    extra = pa.chunked_array([content.nodes], pa.large_string())
    return encode_edges(ends[0], ends[1], weights=weights, extra=extra, notes=notes)


def endpoints(
    names: Sequence[str],
    source: str | None,
    target: str | None,
    weight: str | None,
    origin: str,
) -> tuple[int, int, int | None]:
    """Return the positions of source, target and weight among the column names."""
    for name in (source, target, weight):
        if name is not None and name not in names:
            raise InputError(f"{origin} has no column {name!r}; it has {listed(names)}")
    w = names.index(weight) if weight is not None else None
    s = names.index(source) if source is not None else None
    t = names.index(target) if target is not None else None
    free = [i for i in range(len(names)) if i not in (s, t, w)]
    if s is None:
        if not free:
            raise InputError(f"{origin} has no column left for the source of an edge")
        s = free.pop(0)
    if t is None:
        if not free:
            raise InputError(f"{origin} has no column left for the target of an edge")
        t = free.pop(0)
    if s == t:
        raise InputError(f"the source and the target column of {origin} are both {names[s]!r}")
    return s, t, w


def trim(column: pa.ChunkedArray, table: TextTable) -> pa.ChunkedArray:
    """Take the blanks off text ids unless quotes may have meant them."""
    # Quotes protect blanks; without any quotes in the file "a, b" means b and not " b".
    if pa.types.is_integer(column.type) or table.quoted:
        return column
    return pc.utf8_trim_whitespace(column)


def refuse_blank_ids(
    column: pa.ChunkedArray, table: TextTable, position: int, has_header: bool
) -> None:
    """Refuse an empty text id, naming its line."""
    if pa.types.is_integer(column.type):
        return
    where = pc.index(column, pa.scalar("", pa.large_string())).as_py()
    if where >= 0:
        raise InputError(
            f"line {table.line_of(where, has_header):,} of {table.path} has no id in column "
            f"{position + 1}; every edge needs two endpoints"
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


def _matrix_of(arrays: dict[str, npt.NDArray[Any]], origin: str) -> sp.spmatrix:
    """Put a sparse matrix together from its parts, as SciPy and graph benchmarks save them."""
    prefix = "adj_" if "adj_indptr" in arrays else ""
    shape = arrays.get(prefix + "shape")
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
            return sp.coo_matrix((data, ends), shape=tuple(shape.tolist()))
    except (ValueError, TypeError, IndexError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"the sparse matrix in {origin} is damaged ({reason}); write it again"
        ) from None
    raise InputError(
        f"{origin} has neither an array 'edges' nor the parts of a CSR matrix "
        f"(data, indices, indptr, shape); it has {listed(arrays, 'the arrays')}"
    )
