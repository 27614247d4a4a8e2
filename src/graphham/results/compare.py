"""Compare two runs: how their groups map onto each other, and which nodes moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.graph.ids import NodeIds
from graphham.results.run_folder import Run
from graphham.results.scores import contingency, partition_scores

if TYPE_CHECKING:
    import pyarrow as pa

# Share of the smaller group that two partners have in common at least.
_LEAST_SHARED = 0.1


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two groupings of the nodes that two runs share, on one level.

    Args:
        first: The first run.
        second: The second run.
        level: The level whose groups are compared.
        rows_a: Rows of the shared nodes in the first run.
        rows_b: Rows of the same nodes in the second run.
        counts: ``(groups of a, groups of b)`` number of shared nodes in each pair of groups.
        partner: Per group of the first run its partner in the second, -1 for none; one to one.
        ari: Adjusted Rand index of the two groupings: 0 by chance, 1 the same.
        nmi: Normalised mutual information.
    """

    first: Run
    second: Run
    level: int
    rows_a: npt.NDArray[np.int64]
    rows_b: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    partner: npt.NDArray[np.int64]
    ari: float
    nmi: float

    @property
    def num_shared(self) -> int:
        """Number of nodes that both runs know."""
        return len(self.rows_a)

    @property
    def moved(self) -> npt.NDArray[np.bool_]:
        """Which shared nodes are not in the partner of their group."""
        before = _codes(self.first, self.level)[self.rows_a]
        after = _codes(self.second, self.level)[self.rows_b]
        return np.asarray(self.partner[before] != after)

    def groups_table(self) -> pa.Table:
        """Return one row per group of the first run: its partner, what they share, and how much.

        ``overlap`` is the share of the nodes in either of the two groups that are in both.
        """
        import pyarrow as pa

        names_a, names_b = _names(self.first, self.level), _names(self.second, self.level)
        size_a, size_b = self.counts.sum(axis=1), self.counts.sum(axis=0)
        has = self.partner >= 0
        partner = np.where(has, self.partner, 0)
        shared = np.where(has, self.counts[np.arange(len(partner)), partner], 0)
        either = np.maximum(size_a + np.where(has, size_b[partner], 0) - shared, 1)
        return pa.table(
            {
                "group_a": pa.array(np.arange(len(partner), dtype=np.int32)),
                "name_a": pa.array(names_a, type=pa.string()),
                "size_a": pa.array(size_a),
                "group_b": pa.array(partner.astype(np.int32), mask=~has),
                "name_b": pa.array(
                    [names_b[p] if h else None for p, h in zip(partner, has, strict=True)],
                    type=pa.string(),
                ),
                "size_b": pa.array(size_b[partner], mask=~has),
                "shared": pa.array(shared),
                "overlap": pa.array(shared / either),
            }
        )

    def moved_table(self) -> pa.Table:
        """Return one row per node that moved: id, title if known, group before and after."""
        import pyarrow as pa

        moved = np.flatnonzero(self.moved)
        before = _codes(self.first, self.level)[self.rows_a[moved]]
        after = _codes(self.second, self.level)[self.rows_b[moved]]
        rows = pa.array(self.rows_a[moved])
        nodes = self.first.nodes
        columns: dict[str, Any] = {"id": nodes["id"].take(rows)}
        if "title" in nodes.column_names:
            columns["title"] = nodes["title"].take(rows)
        columns["group_a"] = pa.array(before.astype(np.int32))
        columns["name_a"] = pa.array(_names(self.first, self.level)).take(pa.array(before))
        columns["group_b"] = pa.array(after.astype(np.int32))
        columns["name_b"] = pa.array(_names(self.second, self.level)).take(pa.array(after))
        return pa.table(columns)

    def lines(self) -> list[str]:
        """Return the comparison in a few readable lines."""
        only_a = len(self.first.nodes) - self.num_shared
        only_b = len(self.second.nodes) - self.num_shared
        moved = int(self.moved.sum())
        return [
            f"{self.num_shared:,} nodes in both runs, {only_a:,} only in the first, {only_b:,} "
            f"only in the second",
            f"level {self.level}: {self.counts.shape[0]} groups against {self.counts.shape[1]}, "
            f"adjusted Rand index {self.ari:.3f}, NMI {self.nmi:.3f}",
            f"{moved:,} nodes ({moved / self.num_shared:.0%}) moved out of their group's partner",
        ]


def compare_runs(first: Run, second: Run, level: int = 1) -> Comparison:
    """Match the groups of two runs one to one, so that as many nodes as possible stay.

    Nodes are matched by id; the runs need not know the same nodes.

    Args:
        first: A run.
        second: Another run.
        level: The level to compare; both runs must have it.
    """
    from scipy.optimize import linear_sum_assignment

    for run in (first, second):
        if not 1 <= level <= run.hierarchy.num_levels:
            raise InputError(
                f"the run {run.path} has levels 1 to {run.hierarchy.num_levels}, not {level}"
            )
    rows_a, rows_b = shared_rows(first, second)
    before, after = _codes(first, level)[rows_a], _codes(second, level)[rows_b]
    counts = contingency(
        before,
        after,
        first.hierarchy.group_counts[level - 1],
        second.hierarchy.group_counts[level - 1],
    )
    low, high = linear_sum_assignment(counts, maximize=True)
    partner = np.full(counts.shape[0], -1, dtype=np.int64)
    # A pair that shares next to nothing is no pair.
    smaller = np.minimum(counts.sum(axis=1)[low], counts.sum(axis=0)[high])
    real = counts[low, high] > _LEAST_SHARED * smaller
    partner[low[real]] = high[real]
    scores = partition_scores(before, after)
    return Comparison(
        first,
        second,
        level,
        rows_a,
        rows_b,
        counts,
        partner,
        scores["ari"],
        scores["nmi"],
    )


def compare_levels(first: Run, second: Run) -> list[Comparison]:
    """Compare two runs on every level that both have, the finest first."""
    levels = min(first.hierarchy.num_levels, second.hierarchy.num_levels)
    return [compare_runs(first, second, level) for level in range(1, levels + 1)]


def comparison_lines(parts: Sequence[Comparison]) -> list[str]:
    """Return a comparison of one or more levels in a few readable lines."""
    shared, *_ = parts[0].lines()
    return [shared, *(line for part in parts for line in part.lines()[1:])]


def all_moved(parts: Sequence[Comparison]) -> pa.Table:
    """Return the nodes that moved on each level, which is the column ``level``."""
    import pyarrow as pa

    tables = [part.moved_table() for part in parts]
    levels = [
        pa.array(np.full(len(t), p.level), pa.int32()) for t, p in zip(tables, parts, strict=True)
    ]
    return pa.concat_tables(
        [t.add_column(1, "level", column) for t, column in zip(tables, levels, strict=True)]
    )


def shared_rows(first: Run, second: Run) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the rows of the nodes that both runs know, in the first and in the second."""
    matches = NodeIds(second.nodes["id"]).find(NodeIds(first.nodes["id"]))
    rows = np.flatnonzero(matches >= 0)
    if not len(rows):
        raise InputError(
            f"the runs {first.path} and {second.path} have no node id in common; compare runs of "
            f"the same or of overlapping graphs"
        )
    return rows, matches[rows]


def _codes(run: Run, level: int) -> npt.NDArray[np.int64]:
    return np.asarray(run.nodes[f"group_{level}"].to_numpy(), dtype=np.int64)


def _names(run: Run, level: int) -> list[str]:
    return list(run.hierarchy.names[level - 1])
