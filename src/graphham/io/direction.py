"""Whether edges look directed: a remark for those who read them the other way, never a refusal."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

# Fewer links prove nothing, and of more the sorting would be felt.
_FEWEST, MOST_ROWS = 50, 2_000_000
# Files of undirected graphs have each link once (none goes back) or twice (all do), whoever wrote
# them; a share well inside comes about only where each direction means something.
_LEAST_BACK, _MOST_BACK, _ALL_BACK = 0.05, 0.9, 0.99
_MOST_REPEATED = 0.01


def direction_remark(
    pairs: Iterable[npt.NDArray[np.integer]], num_nodes: int, directed: bool
) -> str | None:
    """Return a sentence where edges look unlike what they are read as, and ``None`` elsewhere.

    Args:
        pairs: ``(rows, 2)`` codes of the edges as they came, in pieces.
        num_nodes: Number of codes.
        directed: How they are read.
    """
    rows = np.concatenate([np.asarray(part, dtype=np.int64) for part in pairs])
    rows = rows[rows[:, 0] != rows[:, 1]]
    if len(rows) < _FEWEST:
        return None
    forward = np.unique(rows[:, 0] * num_nodes + rows[:, 1])
    low, high = np.divmod(forward, num_nodes)
    links = len(np.unique(np.minimum(low, high) * num_nodes + np.maximum(low, high)))
    back = len(forward) - links  # links that are there in both directions
    share = back / links
    if directed:
        if share < _ALL_BACK:
            return None
        return (
            f"{back:,} of {links:,} links are there in both directions, as in an undirected graph; "
            f"without --directed each is one edge"
        )
    # Links that are repeated in one direction are events, and say nothing about the other.
    is_repeated = len(rows) - len(forward) > _MOST_REPEATED * len(rows)
    if is_repeated or not _LEAST_BACK <= share <= _MOST_BACK:
        return None
    return (
        f"{back:,} of {links:,} links go both ways and the others one way, as in a directed graph; "
        f"they were read without direction, --directed keeps it"
    )
