"""Ids and edges as columns: whatever holds ids becomes whole numbers or text, exactly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from graphham.errors import InputError
from graphham.graph.ids import NodeIds

_CANONICAL_INTEGER = r"^(?:0|-?[1-9][0-9]{0,17})$"


@dataclass(frozen=True)
class Edges:
    """Edges as rows, before duplicates are merged.

    Args:
        source: ``(rows,)`` int64 first ends, as node rows.
        target: ``(rows,)`` int64 second ends.
        ids: The user's ids in row order.
        weights: ``(rows,)`` float64, or ``None``.
        is_matrix: The rows come from an adjacency matrix, so both directions of one edge are one
            entry seen twice and not two edges to be added up.
    """

    source: npt.NDArray[np.int64]
    target: npt.NDArray[np.int64]
    ids: NodeIds
    weights: npt.NDArray[np.float64] | None = None
    is_matrix: bool = False


def node_ids(values: Any) -> NodeIds:
    """Make :class:`NodeIds` from distinct values; a repeated one is an :class:`InputError`."""
    column = values if isinstance(values, pa.ChunkedArray) else arrow_ids(values)
    if pa.types.is_integer(column.type):
        ids = NodeIds(column.to_numpy())
    else:
        numbers = as_exact_integers(column.combine_chunks())
        ids = NodeIds(column.combine_chunks() if numbers is None else numbers)
    twice = ids.first_duplicate()
    if twice is not None:
        raise InputError(f"the id {twice!r} occurs twice; every node needs an id of its own")
    return ids


def as_exact_integers(values: pa.Array) -> npt.NDArray[np.int64] | None:
    """Return texts as int64 if each is a plain whole number that reads back the same, else None."""
    matches = pc.match_substring_regex(values, _CANONICAL_INTEGER)
    if len(values) == 0 or not pc.all(matches).as_py():
        return None
    numbers: npt.NDArray[np.int64] = values.cast(pa.int64()).to_numpy()
    return numbers


def undo_dictionary(column: Any) -> Any:
    """Return categories as plain values; other columns as they are."""
    if not pa.types.is_dictionary(column.type):
        return column
    if isinstance(column, pa.ChunkedArray):
        parts = [undo_dictionary(chunk) for chunk in column.chunks]
        return pa.chunked_array(parts) if parts else pa.chunked_array([], pa.large_string())
    # Arrow cannot cast categories of polars' view strings; taking their values always works.
    values = column.dictionary
    plain = values.cast(pa.large_string()) if _is_text(values.type) else values
    return plain.take(column.indices)


def id_column(column: pa.ChunkedArray, name: str, origin: str) -> pa.ChunkedArray:
    """Turn a column of any sensible type into ``int64`` or ``large_string`` ids."""
    column = undo_dictionary(column)
    kind = column.type
    try:
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return column.cast(pa.int64())
        if pa.types.is_null(kind) or _is_text(kind):
            return column.cast(pa.large_string())
    except pa.ArrowInvalid:
        if pa.types.is_integer(kind):  # beyond int64: keep every digit, as text
            return column.cast(pa.large_string())
    raise InputError(
        f"column {name!r} of {origin} is of type {kind}, which cannot hold ids; "
        f"ids are whole numbers or text"
    )


def _is_text(kind: pa.DataType) -> bool:
    views = pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)
    return bool(
        views
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def _chunked(array: pa.Array) -> pa.ChunkedArray:
    return pa.chunked_array([array])


def arrow_ids(values: npt.NDArray[Any]) -> pa.ChunkedArray:
    """Turn an array of whole numbers or text into an id column, exactly."""
    if values.dtype.kind == "U":
        return _chunked(pa.array(values.tolist(), pa.large_string()))
    if values.dtype.kind == "u" and values.size and int(values.max()) > np.iinfo(np.int64).max:
        return _chunked(pa.array(values).cast(pa.large_string()))
    return _chunked(pa.array(np.ascontiguousarray(values, dtype=np.int64)))


def listed(names: Iterable[str], what: str = "the columns", most: int = 12) -> str:
    """Write names for a message: on one line, cut after a dozen."""
    # A name from a damaged file may be long or hold line breaks.
    tidy = [" ".join(str(name).split())[:40] for name in names]
    if not tidy:
        return "nothing"
    more = f" and {len(tidy) - most:,} more" if len(tidy) > most else ""
    return f"{what} {', '.join(tidy[:most])}{more}"
