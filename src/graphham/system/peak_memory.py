"""How much memory this process has taken, and how much the machine has."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from pathlib import Path
from typing import Any

resource: Any = None  # absent on Windows
with contextlib.suppress(ImportError):
    import resource


def peak_memory() -> int:
    """Return the largest resident size of this process so far, in bytes; 0 where nobody knows."""
    if resource is not None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return int(peak if sys.platform == "darwin" else peak * 1024)
    if sys.platform == "win32":
        return _windows_peak()
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/status").read_text("ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def machine_memory() -> int | None:
    """Return the memory of the machine in bytes, or ``None`` where nobody says."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _windows_peak() -> int:
    """Ask Windows: the third field of PROCESS_MEMORY_COUNTERS, after two numbers of 32 bits."""
    with contextlib.suppress(AttributeError, OSError):
        counters = (ctypes.c_size_t * 9)()
        kernel: Any = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined,unused-ignore]
        kernel.GetCurrentProcess.restype = ctypes.c_void_p
        process = ctypes.c_void_p(kernel.GetCurrentProcess())
        if kernel.K32GetProcessMemoryInfo(process, counters, ctypes.sizeof(counters)):
            return int(counters[1])
    return 0
