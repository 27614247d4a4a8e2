"""Edges that lie in plain Python or NumPy: arrays of pairs, and lists of tuples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from graphham.errors import InputError

_SHAPES = "two columns (source, target) or three (with the weight)"


def table_of_array(array: npt.NDArray[Any]) -> pa.Table:
    """Turn a ``(count, 2)`` or ``(count, 3)`` array into a table of edges.

    A ``(2, count)`` array of whole numbers, as PyG has them, is turned round.
    """
    edges = array
    if edges.ndim == 2 and edges.shape[0] == 2 and edges.shape[1] > 3 and edges.dtype.kind in "iu":
        edges = edges.T
    if edges.ndim != 2 or edges.shape[1] not in (2, 3):
        hint = ""
        if edges.ndim == 2 and edges.shape[0] == edges.shape[1]:
            hint = "; an adjacency matrix goes through scipy.sparse.csr_matrix(array)"
        raise InputError(
            f"an array of edges has {_SHAPES}, but this one has the shape {array.shape}{hint}"
        )
    if edges.dtype.kind not in "iufUO":
        raise InputError(f"an array of edges holds whole numbers or text, not {edges.dtype}")
    return _table([edges[:, i].tolist() for i in range(edges.shape[1])])


def table_of_pairs(pairs: Iterable[Any]) -> pa.Table:
    """Turn tuples of two ids, or of two ids and a weight, into a table of edges."""
    rows = list(pairs)
    if not rows:
        raise InputError("the list of edges is empty; it needs at least one")
    for number, row in enumerate(rows):
        is_tuple = isinstance(row, tuple | list) or getattr(row, "ndim", 0) == 1
        if not is_tuple or len(row) != len(rows[0]) or len(row) not in (2, 3):
            raise InputError(
                f"item {number} of the list of edges is {row!r:.80}; give tuples of {_SHAPES}"
            )
    return _table([list(column) for column in zip(*rows, strict=True)])


def _table(columns: list[list[Any]]) -> pa.Table:
    """Make ids whole numbers if all are, and text otherwise."""
    ends = columns[:2]
    missing = next((i for c in ends for i, v in enumerate(c) if v is None or v != v), None)
    if missing is not None:
        raise InputError(f"edge {missing} has no id at one end; every edge needs two endpoints")
    if all(_is_whole(value) for column in ends for value in column):
        arrays = [pa.array([int(v) for v in column], pa.int64()) for column in ends]
    else:
        arrays = [pa.array([str(v) for v in column], pa.large_string()) for column in ends]
    named = {"source": arrays[0], "target": arrays[1]}
    if len(columns) == 3:
        try:
            named["weight"] = pa.array([float(v) for v in columns[2]], pa.float64())
        except (TypeError, ValueError):
            raise InputError("the third column of the edges must be weights above 0") from None
    return pa.table(named)


def _is_whole(value: Any) -> bool:
    if isinstance(value, bool | np.bool_):
        return False
    if isinstance(value, int | np.integer):
        return -(2**63) <= int(value) < 2**63
    return isinstance(value, float) and value.is_integer() and abs(value) < 2**53
