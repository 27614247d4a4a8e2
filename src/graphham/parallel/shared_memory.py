"""Arrays that all processes of one machine see, in memory without a name that goes with them."""

from __future__ import annotations

import contextlib
import math
import mmap
import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from graphham.kernels.skipgram_loss import RowPairs
from graphham.parallel.ranks import Ranks

_LARGE = 1 << 21
_COLLAPSE = 25  # MADV_COLLAPSE of Linux 6.1, which Python has no name for yet


def shared_tensor(ranks: Ranks, *shape: int) -> Tensor | None:
    """Return one float32 array of zeros that every process writes and reads, or ``None``.

    Every process calls this. ``None``, on all of them, where processes are on several machines or
    the system has no such memory.
    """
    if not ranks.one_host:
        return None
    count = 4 * math.prod(shape)
    # The first process makes memory without a name and the others open it through the first: it
    # goes with the last process, whatever happens to any of them.
    number = _new_memory(count + 2 * _LARGE) if ranks.is_first else None
    try:
        path = ranks.tell(None if number is None else f"/proc/{os.getpid()}/fd/{number}")
        if path is None:
            return None
        mapping: tuple[mmap.mmap, int] | None = None
        with contextlib.suppress(OSError, ValueError), Path(path).open("r+b") as file:
            mapping = _mapped(file.fileno(), count + _LARGE)
            if ranks.is_first:
                _ask_for_large_pages(*mapping, count)
        everyone = all(ranks.collect(mapping is not None))
    finally:
        if number is not None:
            os.close(number)
    if mapping is None or not everyone:
        return None
    memory, start = mapping
    if not count:
        return torch.empty(shape)
    found = torch.frombuffer(memory, dtype=torch.float32, count=count // 4, offset=start)
    return found.view(shape)


def _mapped(number: int, size: int) -> tuple[mmap.mmap, int]:
    """Map a file in memory; return it and where in it the array begins.

    The array begins at the file's second large page. Look-ups all over a table find their way three
    times faster by large pages, which the system gives where addresses in memory and in the file
    agree. Where it puts a mapping cannot be asked for, but it puts the next one there again.
    """
    memory = mmap.mmap(number, size)
    offset = _address(memory) % _LARGE
    memory.close()
    memory = mmap.mmap(number, size, offset=offset)
    return memory, _LARGE - offset


def _address(memory: mmap.mmap) -> int:
    return np.frombuffer(memory, dtype=np.uint8).ctypes.data


def _ask_for_large_pages(memory: mmap.mmap, start: int, count: int) -> None:
    """Have whole large pages behind an array, where the system can; nothing changes otherwise."""
    whole = count // _LARGE * _LARGE
    if whole and (_address(memory) + start) % _LARGE == 0:
        for place in range(start, start + whole, _LARGE):
            memory[place] = 0  # what holds nothing yet is left alone
        with contextlib.suppress(OSError):
            memory.madvise(_COLLAPSE, start, whole)


def _new_memory(size: int) -> int | None:
    """Return a file in memory of this size, if the system has such files (Linux has)."""
    if not hasattr(os, "memfd_create"):
        return None
    try:
        number = os.memfd_create("graphham")
        os.ftruncate(number, max(size, 1))
    except OSError:
        return None
    return number


class Outboxes:
    """What processes of one machine lay out for each other: gradients of the rows of a table.

    Each has a box of its own, in which the pairs for one reader follow those for another.

    Args:
        ranks: The processes.
        width: Width of a row.
    """

    def __init__(self, ranks: Ranks, width: int) -> None:
        self.ranks, self.width = ranks, width
        # Pairs and targets that fit into a box.
        self._room = (0, 0)
        # ``(pairs or targets, sender, reader)`` how many there are.
        sizes = shared_tensor(ranks, 2, ranks.count, 2 * ranks.count)
        self._sizes = None if sizes is None else sizes.view(torch.int64)
        self._boxes: tuple[Tensor, Tensor] | None = None

    def lay_out(self, sent: list[RowPairs]) -> None:
        """Put everything for the others into the own box, as far as there is room."""
        if self._sizes is None:
            return
        me = self.ranks.rank
        for reader, pairs_to in enumerate(sent):
            self._sizes[0, me, reader] = 0 if reader == me else len(pairs_to.rows)
            self._sizes[1, me, reader] = 0 if reader == me else len(pairs_to.targets)
        if self._boxes is None or not self._fits(self._sizes[:, me : me + 1]):
            return
        pairs, vectors = (box[me] for box in self._boxes)
        for reader, pairs_to in enumerate(sent):
            if reader != me:
                own, seen = self._entries(self._sizes, me, reader)
                pairs[own] = pairs_to.packed()
                vectors[seen] = pairs_to.targets

    def _fits(self, sizes: Tensor) -> bool:
        most = sizes.sum(2).amax(1).tolist()
        return bool(most[0] <= self._room[0] and most[1] <= self._room[1])

    def _entries(self, sizes: Tensor, sender: int, reader: int) -> tuple[slice, slice]:
        """Return where in a sender's box a reader's pairs and targets are."""
        ends = sizes[:, sender].cumsum(1)[:, reader].tolist()
        counts = sizes[:, sender, reader].tolist()
        pairs, targets = (slice(end - count, end) for end, count in zip(ends, counts, strict=True))
        return pairs, targets

    def pick_up(self, sent: list[RowPairs]) -> RowPairs | None:
        """Return what all have laid out for this process, in their order, its own included.

        ``None``, on all processes, when there is no memory for the boxes.

        Args:
            sent: What this process laid out; every process has done so.
        """
        if self._sizes is None:
            return None
        sizes = self._sizes.clone()
        if self._boxes is None or not self._fits(sizes):
            # A little more than asked for, or the next step would be back here.
            pairs, targets = (5 * most // 4 for most in sizes.sum(2).amax(1).tolist())
            self._make(pairs, targets)
            self.lay_out(sent)
            self.ranks.wait()
        if self._boxes is None:
            self._sizes = None
            return None
        me = self.ranks.rank
        found: list[RowPairs] = []
        for rank in range(self.ranks.count):
            if rank == me:
                found.append(sent[me])
                continue
            entries, seen = self._entries(sizes, rank, me)
            box, vectors = (box[rank] for box in self._boxes)
            found.append(RowPairs.unpacked(box[entries], vectors[seen]))
        return RowPairs.joined(found)

    def _make(self, pairs: int, targets: int) -> None:
        count = self.ranks.count
        room = max(pairs, self._room[0]), max(targets, self._room[1])
        self._boxes = None  # the old boxes need not fit beside the new ones
        boxes = shared_tensor(self.ranks, count, room[0], 4)
        vectors = shared_tensor(self.ranks, count, room[1], self.width)
        if boxes is not None and vectors is not None:
            self._boxes, self._room = (boxes.view(torch.int64), vectors), room
