"""Large arrays that are lent and taken back, so that their memory is asked for only once."""

from __future__ import annotations

import weakref
from collections import deque

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


def aligned(count: int) -> Floats:
    """Return ``(count,)`` uninitialised numbers that begin at a cache line, as torch's do.

    Matrix products add up in another order from elsewhere, and a run must give the same bits again.
    Numpy asks the system for large pages, which torch does not.
    """
    raw = np.empty(count + 16, dtype=np.float32)
    start = -raw.ctypes.data % 64 // 4
    return raw[start : start + count]


class Buffers:
    """Lends large arrays and takes them back when their last reader is gone.

    A batch's features take tens of megabytes. Fresh memory of that size comes from the system page
    by page, each cleared first, which takes as long as filling it with features.

    Args:
        kept: How many arrays of about one size are kept for later.
    """

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._free: dict[int, deque[Floats]] = {}

    def take(self, rows: int, width: int) -> Floats:
        """Return an uninitialised ``(rows, width)`` array."""
        count = rows * width
        if not count:
            return np.empty((rows, width), dtype=np.float32)
        # Batches differ a little in size: lengths are rounded up by an eighth at most.
        step = 1 << max(count.bit_length() - 4, 0)
        length = -(-count // step) * step
        free = self._free.setdefault(length, deque(maxlen=self._kept))
        try:
            buffer = free.pop()
        except IndexError:
            buffer = aligned(length)
        # Numpy lets a view refer to the owner of the memory rather than to the array it was made
        # from. Behind a memoryview the array is the owner for all views, so it lives as long as
        # any of them, tensors included.
        lent = np.frombuffer(buffer.data.cast("B"), dtype=np.float32, count=count)
        weakref.finalize(lent, free.append, buffer).atexit = False
        return lent.reshape(rows, width)


# As many of a size as the step under way and the ones prepared ahead of it have in their hands.
LENT = Buffers(3)
