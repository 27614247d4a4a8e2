"""Dot products of sparse rows, pair by pair: nothing of size nodes x nodes is ever made."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.graph.graph import Graph
from graphham.system.jit import Array, frozen, jit


class SparseRows:
    """One sparse vector per node; two nodes are compared by the dot product of theirs.

    Args:
        matrix: ``(num_nodes, width)`` SciPy matrix.
    """

    def __init__(self, matrix: Any) -> None:
        rows = sp.csr_matrix(matrix, dtype=np.float32)
        rows.sum_duplicates()
        self.matrix = rows
        self._parts = (
            frozen(rows.indptr, np.int64),
            frozen(rows.indices, np.int64),
            frozen(rows.data, np.float32),
        )

    def dots(self, pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the ``(count,)`` dot products of ``(count, 2)`` pairs of rows."""
        found: npt.NDArray[np.float64] = _pair_dots(*self._parts, frozen(pairs, np.int64))
        return found

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays to save."""
        names = ("rows.indptr", "rows.indices", "rows.data")
        width = np.asarray([self.matrix.shape[1]], dtype=np.int64)
        return {**dict(zip(names, self._parts, strict=True)), "rows.width": width}

    @classmethod
    def from_state(cls, state: Any) -> SparseRows:
        """Rebuild from saved arrays."""
        indptr = np.asarray(state["rows.indptr"])
        shape = (len(indptr) - 1, int(state["rows.width"][0]))
        parts = (np.asarray(state["rows.data"]), np.asarray(state["rows.indices"]), indptr)
        return cls(sp.csr_matrix(parts, shape=shape))


def walk_matrix(graph: Graph, symmetric: bool = False) -> Any:
    """Return the matrix that averages over each node and its neighbours.

    Args:
        graph: The graph; a node counts like one average neighbour, whatever the unit of weights.
        symmetric: Return D^-1/2 (A + I) D^-1/2 instead of D^-1 (A + I).
    """
    adjacency = graph.adjacency().astype(np.float32)
    degrees = graph.degrees()
    total = np.asarray(adjacency.sum(1)).ravel()
    own = np.where(degrees > 0, total / np.maximum(degrees, 1), 1.0)
    walk = adjacency + sp.diags(own.astype(np.float32))
    if not symmetric:
        return sp.csr_matrix(sp.diags((1 / (total + own)).astype(np.float32)) @ walk)
    root = sp.diags((1 / np.sqrt(total + own)).astype(np.float32))
    return sp.csr_matrix(root @ walk @ root)


def smoothed_rows(features: Any, graph: Graph, steps: int) -> Any:
    """Return unit rows of features averaged over each node and its neighbours, ``steps`` times."""
    x = sp.csr_matrix(features, dtype=np.float32)
    walk = walk_matrix(graph)
    for _ in range(steps):
        x = walk @ x
    return unit_rows(x)


def unit_rows(x: Any) -> Any:
    """Return sparse rows scaled to unit length; zero rows stay."""
    x = sp.csr_matrix(x, dtype=np.float32)
    norm = np.sqrt(np.asarray(x.multiply(x).sum(1)).ravel())
    return sp.diags((1 / np.maximum(norm, 1e-12)).astype(np.float32)) @ x


@jit
def _pair_dots(indptr: Array, indices: Array, values: Array, pairs: Array) -> Array:
    """Merge the two sorted rows of each pair."""
    out = np.zeros(len(pairs), dtype=np.float64)
    for p in range(len(pairs)):
        a, a_end = indptr[pairs[p, 0]], indptr[pairs[p, 0] + 1]
        b, b_end = indptr[pairs[p, 1]], indptr[pairs[p, 1] + 1]
        total = 0.0
        while a < a_end and b < b_end:
            if indices[a] == indices[b]:
                total += np.float64(values[a]) * np.float64(values[b])
                a += 1
                b += 1
            elif indices[a] < indices[b]:
                a += 1
            else:
                b += 1
        out[p] = total
    return out
