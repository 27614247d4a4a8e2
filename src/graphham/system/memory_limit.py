"""How much more memory this process may take, and what to say when that was not enough."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import re
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from graphham.errors import InputError, ShortMemoryError
from graphham.system.peak_memory import machine_memory, resource

_GIB = 1 << 30
_ROOT = Path("/")
# A limit of cgroup v1 that nobody set is about 2^63, rounded down to pages.
_NO_LIMIT = 1 << 60
# Libraries tell a failed allocation in words, each in its own; torch's is a plain RuntimeError.
_WORDS = re.compile(
    r"(?i)DefaultCPUAllocator|can't allocate memory|cannot allocate memory|out of memory"
    r"|unable to allocate|not enough memory|bad_alloc|malloc of size|can't start new thread"
    r"|failed to launch worker thread|failed to map segment"
)
_BYTES = re.compile(r"(?i)allocate (\d+) bytes|malloc of size (\d+)")
_UNITS = re.compile(r"(?i)allocate ([\d.]+) ([KMGTPE]?)i?B\b")
ADVICE = (
    "free some or take a larger machine; a fit takes less with --set train.batch=sampled or a "
    "smaller --dim, and a large file with 'graphham ingest --memory-gib'"
)


def available_memory(root: Path = _ROOT) -> int | None:
    """Return how many bytes this process can still take, or ``None`` where nobody says.

    That is the least of what the machine has free, what every control group around the process
    leaves (files it has cached can be dropped and count as free), and what its own limits leave.

    Args:
        root: Where ``proc`` and ``sys`` are; another place for tests.
    """
    rooms = [_machine_room(root), *_group_rooms(root), *_own_rooms(root)]
    known = [room for room in rooms if room is not None]
    return max(0, min(known)) if known else None


def is_short(error: BaseException) -> bool:
    """Whether an error of any library means that memory could not be had."""
    if isinstance(error, InputError):
        return False
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    kind = type(error)
    if kind.__name__ == "OutOfMemoryError":  # torch's, of devices; torch may not be loaded
        return True
    may_be = isinstance(error, RuntimeError | ImportError | OSError | SystemError)
    may_be = may_be or kind.__module__.startswith("pyarrow")
    return may_be and bool(_WORDS.search(str(error)))


def explain_short(
    error: BaseException, needed: int | None = None, advice: str = ADVICE, free: int | None = None
) -> str:
    """Return one sentence with the bytes that were needed and those that there are.

    Args:
        error: An error for which :func:`is_short` holds.
        needed: Estimate of the whole, where there is one.
        advice: What to do.
        free: What was free before; asked for now when not given.
    """
    asked = _asked_for(error)
    parts = []
    if asked is not None:
        parts.append(f"{_size(asked)} more were asked for at once")
    if needed is not None:
        parts.append(f"about {_size(needed)} are needed in all")
    free = available_memory() if free is None else free
    if free is not None:
        parts.append(f"{_size(free)} are free")
    numbers = f" ({', '.join(parts)})" if parts else ""
    return f"the work does not fit into memory{numbers}; {advice}"


@contextlib.contextmanager
def naming_short_memory(needed: int | None = None, advice: str = ADVICE) -> Iterator[None]:
    """Turn an allocation that failed into a :class:`ShortMemoryError`; other errors pass.

    Args:
        needed: Estimate of the bytes of the whole, where there is one.
        advice: What to do.
    """
    free = available_memory()
    try:
        yield
    except Exception as error:
        if not is_short(error):
            raise
        raise ShortMemoryError(explain_short(error, needed, advice, free)) from error


def _size(num_bytes: int) -> str:
    return f"{num_bytes / _GIB:.2f} GiB" if num_bytes >= _GIB // 100 else f"{num_bytes:,} bytes"


def _asked_for(error: BaseException) -> int | None:
    """Return the size of the allocation that failed, where the message tells it."""
    text = str(error)
    if found := _BYTES.search(text):
        return int(found[1] or found[2])
    if found := _UNITS.search(text):
        with contextlib.suppress(ValueError):
            return int(float(found[1]) * 1024 ** " KMGTPE".index(found[2].upper() or " "))
    return None


def _number(path: Path) -> int | None:
    """Return the number in a file of the system; ``None`` for no file or no limit."""
    try:
        value = int(path.read_text("ascii"))
    except (OSError, ValueError):  # "max" is no number
        return None
    return value if 0 <= value < _NO_LIMIT else None


def _machine_room(root: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in (root / "proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    if root != _ROOT:
        return None
    return _windows_room() if sys.platform == "win32" else machine_memory()


def _group_rooms(root: Path) -> Iterator[int | None]:
    """Yield what every memory control group above the process leaves, of both versions."""
    try:
        lines = (root / "proc/self/cgroup").read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, place = rest.partition(":")
        if controllers == "":
            folders = [root / "sys/fs/cgroup", root / "sys/fs/cgroup/unified"]
            names = ("memory.max", "memory.current", ("inactive_file", "active_file"))
        elif "memory" in controllers.split(","):
            folders = [root / "sys/fs/cgroup/memory"]
            names = (
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                ("total_inactive_file", "total_active_file"),
            )
        else:
            continue
        for base in folders:
            yield from (_group_room(f, *names) for f in _upwards(base, place))


def _upwards(base: Path, place: str) -> Iterator[Path]:
    """Yield the folder of a group and of all groups around it.

    A container often sees its own group mounted at the top, whatever the name of the group says.
    """
    parts = [part for part in PurePosixPath(place).parts if part not in ("/", "..")]
    for depth in range(len(parts), -1, -1):
        yield base.joinpath(*parts[:depth])


def _group_room(folder: Path, most: str, used: str, cached: tuple[str, ...]) -> int | None:
    limit, taken = _number(folder / most), _number(folder / used)
    if limit is None or taken is None:
        return None
    files = 0
    with contextlib.suppress(OSError, ValueError):
        for line in (folder / "memory.stat").read_text("ascii").splitlines():
            name, _, value = line.partition(" ")
            files += int(value) if name in cached else 0
    return limit - max(0, taken - files)


def _own_rooms(root: Path) -> Iterator[int | None]:
    """Yield what the limits of the process itself leave (``ulimit -v`` and ``-d``)."""
    if resource is None:
        return
    used = [0] * 7
    with contextlib.suppress(OSError, ValueError):
        fields = (root / "proc/self/statm").read_text("ascii").split()
        used = [int(pages) * resource.getpagesize() for pages in fields]
    for name, place in (("RLIMIT_AS", 0), ("RLIMIT_DATA", 5)):
        with contextlib.suppress(AttributeError, OSError, ValueError, IndexError):
            most = resource.getrlimit(getattr(resource, name))[0]
            if most != resource.RLIM_INFINITY:
                yield most - used[place]


def _windows_room() -> int | None:
    """Ask Windows: the third number of MEMORYSTATUSEX, after its length and the load."""
    with contextlib.suppress(AttributeError, OSError):
        status = (ctypes.c_uint64 * 8)(ctypes.sizeof(ctypes.c_uint64) * 8)
        kernel: Any = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined,unused-ignore]
        if kernel.GlobalMemoryStatusEx(status):
            return int(status[2])
    return machine_memory()
