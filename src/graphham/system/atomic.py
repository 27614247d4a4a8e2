"""Write files whole or not at all: a reader, or a crash, never meets half a file."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from graphham.errors import InputError


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
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        # Some writers make files that only their owner may read; ours have the umask's mode.
        temporary.touch()
        mode = temporary.stat().st_mode
        yield temporary
        temporary.chmod(mode)
        sync(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


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
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".export-", suffix=".tmp", dir=path.parent)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; choose another place") from error
    os.close(handle)
    temporary = Path(name)
    try:
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
    finally:
        temporary.unlink(missing_ok=True)
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
