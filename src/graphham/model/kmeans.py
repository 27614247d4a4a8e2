"""K-means for seeding groups: a few careful starts, one result per key."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from graphham.sampling.keys import derive_key, numpy_generator
from graphham.system.jit import Array, frozen, jit

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]
_SAMPLE = 20_000


def kmeans(
    points: Floats, count: int, key: Any, starts: int = 3, rounds: int = 40
) -> tuple[Floats, Codes]:
    """Cluster points by Lloyd's rounds from several k-means++ starts.

    Beyond twenty thousand points the centres are found on a fixed sample.

    Args:
        points: ``(num_points, dim)``.
        count: Number of centres; at most the number of points.
        key: Decides every random choice.
        starts: Number of starts; the one with the smallest inertia wins.
        rounds: Largest number of rounds per start.

    Returns:
        ``(count, dim)`` centres and the ``(num_points,)`` nearest centre of each point.
    """
    sample = points
    if len(points) > _SAMPLE:
        chosen = numpy_generator(derive_key(key, "sample")).choice(
            len(points), _SAMPLE, replace=False
        )
        sample = points[np.sort(chosen)]
    best: tuple[float, Floats] | None = None
    for start in range(starts if count > 1 else 1):
        centers = _spread_out(sample, count, numpy_generator(derive_key(key, "start", start)))
        centers, inertia = _lloyd(sample, centers, rounds)
        if best is None or inertia < best[0]:
            best = inertia, centers
    assert best is not None
    return best[1], nearest(points, best[1])[0]


def nearest(points: Floats, centers: Floats) -> tuple[Codes, npt.NDArray[np.float64]]:
    """Return each point's nearest centre and the squared distance to it, less its own norm."""
    # ||x - c||^2 less ||x||^2 ranks centres the same and needs one matrix product.
    scores = points @ (-2 * centers.T) + (centers**2).sum(1)
    codes = scores.argmin(1)
    return codes, scores[np.arange(len(points)), codes].astype(np.float64)


def _spread_out(points: Floats, count: int, generator: np.random.Generator) -> Floats:
    """Choose starting centres far apart (k-means++)."""
    centers = np.empty((count, points.shape[1]), dtype=np.float32)
    centers[0] = points[generator.integers(len(points))]
    distance = ((points - centers[0]) ** 2).sum(1)
    for k in range(1, count):
        total = float(distance.sum())
        draw = generator.random() * total
        chosen = int(np.searchsorted(np.cumsum(distance), draw)) if total > 0 else k
        centers[k] = points[min(chosen, len(points) - 1)]
        np.minimum(distance, ((points - centers[k]) ** 2).sum(1), out=distance)
    return centers


@jit
def _add_up(points: Array, codes: Array, sums: Array) -> None:
    """Add each point to the sum of its code."""
    for i in range(len(points)):
        k = codes[i]
        for d in range(points.shape[1]):
            sums[k, d] += points[i, d]


def _lloyd(points: Floats, centers: Floats, rounds: int) -> tuple[Floats, float]:
    count = len(centers)
    previous: Codes | None = None
    own = float((points.astype(np.float64) ** 2).sum())
    inertia = np.inf
    for _ in range(rounds):
        codes, scores = nearest(points, centers)
        inertia = own + float(scores.sum())
        if previous is not None and np.array_equal(codes, previous):
            break
        previous = codes
        sizes = np.bincount(codes, minlength=count)
        sums = np.zeros(centers.shape, dtype=np.float64)
        _add_up(frozen(points), codes, sums)
        centers = (sums / np.maximum(sizes, 1)[:, None]).astype(np.float32)
        empty = np.flatnonzero(sizes == 0)
        if len(empty):
            # An empty centre restarts at the point that is served worst.
            worst = np.argsort(-(scores + (points**2).sum(1)), kind="stable")[: len(empty)]
            centers[empty[: len(worst)]] = points[worst]
    return centers, inertia
