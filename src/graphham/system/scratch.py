"""A folder for work in progress beside the place where the result will be.

Killing the program leaves the folder behind; the next one that writes to the same place finds it,
sees that nobody holds its lock any more, and removes it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from graphham.errors import InputError
from graphham.system.atomic import remove_folder, sync
from graphham.system.exchange import exchange

fcntl: Any = None  # absent on Windows, where folders of killed programs stay until removed
with contextlib.suppress(ImportError):
    import fcntl

_LOCK = "lock"
_OLD = "replaced"
_EARLY_SECONDS = 60.0


@contextlib.contextmanager
def scratch_beside(place: Path) -> Iterator[Path]:
    """Give an empty folder on the same disk as ``place``, removed at the end of the block.

    Raises:
        InputError: The folder of ``place`` cannot be written to.
    """
    prefix = f".{place.name}.part-"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        for left in place.parent.glob(f"{_escaped(prefix)}*"):
            _remove_abandoned(left, place)
        with _one_maker(place.parent) as is_alone:
            for left in place.parent.glob(f"{_escaped(prefix)}*"):
                _remove_unlocked(left, is_alone)
            folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place.parent))
            try:
                lock = _lock(folder)
            except OSError:
                remove_folder(folder)
                raise
    except OSError as error:
        raise InputError(f"cannot write {place}: {error.strerror}; choose another place") from None
    try:
        yield folder
    finally:
        try:
            _empty(folder)
        finally:
            if lock is not None:
                lock.close()
        remove_folder(folder)


def publish(temporary: Path, place: Path) -> None:
    """Move a finished folder of a scratch folder to its place; what was there goes afterwards.

    Where the system can swap two folders, something stands at the place at every moment; elsewhere
    what was moved away by a killed program is brought back by the next that writes there.
    """
    old = temporary.with_name(_OLD)
    replaces = place.exists()
    if replaces and exchange(temporary, place):
        sync(place.parent)
        return
    if replaces:
        place.rename(old)
    try:
        temporary.rename(place)
    except OSError:
        if replaces:
            old.rename(place)
        raise
    sync(place.parent)


def _lock(folder: Path) -> IO[bytes] | None:
    if fcntl is None:
        return None
    # Under its final name the file is locked from the first moment, so nobody can take it first.
    early = folder / f"{_LOCK}.new"
    stream = early.open("wb")
    with contextlib.suppress(OSError):  # a file system without locks
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        early.rename(folder / _LOCK)
    return stream


@contextlib.contextmanager
def _one_maker(parent: Path) -> Iterator[bool]:
    """Let one program at a time make and lock its folder here; tells whether that is certain."""
    if fcntl is None:
        yield False
        return
    held = os.open(parent, os.O_RDONLY)
    try:
        is_alone = False
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(held, fcntl.LOCK_EX)
            is_alone = True
        yield is_alone
    finally:
        os.close(held)


def _remove_unlocked(folder: Path, is_alone: bool) -> None:
    """Remove a scratch folder whose program was killed before it could lock it.

    One that is being made right now looks the same, so without the lock of ``_one_maker`` a young
    folder stays.
    """
    if fcntl is None or not folder.is_dir():
        return
    with contextlib.suppress(OSError):  # gone meanwhile, or not ours
        names = [path.name for path in folder.iterdir()]
        if is_alone and names == [f"{_LOCK}.new"]:
            with (folder / names[0]).open("rb") as stream:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_old = time.time() - folder.stat().st_mtime > _EARLY_SECONDS
        if set(names) <= {f"{_LOCK}.new"} and (is_alone or is_old):
            remove_folder(folder)


def _empty(folder: Path) -> None:
    """Remove all but the lock, which goes last: without it nobody would dare to take the rest."""
    for path in folder.iterdir():
        if path.is_dir():
            remove_folder(path)
        elif path.name != _LOCK:
            path.unlink(missing_ok=True)


def _remove_abandoned(folder: Path, place: Path) -> None:
    """Remove a scratch folder whose program is gone; bring back what it had moved away."""
    if fcntl is None or not (folder / _LOCK).is_file():
        return
    try:
        with (folder / _LOCK).open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if (folder / _OLD).exists() and not place.exists():
                (folder / _OLD).rename(place)
            _empty(folder)
            remove_folder(folder)
    except OSError:  # held by a living program, or not ours
        return


def _escaped(prefix: str) -> str:
    """Make a name match only itself in a glob pattern."""
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in prefix)
