"""Scores on nodes' group codes: do levels nest, are groups in use, do they match known classes.

Every function takes plain integer codes per node, counts them into one small table and works on
that, so the cost is linear in the number of nodes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.graph.graph import Labels

Codes = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]
_CHUNK = 1 << 16


def contingency(
    lower: npt.NDArray[Any], upper: npt.NDArray[Any], num_lower: int, num_upper: int
) -> Counts:
    """Count the nodes of every pair of codes, ``(num_lower, num_upper)``."""
    if len(lower) != len(upper):
        raise InputError(f"cannot compare {len(lower):,} codes with {len(upper):,}")
    key = np.asarray(lower, dtype=np.int64) * num_upper + np.asarray(upper, dtype=np.int64)
    return np.bincount(key, minlength=num_lower * num_upper).reshape(num_lower, num_upper)


def _table(lower: npt.NDArray[Any], upper: npt.NDArray[Any]) -> Counts:
    size = [int(np.max(c, initial=-1)) + 1 for c in (lower, upper)]
    return contingency(lower, upper, max(size[0], 1), max(size[1], 1))


def _entropy(counts: npt.NDArray[Any]) -> float:
    total = counts.sum()
    share = counts[counts > 0] / max(total, 1)
    return float(-(share * np.log(share)).sum())


def table_nesting(table: Counts) -> float:
    """Return I(row; column) / H(column) of a table of counts; 0 when one column holds all."""
    upper = _entropy(table.sum(axis=0))
    if upper <= 0:
        return 0.0
    shared = _entropy(table.sum(axis=1)) + upper - _entropy(table)
    return float(np.clip(shared / upper, 0.0, 1.0))


def nesting_score(lower: npt.NDArray[Any], upper: npt.NDArray[Any]) -> float:
    """Return I(lower; upper) / H(upper) of two codings of the same nodes.

    1 when each lower group lies inside one upper group, 0 when they are independent or the upper
    level has collapsed to one group.
    """
    return table_nesting(_table(lower, upper))


def conditional_entropy(lower: npt.NDArray[Any], upper: npt.NDArray[Any]) -> float:
    """Return H(upper | lower) in nats: 0 when the lower group settles the upper one."""
    table = _table(lower, upper)
    return max(0.0, _entropy(table) - _entropy(table.sum(axis=1)))


def violation_rate(lower: npt.NDArray[Any], upper: npt.NDArray[Any]) -> float:
    """Return the share of node pairs in one lower group that part ways on the upper level."""
    table = _table(lower, upper).astype(np.float64)
    together = (table.sum(axis=1) ** 2).sum()
    pairs = together - table.sum()
    return float((together - (table**2).sum()) / pairs) if pairs > 0 else 0.0


def groups_used(codes: npt.NDArray[Any], num_groups: int, share: float = 0.0) -> int:
    """Count the groups in use: those that are the shown group of at least one node.

    Args:
        codes: ``(num_nodes,)`` group of each node.
        num_groups: Groups there are.
        share: Count only groups that hold at least this share of the nodes.
    """
    sizes = np.bincount(codes, minlength=num_groups)
    return int(((sizes > 0) & (sizes >= share * len(codes))).sum())


def effective_groups(codes: npt.NDArray[Any]) -> float:
    """Return exp(entropy) of the group sizes: how many equal groups would be as diverse."""
    return float(np.exp(_entropy(np.bincount(codes)))) if len(codes) else 0.0


def table_majority(flow: Counts) -> Codes:
    """Return for each row of a table of counts its fullest column."""
    parents = flow.argmax(axis=1)
    # An empty group has no majority; the largest group above is the least surprising home.
    parents[flow.sum(axis=1) == 0] = int(flow.sum(axis=0).argmax())
    return np.asarray(parents, dtype=np.int32)


def between_groups(memberships: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return ``(num_nodes,)`` twice the second largest membership: 1 is half and half.

    Args:
        memberships: ``(num_nodes, K)`` of the finest level.
    """
    n, count = memberships.shape
    if count < 2:
        return np.zeros(n, dtype=np.float32)
    out = np.empty(n, dtype=np.float32)
    for first in range(0, n, _CHUNK):
        part = np.asarray(memberships[first : first + _CHUNK], dtype=np.float32)
        out[first : first + _CHUNK] = 2 * np.partition(part, count - 2, axis=1)[:, count - 2]
    return out


def majority_parents(
    lower: npt.NDArray[Any], upper: npt.NDArray[Any], num_lower: int, num_upper: int
) -> Codes:
    """Return for each lower group the upper group that holds most of its nodes."""
    return table_majority(contingency(lower, upper, num_lower, num_upper))


def path_decode(
    memberships: Sequence[npt.NDArray[Any]], parents: Sequence[npt.NDArray[Any]]
) -> list[Codes]:
    """Choose one group per node and level from the top down, so that the levels nest exactly.

    The top group is the strongest membership; below, the strongest among the children of the group
    chosen above. Groups without descendants on every lower level cannot be chosen.

    Args:
        memberships: Per level ``(num_nodes, num_groups)``, fine to coarse.
        parents: Per level but the last ``(num_groups,)`` parent in the next level.
    """
    if len(parents) != len(memberships) - 1:
        raise InputError(f"{len(memberships)} levels need {len(memberships) - 1} parent lists")
    alive = [np.ones(memberships[0].shape[1], dtype=bool)]
    for level, parent in enumerate(parents):
        reached = np.zeros(memberships[level + 1].shape[1], dtype=bool)
        reached[np.asarray(parent)[alive[level]]] = True
        alive.append(reached)
    num_nodes = len(memberships[0])
    groups = [np.zeros(num_nodes, dtype=np.int32) for _ in memberships]
    for start in range(0, num_nodes, _CHUNK):
        rows = slice(start, min(start + _CHUNK, num_nodes))
        top = np.where(alive[-1], memberships[-1][rows], -np.inf)
        groups[-1][rows] = top.argmax(axis=1)
        for level in range(len(parents) - 1, -1, -1):
            above = groups[level + 1][rows]
            allowed = (np.asarray(parents[level])[None, :] == above[:, None]) & alive[level]
            groups[level][rows] = np.where(allowed, memberships[level][rows], -np.inf).argmax(
                axis=1
            )
    return groups


def show_paths(
    memberships: Sequence[npt.NDArray[Any]], parents: Sequence[npt.NDArray[Any]], sums: bool
) -> list[Codes]:
    """Decode every node's path and make it the maximum of the memberships, which change in place.

    Two rules cannot both hold for memberships as a model gives them: the group shown is the
    strongest, and fine groups lie inside coarse ones. With shares 0.4 | 0.3, 0.3 the strongest fine
    group lies outside the strongest coarse one. The coarse level is right, because it pools the
    evidence of all its children; :func:`path_decode` follows it. Where the path is not the maximum,
    its group gets the least share that makes it so. Such a node ends as a tie between the two
    groups, which is what it is; every other row keeps its bits.

    Args:
        memberships: Per level ``(num_nodes, num_groups)`` float32 rows on the simplex, fine to
            coarse.
        parents: Per level but the last ``(num_groups,)`` parent in the next level.
        sums: Whether a coarse membership is the sum of its children's. Then the share comes from
            the siblings of the group, so that the sums stay: its parent is at least as strong as
            any other group, so they always have enough. Otherwise each level is a distribution of
            its own, and all other groups give in proportion.

    Returns:
        Per level ``(num_nodes,)`` groups: the argmax of each changed membership, nested exactly.
    """
    groups = path_decode(memberships, parents)
    for start in range(0, len(memberships[0]), _CHUNK):
        part = slice(start, start + _CHUNK)
        strays = np.zeros(len(memberships[0][part]), dtype=bool)
        for values, codes in zip(memberships, groups, strict=True):
            strays |= values[part].argmax(axis=1) != codes[part]
        if strays.any():
            _lift_paths(memberships, parents, groups, start + np.flatnonzero(strays), sums)
    return groups


def _lift_paths(
    memberships: Sequence[npt.NDArray[Any]],
    parents: Sequence[npt.NDArray[Any]],
    groups: Sequence[Codes],
    rows: npt.NDArray[np.int64],
    sums: bool,
) -> None:
    """Make the groups of some rows the strongest of their memberships, coarse levels first."""
    each = np.arange(len(rows))
    change: npt.NDArray[np.float64] | None = None  # of the level above: new shares / old ones
    for level in range(len(memberships) - 1, -1, -1):
        old = memberships[level][rows].astype(np.float64)
        own = groups[level][rows]
        givers = np.ones(old.shape, dtype=bool)
        new = old.copy()
        if sums and change is not None:
            parent = np.asarray(parents[level])
            new *= change[:, parent]
            givers = parent[None, :] == groups[level + 1][rows][:, None]
        givers[each, own] = False
        others = new.copy()
        others[each, own] = 0
        taken = np.where(givers, new, 0).sum(axis=1)
        rival = others.max(axis=1)
        if not sums or change is None:
            # The rival gives too, so the two meet below where it stood.
            rival = rival * (new[each, own] + taken) / np.maximum(taken + rival, 1e-300)
        lift = np.clip(rival - new[each, own], 0, taken)
        left = np.divide(taken - lift, taken, out=np.ones_like(taken), where=taken > 0)
        new = np.where(givers, new * left[:, None], new)
        new[each, own] += lift
        change = np.divide(new, old, out=np.ones_like(new), where=old > 0)
        stored = new.astype(np.float32)
        own_values = stored[each, own]
        stored[each, own] = 0
        # One step of float32 above the rival: a tie would go to the group with the lower number.
        above = np.nextafter(stored.max(axis=1), np.float32(2))
        stored[each, own] = np.maximum(own_values, above)
        memberships[level][rows] = stored


def label_scores(groups: npt.NDArray[Any], labels: Labels) -> dict[str, Any]:
    """Compare groups with known classes: NMI (arithmetic mean), adjusted Rand index and purity.

    Only nodes with exactly one known label count, also for multi-label data; ``nodes`` says how
    many that are. Written out here, on one table of counts, because importing scikit-learn takes
    longer than the whole computation.
    """
    if labels.codes is not None:
        single, codes = labels.codes >= 0, labels.codes
    else:
        assert labels.matrix is not None
        single = np.diff(labels.matrix.indptr) == 1
        codes = np.full(len(labels), -1, dtype=np.int32)
        codes[single] = labels.matrix.indices[labels.matrix.indptr[:-1][single]]
    picked = np.asarray(groups)[single]
    if not len(picked):
        return {"nmi": None, "ari": None, "purity": None, "nodes": 0}
    return {**partition_scores(picked, codes[single]), "nodes": len(picked)}


def partition_scores(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> dict[str, float]:
    """Compare two codings of the same nodes: NMI, adjusted Rand index, and the first's purity.

    Args:
        first: ``(num_nodes,)`` codes from 0.
        second: ``(num_nodes,)`` codes from 0.
    """
    table = _table(first, second).astype(np.float64)
    a, b = _entropy(table.sum(axis=1)), _entropy(table.sum(axis=0))
    shared = max(0.0, a + b - _entropy(table))
    return {
        "nmi": float(min(1.0, 2 * shared / (a + b))) if a + b > 0 else 1.0,
        "ari": _adjusted_rand(table),
        "purity": float(table.max(axis=1).sum() / table.sum()),
    }


def _adjusted_rand(table: npt.NDArray[np.float64]) -> float:
    def pairs(counts: npt.NDArray[np.float64]) -> float:
        return float((counts * (counts - 1)).sum() / 2)

    total = pairs(table.sum(keepdims=True))
    rows, columns, both = pairs(table.sum(axis=1)), pairs(table.sum(axis=0)), pairs(table)
    expected = rows * columns / total if total else 0.0
    highest = (rows + columns) / 2
    return 1.0 if highest == expected else float((both - expected) / (highest - expected))


def collapse_notes(groups: list[Any], counts: tuple[int, ...]) -> list[str]:
    """Return one sentence for every level whose groups have collapsed, with what to change.

    Args:
        groups: Per level the ``(num_nodes,)`` group of each node.
        counts: Groups asked for per level.
    """
    notes: list[str] = []
    for level, (codes, count) in enumerate(zip(groups, counts, strict=True)):
        # Of hundreds of groups none need hold a hundredth of the nodes.
        least = min(0.01, 0.25 / count)
        used = groups_used(codes, count, least)
        if count > 1 and used < 0.5 * count:
            notes.append(
                f"only {used} of the {count} groups of level {level + 1} hold {least:.1%} of the "
                f"nodes or more; ask for fewer with --groups"
            )
    for level, (low, high) in enumerate(itertools.pairwise(groups)):
        if counts[level + 1] > 1 and nesting_score(low, high) < 0.5:
            notes.append(
                f"levels {level + 1} and {level + 2} hardly nest; raise loss.must_link_weight"
            )
    return notes
