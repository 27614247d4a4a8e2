"""The nearest nodes of many nodes at once, by an index of their vectors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from graphham.errors import InputError
from graphham.readout.neighbors import CellSearch, unit_rows
from graphham.results.result import FitResult

if TYPE_CHECKING:
    import pyarrow as pa

# Up to so many nodes all are compared with all, which is exact.
_FEW_NODES = 10_000


class NeighborIndex:
    """Finds the nodes most like each of many, by the cosine of their vectors.

    Up to 10,000 nodes answers are exact. Beyond, vectors are cut into cells and a question looks
    into the cells around its own: a few of the ten nearest may be missed, none is wrong in its
    similarity. One question has an exact answer of its own, ``model.neighbors``.

    Args:
        fitted: A fitted model, or what it found (``model.result_``).
        seed: Decides the cells.
    """

    def __init__(self, fitted: Any, seed: int = 0) -> None:
        found = getattr(fitted, "result_", fitted)
        if not isinstance(found, FitResult):
            raise InputError(
                f"an index is made of a fitted model, not of {type(fitted).__name__}; fit or load "
                f"one first"
            )
        self.ids = found.ids
        few = len(found.ids) <= _FEW_NODES
        self._search = CellSearch(unit_rows(found.embedding), seed, cells=1 if few else None)

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.ids)

    def query(self, nodes: Iterable[int | str] | None = None, count: int = 10) -> pa.Table:
        """Return the nearest nodes of some or of all.

        Args:
            nodes: The user's own ids; all when not given.
            count: How many of each.

        Returns:
            ``id`` (who asks), ``rank`` from 1, ``neighbor``, ``similarity``; the nearest first.
        """
        import pyarrow as pa

        if count < 1:
            raise InputError(f"count is {count}; ask for at least one node")
        if nodes is None:
            asked = np.arange(len(self))
        else:
            asked = np.array([self.ids.row(node) for node in nodes], dtype=np.int64)
        count = min(count, len(self) - 1)
        rows, away = self._search.query(self._search.points[asked], count + 1)
        # The one who asks is among the answers, or equals so many others that it is not.
        others = rows != asked[:, None]
        others[others.all(1), -1] = False
        near = rows[others].reshape(len(asked), count)
        # Unit vectors: their squared distance is 2 - 2 cosines.
        similarity = 1 - away[others].reshape(near.shape) / 2
        return pa.table(
            {
                "id": self.ids.take(np.repeat(asked, count)).to_arrow(),
                "rank": np.tile(np.arange(1, count + 1, dtype=np.int32), len(asked)),
                "neighbor": self.ids.take(near.ravel()).to_arrow(),
                "similarity": similarity.ravel(),
            }
        )
