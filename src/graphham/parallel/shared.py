"""Arrays that all processes of one machine see, in memory that no file name keeps alive."""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from pathlib import Path

import torch
from torch import Tensor

from graphham.parallel.ranks import Ranks

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
