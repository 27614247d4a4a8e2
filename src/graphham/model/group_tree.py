"""Where the groups of a hierarchy start: k-means from the top down, cut where the spread is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from graphham.model.kmeans import kmeans
from graphham.sampling.keys import derive_key

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]


def group_tree(points: Floats, groups: Sequence[int], key: Any) -> tuple[Codes, list[Codes]]:
    """Cut points into nested groups.

    Children are allotted to parents where they lower the spread most, so that large but uniform
    groups stay whole and small mixed ones are cut.

    Args:
        points: ``(num_nodes, d)``.
        groups: Groups per level, fine to coarse.
        key: Decides every random choice.

    Returns:
        ``(num_nodes,)`` finest groups, and per level but the last the parent of each group.
    """
    _, codes = kmeans(points, groups[-1], derive_key(key, "top"))
    parents: list[Codes] = []
    for level in reversed(range(len(groups) - 1)):
        codes, parent = _cut(points, codes, groups[level + 1], groups[level], key, level)
        parents.insert(0, parent)
    return codes.astype(np.int64), parents


def _cut(
    points: Floats, codes: Codes, count: int, wanted: int, key: Any, level: int
) -> tuple[Codes, Codes]:
    """Cut ``count`` groups into ``wanted``; return the new groups and their parents."""
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(count + 1))
    members = [order[bounds[k] : bounds[k + 1]] for k in range(count)]
    pieces = allot(np.array([_spread(points[rows]) for rows in members]), np.diff(bounds), wanted)
    fine = np.zeros(len(codes), dtype=np.int64)
    first = 0
    for group, rows in enumerate(members):
        number = int(pieces[group])
        if number > 1:
            _, inner = kmeans(points[rows], number, derive_key(key, "cut", level, group))
            fine[rows] = inner
        fine[rows] += first
        first += number
    return fine, np.repeat(np.arange(count), pieces)


def allot(spread: npt.NDArray[np.float64], sizes: Codes, wanted: int) -> Codes:
    """Return how many pieces each group is cut into, ``wanted`` in all and at least one each.

    Args:
        spread: ``(count,)`` sum of squares around the centre; n pieces leave about a nth of it.
        sizes: ``(count,)`` members; a group is not cut into more pieces than it has.
        wanted: Pieces in all.
    """
    pieces = np.ones(len(spread), dtype=np.int64)
    for _ in range(wanted - len(spread)):
        gain = spread / pieces - spread / (pieces + 1)
        room = pieces < sizes
        # More groups than points: the rest stay empty under the largest group.
        gain = np.where(room, gain + 1e-12, -1.0) if room.any() else sizes.astype(np.float64)
        pieces[int(gain.argmax())] += 1
    return pieces


def _spread(points: Floats) -> float:
    return float(((points - points.mean(0)) ** 2).sum(dtype=np.float64)) if len(points) else 0.0
