"""Nearest nodes in the embedding: exact for one question, by cells for a million."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.sampling.keys import derive_key

Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]
_CHUNK = 1 << 15
# Bytes of one table of similarities; larger ones fall out of the processor's caches.
_TABLE_BYTES = 32 << 20
_CELL_SAMPLE = 20_000


def unit_rows(vectors: npt.NDArray[Any]) -> Floats:
    """Return the rows scaled to length one; rows of zeros stay zero."""
    out = np.empty(vectors.shape, dtype=np.float32)
    for start in range(0, len(vectors), _CHUNK):
        part = np.asarray(vectors[start : start + _CHUNK], dtype=np.float32)
        length = np.linalg.norm(part, axis=1, keepdims=True)
        out[start : start + _CHUNK] = part / np.maximum(length, 1e-12)
    return out


def nearest_to(vectors: npt.NDArray[Any], row: int, count: int = 10) -> tuple[Rows, Floats]:
    """Return the rows most similar to one row by cosine, the best first, and the similarities.

    Exact. Vectors may be memory-mapped: they are read once, in pieces.

    Args:
        vectors: ``(num_nodes, dim)``.
        row: The row that asks; it is not among the answers.
        count: How many to return at most.
    """
    if not 0 <= row < len(vectors):
        raise InputError(f"there is no row {row}; rows are 0..{len(vectors) - 1}")
    asked = np.asarray(vectors[row], dtype=np.float32)
    asked = asked / max(float(np.linalg.norm(asked)), 1e-12)
    similar = np.empty(len(vectors), dtype=np.float32)
    for start in range(0, len(vectors), _CHUNK):
        part = np.asarray(vectors[start : start + _CHUNK], dtype=np.float32)
        length = np.maximum(np.sqrt(np.einsum("nd,nd->n", part, part)), 1e-12)
        similar[start : start + _CHUNK] = (part @ asked) / length
    similar[row] = -np.inf
    return _best(similar, min(count, len(vectors) - 1))


def _best(similar: Floats, count: int) -> tuple[Rows, Floats]:
    if count <= 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
    found = np.argpartition(-similar, count - 1)[:count]
    # Ties by row, so that equal vectors are listed the same way everywhere.
    found = found[np.lexsort((found, -similar[found]))]
    return found.astype(np.int64), similar[found]


def all_nearest(vectors: npt.NDArray[Any], count: int = 8) -> tuple[Rows, Floats]:
    """Return every node's nearest nodes by cosine, exact, in pieces.

    The time grows with the square of the number of nodes: seconds for ten thousand.

    Returns:
        ``(num_nodes, count)`` rows and similarities, the best first.
    """
    unit = unit_rows(vectors)
    count = min(count, len(unit) - 1)
    rows = np.zeros((len(unit), max(count, 0)), dtype=np.int64)
    values = np.zeros(rows.shape, dtype=np.float32)
    if count < 1:
        return rows, values
    step = max(1, _TABLE_BYTES // (4 * len(unit)))
    for start in range(0, len(unit), step):
        stop = min(start + step, len(unit))
        table = unit[start:stop] @ unit.T
        each = np.arange(stop - start)
        table[each, each + start] = -np.inf
        found = np.argpartition(-table, count - 1, axis=1)[:, :count]
        seen = np.take_along_axis(table, found, axis=1)
        order = np.lexsort((found, -seen), axis=1)
        rows[start:stop] = np.take_along_axis(found, order, axis=1)
        values[start:stop] = np.take_along_axis(seen, order, axis=1)
    return rows, values


class CellSearch:
    """Finds near points among many by looking only into the cells around the asking point.

    Points are cut into about ``sqrt(num_points)`` cells by k-means. A question looks into the
    twelve cells nearest to its own. Nearly always right, and fast enough to place a million nodes.

    Args:
        points: ``(num_points, dim)`` to search among.
        seed: Decides the cells.
        cells: Their number; with one the answers are exact.
    """

    _AROUND = 12

    def __init__(self, points: Floats, seed: int = 0, cells: int | None = None) -> None:
        # Compiled loops take a while to load, and the explorer's first answers need none.
        from graphham.model.kmeans import kmeans

        self.points = np.ascontiguousarray(points, dtype=np.float32)
        count = cells or max(1, min(256, int(np.sqrt(len(points)) * 0.7)))
        step = max(1, len(points) // _CELL_SAMPLE)
        self.centers, _ = kmeans(
            self.points[::step], count, derive_key(seed, "cells"), starts=1, rounds=8
        )
        own = self._cells(self.points)
        order = np.argsort(own, kind="stable")
        bounds = np.searchsorted(own[order], np.arange(count + 1))
        around, _ = _squared_nearest(self.centers, self.centers, min(self._AROUND, count))
        self._inside = [
            np.concatenate([order[bounds[c] : bounds[c + 1]] for c in cell]) for cell in around
        ]

    def query(self, asked: npt.NDArray[Any], count: int) -> tuple[Rows, Floats]:
        """Return ``(num_asked, count)`` near points and their squared distances, nearest first."""
        count = min(count, len(self.points))
        rows = np.zeros((len(asked), count), dtype=np.int64)
        away = np.zeros(rows.shape, dtype=np.float32)
        cells = self._cells(asked)
        order = np.argsort(cells, kind="stable")
        bounds = np.searchsorted(cells[order], np.arange(len(self.centers) + 1))
        for cell, inside in enumerate(self._inside):
            mine = order[bounds[cell] : bounds[cell + 1]]
            # A neighbourhood with too few points cannot answer; all points can.
            among = inside if len(inside) >= count else np.arange(len(self.points))
            step = max(1, _TABLE_BYTES // (4 * max(len(among), 1)))
            for start in range(0, len(mine), step):
                part = mine[start : start + step]
                found, distance = _squared_nearest(
                    np.asarray(asked[part], dtype=np.float32), self.points[among], count
                )
                rows[part], away[part] = among[found], distance
        return rows, away

    def _cells(self, points: npt.NDArray[Any]) -> Rows:
        from graphham.model.kmeans import nearest

        cells = np.zeros(len(points), dtype=np.int64)
        for start in range(0, len(points), _CHUNK):
            part = np.asarray(points[start : start + _CHUNK], dtype=np.float32)
            cells[start : start + _CHUNK] = nearest(part, self.centers)[0]
        return cells


def _squared_nearest(asked: Floats, points: Floats, count: int) -> tuple[Rows, Floats]:
    table = (points**2).sum(1)[None, :] - 2 * (asked @ points.T)
    found = np.argpartition(table, count - 1, axis=1)[:, :count]
    away = np.take_along_axis(table, found, axis=1) + (asked**2).sum(1)[:, None]
    order = np.lexsort((found, away), axis=1)
    found = np.take_along_axis(found, order, axis=1)
    return found.astype(np.int64), np.maximum(np.take_along_axis(away, order, axis=1), 0)
