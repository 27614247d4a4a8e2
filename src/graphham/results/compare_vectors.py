"""Compare two runs by their vectors, where one of them has no groups to match."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphham.readout.neighbors import all_nearest
from graphham.results.compare import shared_rows
from graphham.results.run_folder import Run

if TYPE_CHECKING:
    import pyarrow as pa

# Nearest nodes are found by comparing all pairs; more nodes than this are taken evenly spaced.
_MOST_NODES = 5_000


@dataclass(frozen=True, eq=False)
class VectorComparison:
    """How far two runs agree on who is near whom.

    Args:
        first: The first run.
        second: The second run.
        num_shared: Number of nodes that both runs know.
        rows_a: Rows, in the first run, of the shared nodes that were looked at.
        neighbors: How many nearest nodes of each were looked at.
        kept: Per such node the share of its nearest nodes in the first run that are among its
            nearest in the second; only nodes that were looked at count as near.
    """

    first: Run
    second: Run
    num_shared: int
    rows_a: npt.NDArray[np.int64]
    neighbors: int
    kept: npt.NDArray[np.float64]

    def moved_table(self) -> pa.Table:
        """Return one row per node, those whose neighbours changed most first."""
        import pyarrow as pa

        order = np.argsort(self.kept, kind="stable")
        rows = pa.array(self.rows_a[order])
        nodes = self.first.nodes
        columns: dict[str, Any] = {"id": nodes["id"].take(rows)}
        if "title" in nodes.column_names:
            columns["title"] = nodes["title"].take(rows)
        return pa.table({**columns, "neighbors_kept": pa.array(self.kept[order])})

    def lines(self) -> list[str]:
        """Return the comparison in a few readable lines."""
        only_a = len(self.first.nodes) - self.num_shared
        only_b = len(self.second.nodes) - self.num_shared
        groupless = [str(r.path) for r in (self.first, self.second) if not r.has_groups]
        chance = self.neighbors / max(len(self.rows_a) - 1, 1)
        return [
            f"{self.num_shared:,} nodes in both runs, {only_a:,} only in the first, {only_b:,} "
            f"only in the second",
            f"no groups to match: {' and '.join(groupless)} found none; compared by vectors",
            f"{self.kept.mean():.0%} of the {self.neighbors} nearest nodes are the same in both "
            f"({chance:.0%} by chance, {len(self.rows_a):,} nodes looked at)",
        ]


def compare_vectors(first: Run, second: Run, neighbors: int = 10) -> VectorComparison:
    """Compare the nearest nodes of each node in two runs.

    Args:
        first: A run.
        second: Another run.
        neighbors: How many nearest nodes to look at.
    """
    rows_a, rows_b = shared_rows(first, second)
    num_shared = len(rows_a)
    step = -(-num_shared // _MOST_NODES)
    rows_a, rows_b = rows_a[::step], rows_b[::step]
    before, _ = all_nearest(np.asarray(first.embedding[rows_a]), neighbors)
    after, _ = all_nearest(np.asarray(second.embedding[rows_b]), neighbors)
    count = before.shape[1]
    same = (before[:, :, None] == after[:, None, :]).any(2).sum(1)
    kept = same / count if count else np.ones(len(rows_a))
    return VectorComparison(first, second, num_shared, rows_a, count, kept)
