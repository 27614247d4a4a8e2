"""Some nodes of a graph, as scikit-learn takes some rows of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from graphham.graph.rows import checked_rows


class NodeRows:
    """Nodes of a graph that are to be learned from, or answered for, with the whole graph around.

    ``graph[rows]`` makes one. A fit to it sees every node and link but only these nodes' labels,
    and ``transform`` and ``predict`` answer for these nodes alone. So cross-validation, which takes
    rows of whatever it is given, works on a graph.

    Args:
        graph: The graph.
        rows: ``(count,)`` its rows, or a mask over its nodes.
    """

    def __init__(self, graph: Any, rows: Any) -> None:
        self.graph = graph
        self.rows: npt.NDArray[np.int64] = checked_rows(rows, graph.num_nodes)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of nodes and of features."""
        return len(self.rows), int(self.graph.num_features)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, chosen: Any) -> NodeRows:
        return NodeRows(self.graph, self.rows[_first_axis(chosen)])

    def __repr__(self) -> str:
        return f"NodeRows({len(self.rows):,} of {self.graph!r})"


def rows_of(graph: Any, chosen: Any) -> NodeRows:
    """Return ``graph[chosen]``."""
    every = np.arange(graph.num_nodes, dtype=np.int64)
    return NodeRows(graph, every[_first_axis(chosen)])


def _first_axis(chosen: Any) -> Any:
    """Return what is chosen along the nodes, always as a list, mask or slice."""
    rows = chosen[0] if isinstance(chosen, tuple) else chosen  # x[rows, ...] is x[rows]
    if isinstance(rows, slice):
        return rows
    found = np.atleast_1d(np.asarray(rows))
    return found.astype(np.int64) if found.size == 0 else found
