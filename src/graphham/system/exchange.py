"""Swap two folders in one step, where the system can."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from pathlib import Path
from typing import Any

_AT_CWD = -100
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux and RENAME_SWAP of macOS


def exchange(first: Path, second: Path) -> bool:
    """Swap two paths, so that at no moment either is absent.

    Returns:
        Whether it was done; not every system and file system can.
    """
    with contextlib.suppress(OSError, AttributeError, ValueError):
        library: Any = ctypes.CDLL(None, use_errno=True)
        one, other = os.fsencode(first), os.fsencode(second)
        if sys.platform == "darwin":
            done = library.renamex_np(one, other, ctypes.c_uint(_EXCHANGE))
        else:
            done = library.renameat2(_AT_CWD, one, _AT_CWD, other, ctypes.c_uint(_EXCHANGE))
        return bool(done == 0)
    return False
