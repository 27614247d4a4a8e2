"""Say in one sentence that a disk is full, how much is needed, and what to do about it."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from graphham.errors import InputError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# Libraries in other languages tell the system's error in words only.
_WORDS = re.compile(
    r"(?i)no space left|quota exceeded|file too large|os error (?:28|122|27)\b"
    r"|\d requested and \d+ written"  # NumPy, which drops the number
)


def is_full(error: BaseException) -> bool:
    """Whether an error of any library means that a disk, or one's share of it, is full."""
    if isinstance(error, InputError):
        return False
    return getattr(error, "errno", None) in _FULL or bool(_WORDS.search(str(error)))


def reason_of(error: OSError) -> str:
    """Return what the system said, whether or not the error carries its number."""
    return error.strerror or " ".join(str(error).split())[:200] or type(error).__name__


@contextlib.contextmanager
def naming_full_disk(folder: Path, needed: int | None, advice: str) -> Iterator[None]:
    """Turn a full disk into an :class:`InputError`; other errors pass.

    Args:
        folder: Where something is written.
        needed: About how many bytes it takes, where that is known.
        advice: What to do once there is room.
    """
    try:
        yield
    except Exception as error:
        if not is_full(error):
            raise
        wanted = "more is needed" if needed is None else f"about {needed:,} bytes are needed"
        raise InputError(
            f"no room for {folder} ({said_by(error)}): {wanted}{_free(folder)}; {advice}"
        ) from error


def said_by(error: BaseException) -> str:
    """Return what the system said, without what a library put around it."""
    code = getattr(error, "errno", None)
    return os.strerror(code if code in _FULL else errno.ENOSPC)


def _free(folder: Path) -> str:
    for place in (folder, *folder.absolute().parents):
        with contextlib.suppress(OSError):
            return f" and {shutil.disk_usage(place).free:,} are free"
    return ""
