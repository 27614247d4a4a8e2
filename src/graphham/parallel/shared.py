"""Arrays that all processes of one machine see, in memory without a name that goes with them."""

from __future__ import annotations

import contextlib
import itertools
import math
import mmap
import os
from pathlib import Path

import torch
from torch import Tensor

from graphham.parallel.ranks import Ranks

# Per reader the table rows and their gradients, in the order of shards.
Sent = list[list[tuple[Tensor, Tensor]]]


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
    number = _new_memory(count) if ranks.is_first else None
    try:
        path = ranks.tell(None if number is None else f"/proc/{os.getpid()}/fd/{number}")
        if path is None:
            return None
        held: mmap.mmap | None = None
        with contextlib.suppress(OSError, ValueError), Path(path).open("r+b") as file:
            held = mmap.mmap(file.fileno(), max(count, 1))
        everyone = all(ranks.collect(held is not None))
    finally:
        if number is not None:
            os.close(number)
    if held is None or not everyone:
        return None
    return torch.frombuffer(held, dtype=torch.float32, count=count // 4).view(shape)


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
    """What processes of one machine lay out for each other: rows of a table and their gradients.

    Each has a box of its own, in which the entries for one reader follow those for another.

    Args:
        ranks: The processes.
        width: Width of a gradient.
    """

    def __init__(self, ranks: Ranks, width: int) -> None:
        self.ranks, self.width = ranks, width
        self._capacity = 0
        # ``(sender, reader)`` how many entries there are.
        sizes = shared_tensor(ranks, ranks.count, 2 * ranks.count)
        self._sizes = None if sizes is None else sizes.view(torch.int64)
        self._rows: Tensor | None = None
        self._grads: Tensor | None = None

    def lay_out(self, sent: Sent) -> None:
        """Put everything for the others into the own box, as far as there is room."""
        if self._sizes is None:
            return
        me = self.ranks.rank
        parts = [[] if reader == me else held for reader, held in enumerate(sent)]
        sizes = [sum(len(rows) for rows, _ in held) for held in parts]
        self._sizes[me] = torch.tensor(sizes)
        if self._rows is None or self._grads is None or sum(sizes) > self._capacity:
            return
        place = 0
        for rows, grads in itertools.chain.from_iterable(parts):
            self._rows[me, place : place + len(rows)] = rows
            self._grads[me, place : place + len(rows)] = grads
            place += len(rows)

    def pick_up(self, sent: Sent) -> list[tuple[Tensor, Tensor]] | None:
        """Return what all have laid out for this process, in their order, its own included.

        ``None``, on all processes, when there is no memory for the boxes.

        Args:
            sent: What this process laid out; every process has done so.
        """
        if self._sizes is None:
            return None
        sizes = self._sizes.clone()
        largest = int(sizes.sum(1).max())
        if largest > self._capacity:
            self._make(largest * 5 // 4)  # a little more, or the next step would be back here
            self.lay_out(sent)
            self.ranks.wait()
        if self._rows is None or self._grads is None:
            self._sizes = None
            return None
        me = self.ranks.rank
        found: list[tuple[Tensor, Tensor]] = []
        for rank in range(self.ranks.count):
            if rank == me:
                found += sent[me]
                continue
            first = int(sizes[rank, :me].sum())
            entries = slice(first, first + int(sizes[rank, me]))
            found.append((self._rows[rank, entries], self._grads[rank, entries]))
        return found

    def _make(self, capacity: int) -> None:
        count = self.ranks.count
        self._rows = self._grads = None  # the old boxes need not fit beside the new ones
        rows = shared_tensor(self.ranks, count, 2 * capacity)
        self._rows = None if rows is None else rows.view(torch.int64)
        self._grads = shared_tensor(self.ranks, count, capacity, self.width)
        self._capacity = capacity
