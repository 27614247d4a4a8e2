"""Write files whole or not at all: a reader, or a crash, never meets half a file.

What is being written has a temporary name and a lock that the system lets go of when the program
ends, however it ends. The next program that writes to the same place removes what nobody holds.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from graphham.errors import InputError
from graphham.system.disk_room import naming_full_disk

fcntl: Any = None  # absent on Windows, where files of killed programs stay until removed
with contextlib.suppress(ImportError):
    import fcntl

_EXPORT = ".export-"
_TEMPORARY = ".tmp"
# A temporary file has another name until it is locked, so that nobody can take it for abandoned.
_EARLY = ".graphham-early-"
_EARLY_SECONDS = 60.0


def sync(path: Path) -> None:
    """Ask the system to bring a file or folder to disk before going on."""
    is_folder = path.is_dir()
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError:
        if is_folder:  # Windows cannot open folders; its renames are still whole
            return
        raise
    try:
        os.fsync(handle)
    except OSError:  # some file systems cannot sync a folder either
        if not is_folder:
            raise
    finally:
        os.close(handle)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside ``path``; put it in place of ``path`` if the block succeeds."""
    remove_abandoned(path.parent, f".{path.name}.")
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_TEMPORARY}")
    with _claimed(temporary):
        # Some writers make files that only their owner may read; ours have the umask's mode.
        mode = temporary.stat().st_mode
        yield temporary
        temporary.chmod(mode)
        sync(temporary)
        temporary.replace(path)
    sync(path.parent)


@contextlib.contextmanager
def _claimed(temporary: Path) -> Iterator[None]:
    """Make an empty file that is known as ours while the block runs, and is gone afterwards."""
    early = temporary.with_name(f"{_EARLY}{secrets.token_hex(8)}")
    handle = os.open(early, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        if fcntl is not None:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        early.rename(temporary)
        yield
    finally:
        early.unlink(missing_ok=True)
        temporary.unlink(missing_ok=True)
        os.close(handle)


def remove_abandoned(folder: Path, prefix: str) -> None:
    """Remove temporary files whose program is gone.

    Args:
        folder: Where to look.
        prefix: How their names begin.
    """
    if fcntl is None:
        return
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        for entry in found:
            is_early = entry.name.startswith(_EARLY)
            is_ours = entry.name.startswith(prefix) and entry.name.endswith(_TEMPORARY)
            if (is_early or is_ours) and entry.is_file(follow_symlinks=False):
                _remove_unless_held(Path(entry.path), is_early)


def _remove_unless_held(path: Path, is_early: bool) -> None:
    with contextlib.suppress(OSError):
        if is_early and time.time() - path.stat().st_mtime < _EARLY_SECONDS:
            return
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


@contextlib.contextmanager
def creating(path: Path) -> Iterator[Path]:
    """Give a temporary path beside ``path``; publish it if the block succeeds, never over a file.

    Raises:
        InputError: If ``path`` exists, before or by the end of the block.
    """
    refusal = InputError(f"{path} exists already; give another file name or remove it first")
    if path.exists() or path.is_symlink():
        raise refusal
    if not path.name:
        raise InputError(f"{str(path)!r} is not a file name; say where to write")
    temporary = path.with_name(f"{_EXPORT}{secrets.token_hex(6)}{_TEMPORARY}")
    with contextlib.ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            remove_abandoned(path.parent, _EXPORT)
            stack.enter_context(_claimed(temporary))
        except OSError as error:
            reason = f"cannot write {path}: {error.strerror}; choose another place"
            raise InputError(reason) from error
        advice = "nothing was kept, so make room or choose another place"
        stack.enter_context(naming_full_disk(path, None, advice))
        yield temporary
        sync(temporary)
        temporary.chmod(0o644)
        try:
            os.link(temporary, path)  # unlike a rename, a link refuses to replace a file
        except FileExistsError:
            raise refusal from None
        except OSError:  # no hard links on this file system
            if path.exists():
                raise refusal from None
            temporary.replace(path)
    sync(path.parent)


def write_bytes(path: Path, data: bytes) -> None:
    """Replace the content of ``path`` in one step."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def write_json(path: Path, value: Any) -> None:
    """Replace ``path`` by ``value`` as strict, readable JSON."""
    text = json.dumps(plain(value), indent=1, ensure_ascii=False, allow_nan=False)
    # A lone surrogate cannot be written as UTF-8; \ud8xx escapes keep the file readable.
    write_bytes(path, (text + "\n").encode("utf-8", errors="backslashreplace"))


def plain(value: Any) -> Any:
    """Turn numpy values, paths and tuples into what JSON and TOML know; NaN becomes ``None``."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # a torch tensor, without importing torch here
        return plain(value.tolist())
    raise TypeError(f"cannot write {type(value).__name__} value {value!r} as JSON or TOML")


def without_none(value: Any) -> Any:
    """Drop every entry whose value is ``None``, at any depth: TOML has no such value."""
    if isinstance(value, dict):
        return {k: without_none(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [without_none(v) for v in value if v is not None]
    return value


def remove_folder(path: Path) -> None:
    """Remove a folder of ours and everything in it, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)
