"""Leading directions by subspace iteration: of features, and of a graph that has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import lu, qr

from graphham.graph.graph import Graph
from graphham.sampling.keys import derive_key, numpy_generator

Floats = npt.NDArray[np.float32]
_OVERSAMPLE = 10
_POWER_STEPS = 4


def structural_features(graph: Graph, dim: int, seed: int) -> Floats:
    """Make features for a graph that has none: its smoothest directions.

    Subspace iteration on the normalised adjacency S = D^-1/2 (A + I) D^-1/2 finds the leading
    eigenvectors; a node's features are its entries, weighted by eigenvalue and freed of degree.
    Direction is ignored and the unit of edge weights does not matter.

    Returns:
        ``(num_nodes, min(dim, num_nodes))`` float32, centred, of unit variance on average; zero for
        nodes outside the ``dim / 4`` largest components.
    """
    n = graph.num_nodes
    width = min(dim, n)
    adjacency = graph.adjacency().astype(np.float32)
    if graph.directed:
        adjacency = (adjacency + adjacency.T).tocsr()
    if graph.weights is not None and adjacency.nnz:
        adjacency = adjacency / np.float32(adjacency.data.mean(dtype=np.float64))
    root = 1 / np.sqrt(np.asarray(adjacency.sum(1)).ravel() + 1.0)

    def smooth(x: Any) -> Any:
        y = x * root[:, None]
        return (adjacency @ y + y) * root[:, None]

    # Every component has an eigenvector of its own with the largest eigenvalue; hundreds of crumbs
    # would leave no direction to tell parts of the large ones apart.
    inside = _largest_components(graph, max(1, dim // 4))
    columns = min(width + _OVERSAMPLE, int(inside.sum()))
    generator = numpy_generator(derive_key(seed, "structural"))
    x = generator.standard_normal((n, columns)).astype(np.float32)
    x[~inside] = 0.0
    for _ in range(3 * _POWER_STEPS - 1):
        x = _spanning(smooth(x))
    x = _orthonormal(smooth(x))
    values, vectors = np.linalg.eigh(x.T @ smooth(x))
    lead = np.argsort(-np.abs(values))[:width]
    # The first eigenvector of a component only repeats the degrees; dividing by it leaves
    # directions that tell parts of the graph apart.
    x = (x @ vectors[:, lead]) * values[lead] * root[:, None]
    x[inside] -= x[inside].mean(0)
    spread = np.sqrt((x**2).sum() / n)
    made = np.zeros((n, width), dtype=np.float32)
    made[:, : x.shape[1]] = x / max(float(spread), 1e-12) * np.sqrt(width)
    made[~inside] = 0.0
    return made


def _largest_components(graph: Graph, count: int) -> npt.NDArray[np.bool_]:
    """Mark the nodes of the largest components of two nodes or more."""
    _, member = graph.components()
    sizes = np.bincount(member)
    large = np.argsort(-sizes, kind="stable")[:count]
    chosen: npt.NDArray[np.bool_] = np.isin(member, large[sizes[large] > 1])
    return chosen


def main_directions(x: Any, dim: int, key: Any) -> Floats:
    """Return the ``(num_features, dim)`` leading right singular vectors of ``x``.

    Randomised subspace iteration: a few products with ``x`` and its transpose, linear in entries.
    """
    return leading_directions(lambda v: x @ v, lambda q: x.T @ q, x.shape, dim, key)


def leading_directions(
    forth: Callable[[Floats], Any],
    back: Callable[[Floats], Any],
    shape: tuple[int, int],
    dim: int,
    key: Any,
) -> Floats:
    """Return the ``(columns, dim)`` leading right singular vectors of a matrix known by products.

    Args:
        forth: Multiplies ``(columns, k)`` by the matrix.
        back: Multiplies ``(rows, k)`` by its transpose.
        shape: Its rows and columns.
        dim: Most directions.
        key: Where the search begins.
    """
    rows, columns = shape
    width = min(dim, rows, columns)
    if columns <= width:
        return np.eye(columns, dtype=np.float32)
    start = numpy_generator(key).standard_normal((columns, min(width + _OVERSAMPLE, columns)))
    q = forth(start.astype(np.float32))
    for _ in range(_POWER_STEPS):
        q = forth(_spanning(back(_spanning(q))))
    q = _orthonormal(q)
    _, _, right = np.linalg.svd(np.asarray(back(q)).T, full_matrices=False)
    return np.ascontiguousarray(right[:width].T, dtype=np.float32)


def _spanning(x: Any) -> Floats:
    """Return columns that span what those of ``x`` do and are far from parallel.

    The lower factor of an LU decomposition with pivots is all that power iteration needs between
    its products, for a tenth of what orthonormal columns cost.
    """
    lower: Floats = lu(np.asarray(x, np.float32), permute_l=True, check_finite=False)[0]
    return lower


def _orthonormal(x: Any) -> Floats:
    """Return orthonormal columns that span what those of ``x`` do."""
    # NumPy would compute in double precision.
    q: Floats = qr(np.asarray(x, np.float32), mode="economic", check_finite=False)[0]
    return q
