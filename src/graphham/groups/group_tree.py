"""Trees of groups: k-means from the top down as a start, and joins from the bottom up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from graphham.groups.description_length import GroupTables, MergePath, merge_path
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
        codes, parent = cut_groups(points, codes, groups[level + 1], groups[level], key, level)
        parents.insert(0, parent)
    return codes.astype(np.int64), parents


def cut_groups(
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


def trees_above(
    codes: Codes, links: npt.NDArray[np.float64], points: Floats, groups: Sequence[int]
) -> list[list[Codes]]:
    """Return two trees over given finest groups, each joined from the bottom up.

    One joins what is described best by one group, links and features together; the other joins the
    means of the features with the least rise of their spread (Ward). Where links tell little about
    coarse groups the first is blind, where features do the second is.

    Args:
        codes: ``(num_nodes,)`` finest group of each node.
        links: ``(K_1, K_1)`` link weight between groups; a link inside one counts twice.
        points: ``(num_nodes, d)`` features.
        groups: Groups per level, fine to coarse.

    Returns:
        Per tree, per level but the last, the parent of each group.
    """
    count = groups[0]
    sizes = np.bincount(codes, minlength=count).astype(np.float64)
    centred = (points - points.mean(0)).astype(np.float64)
    sums = np.zeros((count, points.shape[1]))
    np.add.at(sums, codes, centred)
    none = np.zeros((count, count))
    # Empty groups have no logarithm.
    filled = sizes + 1e-9
    tables = GroupTables(links, filled, sums, filled, np.square(centred).sum(0), 0.0, none)
    return [_levels(path, groups) for path in (merge_path(tables), _ward_path(sums, filled))]


def _levels(path: MergePath, groups: Sequence[int]) -> list[Codes]:
    """Return per level but the last the parent of each group, read off a path of joins."""
    parents: list[Codes] = []
    below = np.arange(groups[0])
    for count in groups[1:]:
        above = path.groups(count).astype(np.int64)
        parent = np.zeros(int(below.max()) + 1, dtype=np.int64)
        parent[below] = above
        parents.append(parent)
        below = above
    return parents


def _ward_path(sums: npt.NDArray[np.float64], sizes: npt.NDArray[np.float64]) -> MergePath:
    """Join groups two at a time, always those whose union spreads least more."""
    count = len(sizes)
    means, weight = sums / sizes[:, None], sizes.copy()
    pairs = np.zeros((count - 1, 2), dtype=np.int32)
    is_left = np.ones(count, dtype=bool)
    for step in range(count - 1):
        left = np.flatnonzero(is_left)
        m, w = means[left], weight[left]
        squares = np.square(m).sum(1)
        apart = squares[:, None] + squares[None, :] - 2 * m @ m.T
        rise = apart * (w[:, None] * w[None, :] / (w[:, None] + w[None, :]))
        rise[np.tril_indices(len(left))] = np.inf
        keep, gone = (int(left[k]) for k in divmod(int(rise.argmin()), len(left)))
        total = weight[keep] + weight[gone]
        means[keep] = (weight[keep] * means[keep] + weight[gone] * means[gone]) / total
        weight[keep] = total
        is_left[gone] = False
        pairs[step] = keep, gone
    return MergePath(np.zeros(count), pairs)
