"""Dense features that stay on disk: scaled row by row when a batch asks for them.

A table of a few hundred megabytes is scaled once and kept. A larger one (or one in float16) is left
where it is, mapped from its store, and each gathered row is scaled on the way.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphham.system.buffers import LENT, Floats
from graphham.system.jit import Array, frozen, inlined, jit, prefetch

Moments = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
# Tables that take more than this as float32 stay where they are.
KEPT_BYTES = 256 << 20
_ROWS = 1 << 16
_AHEAD = 4
_FEW = 4096


@dataclass(frozen=True, eq=False)
class MappedFeatures:
    """A large dense feature table and how its rows are scaled.

    Args:
        raw: ``(num_nodes, num_features)`` table, usually mapped from a file.
        shift: ``(num_features,)`` subtracted first.
        factor: ``(num_features,)`` multiplied then.
        unit_rows: Whether rows are divided by their length at last.
        skips_blank: Whether raw rows of nothing but zeros were not measured and stay zero.
    """

    raw: npt.NDArray[Any]
    shift: Floats
    factor: Floats
    unit_rows: bool
    skips_blank: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return int(self.raw.shape[0]), int(self.raw.shape[1])

    def rows(self, selection: Any) -> Tensor:
        """Return the ``(len(selection), num_features)`` scaled rows."""
        chosen = frozen(selection, np.int64)
        if self.raw.dtype != np.float32:
            return self._scaled(self.raw[chosen])
        out = LENT.take(len(chosen), self.shape[1])
        _gather_scaled(frozen(self.raw), chosen, self.shift, self.factor, out)
        return self._finished(out)

    def span(self, first: int, last: int) -> Tensor:
        """Return the scaled rows ``first`` to ``last - 1``."""
        return self._scaled(self.raw[first:last])

    def spans(self) -> Iterator[Tensor]:
        """Yield all scaled rows, some tens of thousands at a time."""
        for first in range(0, len(self.raw), _ROWS):
            yield self.span(first, min(first + _ROWS, len(self.raw)))

    def matmul(self, weight: Tensor) -> Tensor:
        """Return ``(num_nodes, out)`` features times ``(num_features, out)`` weights."""
        out = torch.empty(len(self.raw), weight.shape[1])
        place = 0
        for part in self.spans():
            torch.mm(part, weight, out=out[place : place + len(part)])
            place += len(part)
        return out

    def to_tensor(self) -> Tensor:
        """Return the whole scaled table in memory."""
        return torch.cat(list(self.spans()))

    def gram(self) -> npt.NDArray[np.float64]:
        """Return the ``(num_features, num_features)`` products of all columns."""
        columns = self.shape[1]
        gram = np.zeros((columns, columns))
        for part in self.spans():
            values = part.numpy()
            gram += values.T @ values
        return gram

    def leading_directions(self, dim: int) -> Floats:
        """Return the ``(num_features, dim)`` leading right singular vectors, from the Gram matrix.

        One pass over the table; signs are fixed by the largest entry of each direction.
        """
        return _gram_directions(self.gram(), dim)

    def _scaled(self, part: npt.NDArray[Any]) -> Tensor:
        out = part.astype(np.float32)
        out -= self.shift
        out *= self.factor
        return self._finished(out)

    def _finished(self, out: Floats) -> Tensor:
        if self.skips_blank:
            clear_blank_rows(out, (np.zeros_like(self.shift) - self.shift) * self.factor)
        if self.unit_rows:
            out /= np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-12)
        return torch.from_numpy(out)


def clear_blank_rows(scaled: Floats, image: Floats) -> None:
    """Set rows to zero that were nothing but zeros before they were shifted and scaled.

    Nobody measured anything there; shifted, all of them would be alike, and far from the others.

    Args:
        scaled: ``(rows, num_features)``; changed in place.
        image: ``(num_features,)`` what became of zeros.
    """
    rows = np.flatnonzero(scaled[:, 0] == image[0])
    scaled[rows[(scaled[rows] == image).all(axis=1)]] = 0.0


def gather_rows(table: Tensor, selection: Any) -> Tensor:
    """Return the ``(len(selection), width)`` chosen rows of a table.

    Large tables are read with the next rows already on their way, which takes a fourth of the time.
    """
    plain = table.device.type != "cpu" or table.dtype != torch.float32 or table.dim() != 2
    if plain or not table.numel() or len(selection) < _FEW:
        return table[torch.tensor(selection, dtype=torch.long, device=table.device)]
    chosen = frozen(selection, np.int64)
    out = LENT.take(len(chosen), int(table.shape[1]))
    _gather(frozen(table.detach().numpy()), chosen, out)
    return torch.from_numpy(out)


def release(array: npt.NDArray[Any]) -> None:
    """Give the pages of a mapped file back to the system; they are read again when touched.

    Nothing happens for an array in memory, and where the system knows no such advice.
    """
    owner: Any = array
    while owner is not None and not isinstance(owner, mmap.mmap):
        owner = getattr(owner, "base", None)
    if owner is not None and hasattr(mmap, "MADV_DONTNEED"):
        owner.madvise(mmap.MADV_DONTNEED)


def trim_heap() -> None:
    """Give memory that was freed but kept for later back to the system, where libc can."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def column_moments(raw: npt.NDArray[Any], skips_blank: bool = False) -> tuple[Moments, int]:
    """Return mean and deviation of each column, and of how many rows.

    Args:
        raw: ``(num_nodes, num_features)`` table, read piece by piece and summed in float64.
        skips_blank: Leave out rows of nothing but zeros.
    """
    count, total = 0, np.zeros(raw.shape[1])
    for part in _measured(raw, skips_blank):
        count += len(part)
        total += part.astype(np.float64).sum(0)
    mean = total / max(count, 1)
    squares = np.zeros(raw.shape[1])
    for part in _measured(raw, skips_blank):
        squares += ((part - mean) ** 2).sum(0)
    return (mean, np.sqrt(squares / max(count, 1))), count


def _measured(raw: npt.NDArray[Any], skips_blank: bool) -> Iterator[npt.NDArray[Any]]:
    for first in range(0, len(raw), _ROWS):
        part = raw[first : first + _ROWS]
        yield part[(part != 0).any(axis=1)] if skips_blank else part


def _gram_directions(gram: npt.NDArray[np.float64], dim: int) -> Floats:
    """Return the ``(num_features, dim)`` leading directions behind a Gram matrix."""
    columns = len(gram)
    if columns <= dim:
        return np.eye(columns, dtype=np.float32)
    values, vectors = np.linalg.eigh(gram)
    lead = vectors[:, np.argsort(-values)[:dim]]
    top = lead[np.abs(lead).argmax(0), np.arange(dim)]
    return np.ascontiguousarray(lead * np.where(top < 0, -1.0, 1.0), dtype=np.float32)


@inlined
def _fetch_ahead(table: Array, chosen: Array, r: int, count: int, width: int) -> None:
    """Ask for the row that the loop over ``chosen`` reaches in a while."""
    if r + _AHEAD < count:
        base = chosen[r + _AHEAD] * width
        for line in range(0, width, 16):
            prefetch(table, base + line)
        prefetch(table, base + width - 1)


@jit
def _gather_scaled(raw: Array, chosen: Array, shift: Array, factor: Array, out: Array) -> None:
    count, width = out.shape
    for r in range(count):
        _fetch_ahead(raw, chosen, r, count, width)
        row = chosen[r]
        for d in range(width):
            out[r, d] = (raw[row, d] - shift[d]) * factor[d]


@jit
def _gather(table: Array, chosen: Array, out: Array) -> None:
    count, width = out.shape
    for r in range(count):
        _fetch_ahead(table, chosen, r, count, width)
        row = chosen[r]
        for d in range(width):
            out[r, d] = table[row, d]
