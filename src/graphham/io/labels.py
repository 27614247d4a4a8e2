"""Read which class or classes each node belongs to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.graph import Graph, Labels
from graphham.io.added_nodes import add_nodes, add_notes
from graphham.io.encode import as_exact_integers, listed, undo_dictionary
from graphham.io.feature_columns import without_labels
from graphham.io.node_tables import (
    NodeTable,
    frame_table,
    is_frame,
    match_ids,
    node_table,
    open_file,
    split_spec,
)


def attach_labels(
    graph: Graph,
    spec: Any,
    id_column: str | None = None,
    isolated: bool = False,
    skip_bad_rows: bool = False,
) -> Graph:
    """Return the graph with its labels replaced.

    Blank or null labels are unknown. A list column, or several rows with different labels for one
    id, make the labels multi-label. Whole-number labels stay numbers, everything else is text. A
    feature of the graph that is the label column itself is left out.

    Args:
        graph: The graph whose nodes the labels describe.
        spec: ``FILE:column`` naming a CSV, TSV, Parquet or GraphML table and its label column
            (the column may be left out if the table has two); a pair ``(file or frame, column)``;
            a data frame; a mapping from id to label; or one label per row of the graph, ``None``
            where unknown. A label may be a list of labels.
        id_column: Name of the id column; the first column that is not the label if not given or
            if the table has no column of that name (it may be meant for the features).
        isolated: Admit ids without any edge as isolated nodes instead of refusing them.
        skip_bad_rows: Leave rows of a table out that have no id, or one that is in no edge.
    """
    if isinstance(spec, Labels):
        return replace(graph, labels=spec).validate()
    if isinstance(spec, Mapping):
        ids = _arrow_of(list(spec), "ids")
        return _attach(graph, ids, _arrow_of(list(spec.values()), "labels"), isolated, "mapping")
    source, column = _table_of(spec)
    if source is None:
        return _attach_rows(graph, spec)
    named = [] if column is None else [column]
    if is_frame(source):
        table = frame_table(source, "label frame")
    else:
        file, raw, kind = open_file(source, "label")
        table = node_table(file, raw, kind, "label", graph.ids, named)
    key, label = choose_columns(table, column, id_column)
    notes = table.leave_out_bad_rows(key, [], True) if skip_bad_rows else []
    ids, column = table.ids(key), table.column(label)
    if skip_bad_rows and not isolated:
        known = np.flatnonzero(graph.ids.find(ids) >= 0)
        if len(known) < len(ids):
            left_out = len(ids) - len(known)
            notes.append(
                f"{left_out:,} rows of {table.origin} with an id that is in no edge were left out"
            )
            ids, column = ids.take(pa.array(known)), column.take(pa.array(known))
    done = _attach(graph, ids, column, isolated, table.origin)
    return without_labels(add_notes(done, *notes) if notes else done, table.names[label])


def shares_table(features: Any, spec: Any) -> tuple[bool, str | None]:
    """Tell whether labels come from the very table of the features, and from which column.

    Two spellings of one file, links to it and one frame given twice are the same table.

    Args:
        features: What :func:`attach_features` is given.
        spec: What :func:`attach_labels` is given; ``None`` for no labels.

    Returns:
        Whether the table is shared, and the label column if the user named it.
    """
    if isinstance(spec, Labels | Mapping):
        return False, None
    source, column = _table_of(spec)
    if _is_path(features) and _is_path(source):
        left, right = (Path(path).expanduser() for path in (features, source))
        try:
            is_shared = left.samefile(right)
        except OSError:  # whoever opens the missing one says so
            is_shared = False
    else:
        is_shared = source is not None and source is features
    return is_shared, column if is_shared else None


def _table_of(spec: Any) -> tuple[Any, str | None]:
    """Return the file or frame of a label spec and the column named; no table is ``None``."""
    if isinstance(spec, tuple) and len(spec) == 2 and (is_frame(spec[0]) or _is_path(spec[0])):
        return spec
    if _is_path(spec):
        return split_spec(spec)
    return (spec if is_frame(spec) else None), None


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)


def choose_columns(table: NodeTable, column: str | None, id_column: str | None) -> tuple[int, int]:
    """Return the positions of the id and the label column."""
    key = table.names.index(id_column) if id_column in table.names else None
    if column is not None:
        label = table.position(column, "label")
    else:
        rest = [i for i in range(len(table.names)) if i != (0 if key is None else key)]
        if len(rest) != 1:
            raise InputError(
                f"{table.origin} has {len(table.names)} columns, so say which holds the labels "
                f"(FILE:column): {listed(table.names)}"
            )
        label = rest[0]
    if key is None:
        key = next((i for i in range(len(table.names)) if i != label), label)
    if key == label:
        raise InputError(
            f"the label column {table.names[label]!r} of {table.origin} is its id column"
        )
    return key, label


def _attach_rows(graph: Graph, values: Any) -> Graph:
    """Attach one label per row of the graph."""
    if hasattr(values, "detach"):  # a torch tensor
        values = values.detach().cpu().numpy()
    if isinstance(values, np.ndarray):
        values = values.tolist()
    column = _arrow_of(list(values), "labels")
    if len(column) != graph.num_nodes:
        raise InputError(
            f"there are {len(column):,} labels for {graph.num_nodes:,} nodes; give one per node, "
            f"None where unknown"
        )
    rows = np.arange(graph.num_nodes, dtype=np.int64)
    return replace(graph, labels=_encode(rows, column, graph.num_nodes, "the labels"))


def _attach(
    graph: Graph, ids: pa.ChunkedArray, column: pa.ChunkedArray, isolated: bool, origin: str
) -> Graph:
    rows = graph.ids.find(ids)
    unknown = match_ids(rows, ids, isolated, "label", origin)
    graph = replace(graph, labels=None)
    if unknown.size:
        graph = add_nodes(graph, ids.take(pa.array(unknown)))
        rows = graph.ids.find(ids)
    return replace(graph, labels=_encode(rows, column, graph.num_nodes, origin))


def _encode(
    rows: np.ndarray[Any, Any], column: pa.ChunkedArray, num_nodes: int, origin: str
) -> Labels:
    """Turn (row, label) pairs into codes, or into a matrix if a node has several."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks)
    kind = values.type
    is_list = (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
    if is_list:
        rows = rows[pc.list_parent_indices(values).to_numpy()]
        values = pc.list_flatten(values)
    values = _plain(values, origin)
    known = pc.is_valid(values).to_numpy(zero_copy_only=False)
    rows, values = rows[known], values.drop_null()
    if not len(values):
        raise InputError(f"every label of {origin} is blank; name another column")
    classes, codes = _classes(values)
    pairs = np.unique(rows * len(classes) + codes)
    rows, codes = pairs // len(classes), pairs % len(classes)
    if not is_list and bool(np.all(rows[1:] != rows[:-1])):
        single = np.full(num_nodes, -1, dtype=np.int32)
        single[rows] = codes
        return Labels(classes, codes=single)
    entries = (np.ones(len(rows), dtype=bool), (rows, codes))
    matrix = sp.coo_matrix(entries, shape=(num_nodes, len(classes))).tocsr()
    return Labels(classes, matrix=matrix)


def _plain(values: pa.Array, origin: str) -> pa.Array:
    """Return labels as ``int64`` or trimmed ``large_string`` with nulls where blank."""
    values = undo_dictionary(values)
    kind = values.type
    if pa.types.is_floating(kind):
        # Frames turn whole numbers into floats as soon as one value is missing.
        values = pc.if_else(pc.is_nan(values), None, values)
        try:
            return values.cast(pa.int64())
        except pa.ArrowInvalid:
            return values.cast(pa.large_string())
    try:
        if pa.types.is_integer(kind):
            return values.cast(pa.int64())
        text = values.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InputError(
            f"the label column of {origin} is of type {kind}; labels are text or whole numbers"
        ) from None
    blank = pc.equal(pc.utf8_trim_whitespace(text), "")
    text = pc.if_else(blank, pa.scalar(None, pa.large_string()), text)
    numbers = as_exact_integers(text.drop_null().unique())
    return text if numbers is None else text.cast(pa.int64())


def _classes(values: pa.Array) -> tuple[tuple[Any, ...], np.ndarray[Any, np.dtype[np.int64]]]:
    coded = values.dictionary_encode()
    names = coded.dictionary.to_pylist()
    order = sorted(range(len(names)), key=names.__getitem__)
    place = np.empty(len(names), dtype=np.int64)
    place[order] = np.arange(len(names))
    return tuple(names[i] for i in order), place[coded.indices.to_numpy()]


def _arrow_of(values: list[Any], what: str) -> pa.ChunkedArray:
    """Turn Python values into a column; mixed types become text."""
    cleaned = [None if isinstance(v, float) and np.isnan(v) else v for v in values]
    try:
        column = pa.array(cleaned)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        try:
            column = pa.array([None if v is None else str(v) for v in cleaned], pa.large_string())
        except pa.ArrowException:
            raise InputError(f"the {what} cannot be read; give text or whole numbers") from None
    if pa.types.is_string(column.type):
        column = column.cast(pa.large_string())
    return pa.chunked_array([column])
