"""Features that are missing: told all at once, or filled where asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.graph import Features
from graphham.graph.ids import NodeIds

_SHOWN = 10
WAYS = ("mean", "zero")


def missing_values(
    matrix: Features, names: list[str], ids: pa.ChunkedArray, origin: str
) -> list[str]:
    """Return one sentence per feature with values that are not finite numbers."""
    rows, columns = _not_finite(matrix)
    found = []
    for column in np.unique(columns):
        of_column = rows[columns == column]
        first = int(of_column.min())
        seen = float(matrix[first, column])
        state = "missing (blank or NaN)" if np.isnan(seen) else f"{seen}"
        more = f", and so are {len(of_column) - 1:,} more of it" if len(of_column) > 1 else ""
        found.append(
            f"the feature {names[column]!r} of node {ids[first].as_py()!r} in {origin} is "
            f"{state}{more}; fill or drop values that are not finite numbers (--fill-missing mean)"
        )
    if len(found) > _SHOWN:
        rest = len(found) - _SHOWN
        found = [*found[:_SHOWN], f"{rest:,} more features of {origin} have such values"]
    return found


def filled(
    matrix: Features, ids: pa.ChunkedArray, graph_ids: NodeIds, way: str
) -> tuple[Features, pa.ChunkedArray, list[str]]:
    """Fill missing values, also those of nodes without a row; return notes too.

    Args:
        matrix: ``(rows, num_features)``; infinite values are refused.
        ids: The ids of the rows.
        graph_ids: The nodes of the graph.
        way: ``"mean"`` of the values there are in the column, or ``"zero"``.
    """
    if way not in WAYS:
        raise InputError(f"fill_missing is {way!r}; choose mean or zero (--fill-missing)")
    notes = []
    values: Any = matrix
    stored = values.data if sp.issparse(values) else values
    if np.isinf(stored).any():
        raise InputError("a feature is infinite, which --fill-missing does not mend; correct it")
    means = _means(values) if way == "mean" else np.zeros(values.shape[1], dtype=np.float32)
    rows, columns = _not_finite(values)
    what = "the mean of their column" if way == "mean" else "zero"
    if len(rows):
        values[rows, columns] = means[columns]
        features = len(np.unique(columns))
        notes.append(f"{len(rows):,} missing values of {features:,} features were set to {what}")
    known = np.zeros(len(graph_ids), dtype=bool)
    place = graph_ids.find(ids)
    known[place[place >= 0]] = True
    absent = np.flatnonzero(~known)
    if absent.size:
        if sp.issparse(values):
            row = sp.csr_matrix(means)
            values = sp.vstack([values, *([row] * absent.size)]).tocsr()
        else:
            values = np.concatenate([values, np.repeat(means[None], absent.size, 0)])
        added = graph_ids.take(absent).to_arrow()
        ids = pa.chunked_array([*ids.chunks, pa.array(added).cast(ids.type)])
        notes.append(f"{absent.size:,} nodes without features got {what}")
    return values, ids, notes


def usable_rows(
    graph_ids: NodeIds, ids: pa.ChunkedArray, isolated: bool, origin: str
) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Return the rows of a table that describe a node for the first time, and what was left out."""
    place = graph_ids.find(ids)
    keep, notes = np.arange(len(ids)), []
    unknown = np.flatnonzero(place < 0)
    if unknown.size and not isolated:
        first = ids[int(unknown[0])].as_py()
        notes.append(
            f"{unknown.size:,} rows of {origin} with an id that is in no edge were left out, the "
            f"first for {first!r}"
        )
        keep = keep[place >= 0]
    texts = ids.take(pa.array(keep)).combine_chunks().dictionary_encode()
    codes = texts.indices.to_numpy()
    _, firsts = np.unique(codes, return_index=True)
    repeated = len(keep) - len(firsts)
    if repeated:
        notes.append(f"{repeated:,} rows of {origin} repeat an id; the first of each was kept")
        keep = keep[np.sort(firsts)]
    return keep, notes


def _not_finite(matrix: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    if not sp.issparse(matrix):
        rows, columns = np.nonzero(~np.isfinite(matrix))
        return rows.astype(np.int64), columns.astype(np.int64)
    where = np.flatnonzero(~np.isfinite(matrix.data))
    rows = np.searchsorted(matrix.indptr, where, side="right") - 1
    return rows.astype(np.int64), matrix.indices[where].astype(np.int64)


def _means(matrix: Any) -> npt.NDArray[np.float32]:
    """Return the mean of each column over what is not missing; 0 where nothing is."""
    if sp.issparse(matrix):
        bad = np.isnan(matrix.data)
        tidy = matrix.copy()
        tidy.data[bad] = 0
        missing: Any = np.bincount(matrix.indices[bad], minlength=matrix.shape[1])
        total: Any = np.asarray(tidy.sum(0, dtype=np.float64)).reshape(-1)
    else:
        missing = np.isnan(matrix).sum(0)
        total = np.nansum(matrix, axis=0, dtype=np.float64)
    return np.asarray(total / np.maximum(1, matrix.shape[0] - missing), dtype=np.float32)
