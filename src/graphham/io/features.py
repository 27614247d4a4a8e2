"""Read what each node is like and put it in the order of the graph's rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.graph import Features, Graph
from graphham.io.added_nodes import add_nodes, add_notes
from graphham.io.array_edges import check_declared, check_matrix_parts
from graphham.io.encode import arrow_ids, listed
from graphham.io.feature_columns import ChosenColumns, split_features
from graphham.io.files import read_arrays
from graphham.io.labels import choose_columns, shares_table
from graphham.io.missing import filled, missing_values, usable_rows
from graphham.io.node_tables import (
    NodeTable,
    frame_table,
    is_frame,
    match_ids,
    node_table,
    open_file,
)

_SPARSE_COLUMNS = 64
_SPARSE_DENSITY = 0.10


def attach_features(
    graph: Graph,
    source: Any,
    id_column: str | None = None,
    isolated: bool = False,
    labels: Any = None,
    drop: Sequence[str] = (),
    fill_missing: str | None = None,
    skip_bad_rows: bool = False,
) -> Graph:
    """Return the graph with its features replaced.

    Columns of a table that hold text are left out, and the graph's report says so; a text column
    that is named is written as one column of zeros and ones per value.

    Args:
        graph: The graph whose nodes the features describe.
        source: A CSV, TSV, Parquet or GraphML table; an npz with ``ids`` and either ``x`` or the
            CSR parts ``data, indices, indptr, shape`` (optionally ``names``); a data frame; or an
            array or SciPy matrix whose rows already follow the graph's rows. Without ``ids``, row
            ``i`` of an npz or npy file belongs to the node with the id ``i``. ``FILE:one,two``,
            or a pair ``(file or frame, columns)``, takes these columns only.
        id_column: Name of the id column; the first column if not given.
        isolated: Admit ids without any edge as isolated nodes instead of refusing them.
        labels: What :func:`attach_labels` will be given for this graph. Where that is a column of
            the same table, it is no feature: a model would read the answer off its input.
        drop: Columns to leave out.
        fill_missing: ``"mean"`` (of the column) or ``"zero"`` for values that are missing in a
            table, also those of nodes without a row; the graph's report says how many.
        skip_bad_rows: Leave rows of a table out that cannot be used: another number of fields, no
            id, text where numbers belong, an id that is in no edge, or one that was there before.

    Raises:
        InputError: A node has no features, an id is unknown or occurs twice, a value is missing or
            not a number, or no column is numeric.
    """
    source, columns = split_features(source)
    chosen = ChosenColumns(columns, tuple(drop))
    is_shared, label_name = shares_table(source, labels)
    if isinstance(source, str | os.PathLike):
        file, raw, kind = open_file(source, "feature")
        if kind in ("npz", "npy"):
            matrix, names, ids = _of_arrays(read_arrays(file, raw), str(file))
            matrix, names = chosen.of_matrix(matrix, names, str(file))
            return _attach(graph, matrix, names, ids, isolated, str(file))
        named = [name for name in (id_column, label_name, *chosen.names) if name is not None]
        table = node_table(file, raw, kind, "feature", graph.ids, named)
    elif is_frame(source):
        table = frame_table(source, "feature frame")
    else:
        matrix, _ = chosen.of_matrix(_of_rows(source, graph), None, "the feature array")
        return replace(graph, features=matrix, feature_names=None)
    key = 0 if id_column is None else table.position(id_column, "id")
    label = None
    if is_shared:
        key, label = choose_columns(table, label_name, id_column)
    notes: list[str] = []
    try:
        ids = table.ids(key)
        matrix, names, skipped = _of_table(table, key, label, ids, chosen)
    except InputError:
        others = chosen.positions(table, key, label)
        notes = table.leave_out_bad_rows(key, others, skip_bad_rows)
        ids = table.ids(key)
        matrix, names, skipped = _of_table(table, key, label, ids, chosen)
    # Faults of the values and of the ids are told together.
    faults = [] if fill_missing else missing_values(matrix, names, ids, table.origin)
    if skip_bad_rows:
        keep, note = usable_rows(graph.ids, ids, isolated, table.origin)
        matrix, ids, notes = matrix[keep], ids.take(pa.array(keep)), [*notes, *note]
    if fill_missing is not None:
        matrix, ids, note = filled(matrix, ids, graph.ids, fill_missing)
        notes += note
    done = _attach(graph, matrix, names, ids, isolated, table.origin, faults)
    if label is not None:
        notes.append(f"the column {table.names[label]} holds the labels, so it is not a feature")
    if skipped:
        left_out = listed(skipped, "").strip()
        notes.append(f"columns that are not numbers are not features: {left_out}")
    return add_notes(done, *notes) if notes else done


def _attach(
    graph: Graph,
    matrix: Features,
    names: list[str] | None,
    ids: pa.ChunkedArray,
    isolated: bool,
    origin: str,
    faults: Sequence[str] = (),
) -> Graph:
    """Line the rows of a matrix up with the graph by id; tell all faults of the table at once."""
    rows = graph.ids.find(ids)
    found = [*faults, *_repeats(rows, ids, graph, origin)]
    unknown = np.flatnonzero(rows < 0)
    try:
        match_ids(rows, ids, isolated, "feature", origin)
    except InputError as error:
        found.append(str(error))
    if unknown.size and not found:
        # The old features go first: they say nothing about the new nodes.
        graph = add_nodes(
            replace(graph, features=None, feature_names=None), ids.take(pa.array(unknown))
        )
        rows = graph.ids.find(ids)
        found += _repeats(rows, ids, graph, origin)
    place = np.full(graph.num_nodes, -1, dtype=np.int64)
    place[rows[rows >= 0]] = np.flatnonzero(rows >= 0)
    lacking = np.flatnonzero(place < 0)
    if lacking.size:
        more = f" and {lacking.size - 1:,} more nodes lack" if lacking.size > 1 else " lacks"
        found.append(
            f"the feature table {origin} has {len(ids):,} rows for {graph.num_nodes:,} nodes: "
            f"{graph.ids[int(lacking[0])]!r}{more} features; give one row per node, or fill "
            f"them with --fill-missing (fill_missing='mean')"
        )
    if found:
        raise InputError("; also, ".join(found))
    # Rows already in order are kept as they are: no copy of a large matrix.
    if not np.array_equal(place, np.arange(len(place))):
        matrix = matrix[place]
    return replace(graph, features=matrix, feature_names=names)


def _repeats(
    rows: npt.NDArray[np.int64], ids: pa.ChunkedArray, graph: Graph, origin: str
) -> list[str]:
    counts = np.bincount(rows[rows >= 0], minlength=graph.num_nodes)
    twice = np.flatnonzero(counts > 1)
    if not twice.size:
        return []
    more = "" if twice.size == 1 else f", and {twice.size - 1:,} more ids occur several times"
    return [
        f"the feature table {origin} has {int(counts[twice[0]])} rows for the id "
        f"{graph.ids[int(twice[0])]!r}{more}; give one row per node"
    ]


def _of_table(
    table: NodeTable, key: int, label: int | None, ids: pa.ChunkedArray, chosen: ChosenColumns
) -> tuple[Features, list[str], list[str]]:
    """Read the numeric columns; return matrix, names and the columns left out."""
    others = chosen.positions(table, key, label)
    columns = table.numbers(others)
    if chosen.columns is not None:
        # Named by the user, so text among them is wanted too.
        names, values = chosen.with_indicators(table, others, columns)
        return _pack(values, len(ids)), names, []
    if not columns:
        beside = f"the id {table.names[key]!r}"
        if label is not None:
            beside += f" and the label {table.names[label]!r}"
        text = f" ({listed((table.names[i] for i in others), 'not numbers:')})" if others else ""
        raise InputError(
            f"the feature table {table.origin} has no numeric column beside {beside}{text}; add "
            f"one, or leave the features out"
        )
    names = [table.names[i] for i in columns]
    skipped = [table.names[i] for i in others if i not in columns]
    return _pack(list(columns.values()), len(ids)), names, skipped


def _pack(columns: list[pa.ChunkedArray], num_rows: int) -> Features:
    """Put columns side by side: sparse while few values are set, dense otherwise."""
    num_columns = len(columns)
    most = _SPARSE_DENSITY * num_rows * num_columns if num_columns > _SPARSE_COLUMNS else -1.0
    parts: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = []
    stored = 0
    dense: npt.NDArray[np.float32] | None = None
    for j, column in enumerate(columns):
        values = column.to_numpy()
        if dense is None and stored <= most:
            rows = np.flatnonzero(values)
            stored += len(rows)
            parts.append((rows.astype(np.int32), values[rows].astype(np.float32)))
        if dense is None and stored >= most:
            dense = np.zeros((num_rows, num_columns), dtype=np.float32)
            for i, (rows, filled) in enumerate(parts):
                dense[rows, i] = filled
        if dense is not None:
            dense[:, j] = values
    if dense is not None:
        return dense
    bounds = np.cumsum([0] + [len(rows) for rows, _ in parts])
    flat_rows = np.concatenate([rows for rows, _ in parts])
    flat = np.concatenate([filled for _, filled in parts])
    by_column = sp.csc_matrix((flat, flat_rows, bounds), shape=(num_rows, num_columns))
    return by_column.tocsr()


def _of_arrays(
    arrays: dict[str, npt.NDArray[Any]], origin: str
) -> tuple[Features, list[str] | None, pa.ChunkedArray]:
    """Read ``x`` or CSR parts with ``ids`` and ``names`` out of named arrays."""
    matrix: Features
    if "x" in arrays:
        matrix = _as_dense(arrays["x"], origin)
    elif {"data", "indices", "indptr", "shape"} <= arrays.keys():
        matrix = _as_sparse(arrays, origin)
    else:
        raise InputError(
            f"{origin} has neither an array 'x' nor the CSR parts data, indices, indptr, shape; "
            f"it has {listed(arrays, 'the arrays')}"
        )
    num_rows, num_columns = (int(n) for n in matrix.shape)
    keys = arrays.get("ids")
    if keys is None:
        keys = np.arange(num_rows)
    if keys.ndim != 1 or keys.dtype.kind not in "iuU":
        raise InputError(f"the array 'ids' of {origin} must be one row of whole numbers or text")
    if len(keys) != num_rows:
        raise InputError(
            f"{origin} has {len(keys):,} ids for {num_rows:,} rows of features; give as many"
        )
    ids = arrow_ids(keys)
    names = arrays.get("names", arrays.get("feature_names"))
    titles = None if names is None else [str(n) for n in names.reshape(-1).tolist()]
    if titles is not None and len(titles) != num_columns:
        raise InputError(f"{origin} has {len(titles):,} names for {num_columns:,} feature columns")
    _check_finite(matrix, lambda row: ids[row].as_py(), titles, origin)
    return matrix, titles, ids


def _of_rows(source: Any, graph: Graph) -> Features:
    """Check an array or SciPy matrix whose rows follow the graph's."""
    matrix: Features
    if sp.issparse(source):
        matrix = sp.csr_matrix(source, dtype=np.float32)
        matrix.sort_indices()
    else:
        if hasattr(source, "detach"):  # a torch tensor, which may carry a gradient
            source = source.detach().cpu().numpy()
        matrix = _as_dense(np.asarray(source), "the feature array")
    if matrix.shape[0] != graph.num_nodes:
        raise InputError(
            f"the feature table has {matrix.shape[0]:,} rows but the graph has "
            f"{graph.num_nodes:,} nodes; give one row per node"
        )
    _check_finite(matrix, lambda row: graph.ids[row], None, "the feature array")
    return matrix


def _as_dense(values: npt.NDArray[Any], origin: str) -> npt.NDArray[Any]:
    if values.ndim != 2 or values.dtype.kind not in "iufb":
        raise InputError(
            f"the features of {origin} have shape {values.shape} and type {values.dtype}; "
            f"they must be a table of numbers, one row per node"
        )
    kept = values.dtype if values.dtype in (np.float16, np.float32) else np.float32
    return np.ascontiguousarray(values, dtype=kept)


def _as_sparse(arrays: dict[str, npt.NDArray[Any]], origin: str) -> sp.csr_matrix:
    check_matrix_parts(arrays, "", origin)
    # A network has weights for every column, whether or not anything is in it.
    titles = arrays.get("names", arrays.get("feature_names"))
    said = ("columns", "'names' with the name of every column")
    check_declared(arrays["shape"][1:], len(arrays["data"]), titles, origin, said)
    try:
        parts = (arrays["data"].astype(np.float32), arrays["indices"], arrays["indptr"])
        matrix = sp.csr_matrix(parts, shape=tuple(arrays["shape"].tolist()))
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, IndexError) as error:
        raise InputError(
            f"the sparse features in {origin} are damaged ({str(error).splitlines()[0]}); "
            f"write them again"
        ) from None
    matrix.sum_duplicates()
    return matrix


def _check_finite(matrix: Any, id_of: Any, names: list[str] | None, origin: str) -> None:
    values = matrix.data if sp.issparse(matrix) else matrix
    if bool(np.isfinite(values).all()):
        return
    if sp.issparse(matrix):
        where = int(np.flatnonzero(~np.isfinite(values))[0])
        row = int(np.searchsorted(matrix.indptr, where, side="right")) - 1
        column = int(matrix.indices[where])
    else:
        row, column = (int(i) for i in np.argwhere(~np.isfinite(values))[0])
    name = column + 1 if names is None else repr(names[column])
    raise InputError(
        f"the feature {name} of node {id_of(row)!r} in {origin} is not a finite number; "
        f"fill or drop missing values first"
    )
