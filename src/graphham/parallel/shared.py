"""Arrays that all processes of one machine see, in memory that no file name keeps alive."""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import tempfile
from pathlib import Path

import torch
from torch import Tensor

from graphham.parallel.ranks import Ranks

# Per reader the table rows and their gradients, in the order of shards.
Sent = list[list[tuple[Tensor, Tensor]]]
# Linux keeps what is here in memory; elsewhere processes exchange rows instead.
_MEMORY = Path("/dev/shm")


def shared_tensor(ranks: Ranks, *shape: int) -> Tensor | None:
    """Return one float32 array of zeros that every process writes and reads, or ``None``.

    Every process calls this. ``None``, on all of them, where processes are on several machines or
    the machine has no room for it: docker, for one, gives 64 MiB unless told otherwise.
    """
    if not ranks.one_host:
        return None
    count = 4
    for size in shape:
        count *= size
    # The first process makes the file, all open it, the first removes its name: whatever happens
    # after that, the memory goes with the last process.
    path = ranks.tell(_reserve(count) if ranks.is_first else None)
    if path is None:
        return None
    held: mmap.mmap | None = None
    with contextlib.suppress(OSError, ValueError), Path(path).open("r+b") as file:
        held = mmap.mmap(file.fileno(), count)
    everyone = all(ranks.collect(held is not None))
    if ranks.is_first:
        Path(path).unlink(missing_ok=True)
    if held is None or not everyone:
        return None
    return torch.frombuffer(held, dtype=torch.float32).view(shape)


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
        # ``(sender, reader)`` how many entries there are; float32 counts to 16 million exactly.
        self._sizes = shared_tensor(ranks, ranks.count, ranks.count)
        self._rows: Tensor | None = None
        self._grads: Tensor | None = None

    def lay_out(self, sent: Sent) -> None:
        """Put everything for the others into the own box, as far as there is room."""
        if self._sizes is None:
            return
        me = self.ranks.rank
        parts = [[] if reader == me else held for reader, held in enumerate(sent)]
        sizes = [sum(len(rows) for rows, _ in held) for held in parts]
        self._sizes[me] = torch.tensor(sizes, dtype=torch.float32)
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
        sizes = self._sizes.long()
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
        rows = shared_tensor(self.ranks, count, 2 * capacity)
        self._rows = None if rows is None else rows.view(torch.int64)
        self._grads = shared_tensor(self.ranks, count, capacity, self.width)
        self._capacity = capacity


def _reserve(size: int) -> str | None:
    """Make a file of this size in memory; a size that is only promised would end in a crash."""
    if not _MEMORY.is_dir() or not hasattr(os, "posix_fallocate"):
        return None
    try:
        number, path = tempfile.mkstemp(prefix="graphham-", dir=_MEMORY)
    except OSError:
        return None
    try:
        os.posix_fallocate(number, 0, max(size, 1))
    except OSError:
        Path(path).unlink(missing_ok=True)
        return None
    finally:
        os.close(number)
    return path
