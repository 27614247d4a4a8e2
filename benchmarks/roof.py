"""How fast this machine moves memory right now: the roof no gather-bound kernel gets above.

Two measurements, one thread each: the triad ``a = b + s * c`` over arrays far larger than the
caches (streamed bytes), and adding up rows of a table in random order with software prefetch
(gathered bytes). Both run as sides of the same interleaving as what they are compared with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.measure import Sample, Side, timed
from graphham.system.jit import Array, jit, prefetch

TRIAD, GATHER = "roof: triad", "roof: random rows"
# Large enough that neither array stays in a last-level cache of 32 MiB.
_TRIAD_FLOATS = 1 << 24
_AHEAD = 12


@dataclass(frozen=True)
class Roof:
    """Bandwidths measured in one run.

    Args:
        triad: Streamed bytes per second.
        gather: Bytes per second in rows read at random.
        row_bytes: Size of those rows.
        table_bytes: Size of the table they were read from.
    """

    triad: float
    gather: float
    row_bytes: int
    table_bytes: int

    def seconds(self, streamed: float, gathered: float) -> float:
        """Return the least time in which so many bytes can be moved."""
        return streamed / self.triad + gathered / self.gather


class RoofProbe:
    """The two micro-benchmarks as sides of an interleaving.

    Args:
        row_floats: Width of the gathered rows in float32.
        num_rows: Rows of the table; choose it as large as what the benchmark gathers from.
        reads: Rows read per run.
        triad_floats: Length of the streamed arrays.
    """

    def __init__(
        self,
        row_floats: int,
        num_rows: int,
        reads: int = 400_000,
        triad_floats: int = _TRIAD_FLOATS,
    ) -> None:
        rng = np.random.default_rng(0)
        self._table = rng.random((num_rows, row_floats), dtype=np.float32)
        self._order = rng.integers(0, num_rows, reads).astype(np.int32)
        self._out = np.zeros(row_floats, dtype=np.float32)
        self._a, self._b, self._c = (np.ones(triad_floats, dtype=np.float32) for _ in range(3))

    def sides(self) -> dict[str, Side]:
        """Return both probes by name."""
        return {
            TRIAD: timed(lambda: _triad(self._a, self._b, self._c), 0.05),
            GATHER: timed(lambda: _gather(self._table, self._order, self._out), 0.05),
        }

    def roof(self, samples: Mapping[str, Sequence[Sample]]) -> Roof:
        """Return the best bandwidths any round reached."""
        triad = min(s.cpu for s in samples[TRIAD])
        gather = min(s.cpu for s in samples[GATHER])
        return Roof(
            triad=3 * self._a.nbytes / triad,
            gather=len(self._order) * self._table[0].nbytes / gather,
            row_bytes=self._table[0].nbytes,
            table_bytes=self._table.nbytes,
        )


@jit
def _triad(a: Array, b: Array, c: Array) -> None:
    scale = np.float32(3.0)
    for i in range(len(a)):
        a[i] = b[i] + scale * c[i]


@jit
def _gather(table: Array, order: Array, out: Array) -> Any:
    """Add up rows in the given order; the sum keeps the reads from being optimised away."""
    width = table.shape[1]
    for d in range(width):
        out[d] = np.float32(0.0)
    for k in range(len(order)):
        if k + _AHEAD < len(order):
            base = np.int64(order[k + _AHEAD]) * width
            for line in range(0, width, 16):
                prefetch(table, base + line)
        row = order[k]
        for d in range(width):
            out[d] += table[row, d]
