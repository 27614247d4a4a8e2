"""How good a hierarchy is: nesting, use of groups, agreement with labels, stability, purity.

The same figures are computed for our groups and for those of any other method, so that they can
stand side by side.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.graph.graph import Labels
from graphham.results.scores import (
    effective_groups,
    groups_used,
    label_scores,
    nesting_score,
    partition_scores,
)

if TYPE_CHECKING:
    from graphham.methods.base import Method

Codes = npt.NDArray[np.int32]


def hierarchy_scores(
    levels: Sequence[Codes],
    labels: Labels | None = None,
    *,
    group_counts: Sequence[int] | None = None,
    test_rows: npt.NDArray[Any] | None = None,
) -> dict[str, Any]:
    """Score groups of several levels, fine to coarse.

    Args:
        levels: Per level ``(num_nodes,)`` codes.
        labels: Known classes, or ``None``.
        group_counts: Groups of each level, used or not; those that occur when not given.
        test_rows: Rows whose labels were not trained on; gives ``nmi_test_l``.

    Returns:
        Per level ``groups_l``, ``used_l`` (holding at least 1% of the nodes, unlike the groups in
        use of a run, and never shown under that name), ``effective_l``,
        ``nmi_l``, ``ari_l``; over levels ``nesting``, ``used_share``,
        ``purity`` (of the tree, see :func:`tree_purity`).
    """
    counts = group_counts or [int(codes.max()) + 1 for codes in levels]
    found: dict[str, Any] = {}
    shares = []
    for level, (codes, count) in enumerate(zip(levels, counts, strict=True), 1):
        used = groups_used(codes, count, share=0.01)
        shares.append(used / count)
        found |= {f"groups_{level}": count, f"used_{level}": used}
        found[f"effective_{level}"] = effective_groups(codes)
        if labels is not None:
            scores = label_scores(codes, labels)
            found |= {f"nmi_{level}": scores["nmi"], f"ari_{level}": scores["ari"]}
            if test_rows is not None:
                tested = label_scores(codes[test_rows], labels.take(test_rows))
                found[f"nmi_test_{level}"] = tested["nmi"]
    found["used_share"] = min(shares)
    if len(levels) > 1:
        found["nesting"] = _mean_nesting(levels)
    if labels is not None and labels.codes is not None:
        found["purity"] = tree_purity(levels, labels.codes)
    return found


def method_hierarchy(
    method: Method, labels: Labels | None, test_rows: npt.NDArray[Any] | None
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Score the groups a fitted method found; nothing for a method without groups."""
    levels = method.levels_
    if not levels:
        return {}, {}
    result = getattr(method, "result_", None)
    scores = hierarchy_scores(
        levels,
        labels,
        group_counts=None if result is None else result.group_counts,
        test_rows=test_rows,
    )
    return scores, level_arrays(levels)


def level_arrays(levels: Sequence[Codes]) -> dict[str, npt.NDArray[Any]]:
    """Return the codes under the names they have in a cell's ``arrays.npz``."""
    return {f"level_{n}": np.asarray(codes, dtype=np.int32) for n, codes in enumerate(levels, 1)}


def stability(runs: Sequence[Codes]) -> dict[str, float]:
    """Return mean pairwise NMI and adjusted Rand index between runs of one method.

    Args:
        runs: One ``(num_nodes,)`` coding of the same nodes per run.
    """
    if len(runs) < 2:
        raise InputError("stability needs at least two runs")
    pairs = []
    for first, second in itertools.combinations(runs, 2):
        scores = partition_scores(first, second)
        pairs.append((scores["nmi"], scores["ari"]))
    nmi, ari = np.mean(pairs, axis=0)
    return {"nmi": float(nmi), "ari": float(ari)}


def tree_purity(levels: Sequence[Codes], classes: npt.NDArray[Any]) -> float:
    """Return the dendrogram purity of a tree given as nested levels, fine to coarse.

    For two random nodes of the same class: the share of that class in the smallest group that
    holds both (all nodes, if no group does). 1 when the finest groups are pure and each class has
    one of them; the tree's shape below the finest groups is not known and counts as flat.

    Args:
        levels: Per level ``(num_nodes,)`` codes.
        classes: ``(num_nodes,)`` codes; negative ones are unknown and left out.
    """
    known = np.asarray(classes) >= 0
    truth = np.asarray(classes)[known].astype(np.int64)
    size = int(truth.max(initial=-1)) + 1
    totals = np.bincount(truth, minlength=size).astype(np.float64)
    pairs = float((totals * (totals - 1)).sum())
    if pairs <= 0:
        return 1.0
    purity = 0.0
    # Pairs of one class inside a group of this level, less those already inside a finer group.
    path: npt.NDArray[Any] = np.zeros(len(truth), dtype=np.int64)
    inside: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = []
    steps: list[npt.NDArray[Any]] = [np.zeros(len(truth), np.int64)]
    for codes in steps + [level[known] for level in reversed(levels)]:
        # A finer group that straddles two coarser ones is split: the path decides.
        _, path = np.unique(path * (int(codes.max()) + 1) + codes, return_inverse=True)
        table = np.bincount(path * size + truth, minlength=(int(path.max()) + 1) * size)
        inside.append((table.reshape(-1, size).astype(np.float64), path.copy()))
    for depth, (table, place) in enumerate(inside):
        joined = table * (table - 1)
        if depth + 1 < len(inside):
            finer, finer_place = inside[depth + 1]
            parent = np.zeros(len(finer), dtype=np.int64)
            parent[finer_place] = place
            np.subtract.at(joined, parent, finer * (finer - 1))
        share = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
        purity += float((joined * share).sum())
    return purity / pairs


def dendrogram_purity(linkage: npt.NDArray[Any], classes: npt.NDArray[Any]) -> float:
    """Return the purity of a whole binary tree over the nodes, as SciPy writes it.

    Args:
        linkage: ``(num_nodes - 1, 4)``; row ``i`` joins two clusters into cluster
            ``num_nodes + i``. A forest is fine: trees never joined share no group.
        classes: ``(num_nodes,)`` codes; negative ones are left out.
    """
    truth = np.asarray(classes, dtype=np.int64)
    totals = np.bincount(truth[truth >= 0]).astype(np.float64)
    pairs = float((totals * (totals - 1)).sum()) / 2
    if pairs <= 0:
        return 1.0
    merges = np.ascontiguousarray(np.asarray(linkage)[:, :2], dtype=np.int64)
    return float(_purity_of_merges(merges, truth, len(totals))) / pairs


@numba.njit(cache=True)
def _purity_of_merges(merges: Any, truth: Any, num_classes: int) -> float:
    n = len(truth)
    counts = np.zeros((n + len(merges), num_classes))
    for i in range(n):
        if truth[i] >= 0:
            counts[i, truth[i]] = 1
    total = 0.0
    for m in range(len(merges)):
        left, right = counts[merges[m, 0]], counts[merges[m, 1]]
        both = left + right
        size = both.sum()
        if size > 0:
            total += (left * right * both).sum() / size
        counts[n + m] = both
    return total


def _mean_nesting(levels: Sequence[Codes]) -> float:
    return float(np.mean([nesting_score(a, b) for a, b in itertools.pairwise(levels)]))
