"""Check rows that a caller gives: whole numbers of the graph, or a mask over its nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError


def checked_rows(given: Any, num_nodes: int, what: str = "rows") -> npt.NDArray[np.int64]:
    """Return rows in the order given, or those of a mask over all nodes; refuse all else.

    Args:
        given: ``(count,)`` whole numbers, or a ``(num_nodes,)`` mask.
        num_nodes: Number of nodes of the graph.
        what: What to call the rows in a refusal.
    """
    rows = np.asarray(given)
    if rows.dtype == bool and rows.shape == (num_nodes,):
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise InputError(
            f"{what} must be a list of whole numbers or a mask of {num_nodes:,} nodes, "
            f"got {rows.dtype} of shape {rows.shape}"
        )
    if rows.size and not 0 <= int(rows.min()) <= int(rows.max()) < num_nodes:
        worst = int(rows.min()) if int(rows.min()) < 0 else int(rows.max())
        raise InputError(
            f"row {worst} of {what} lies outside 0..{num_nodes - 1}; give rows of the graph"
        )
    return rows.astype(np.int64)
