"""Hold a file for one process, whatever the system calls that."""

from __future__ import annotations

import contextlib
from typing import Any

fcntl: Any = None  # absent on Windows
with contextlib.suppress(ImportError):
    import fcntl
msvcrt: Any = None  # absent everywhere else
with contextlib.suppress(ImportError):
    import msvcrt


def try_lock(handle: int) -> bool:
    """Lock an open file; return whether we hold it. Where no system can lock, everyone does."""
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        elif msvcrt is not None:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    except (BlockingIOError, PermissionError):
        return False
    return True
