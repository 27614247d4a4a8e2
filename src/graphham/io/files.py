"""Open a user's file: find out what it is, and refuse what cannot be read in one sentence."""

from __future__ import annotations

import gzip
import mmap
import os
import zlib
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from graphham.errors import InputError

Kind: TypeAlias = Literal["text", "parquet", "npz", "npy", "graphml"]
Raw: TypeAlias = "bytes | mmap.mmap"

_SUFFIXES: dict[str, Kind] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npz": "npz",
    ".npy": "npy",
    ".graphml": "graphml",
}
_FORMATS = "CSV, TSV or whitespace text (also .gz), Parquet, npz or GraphML"


def check_file(source: str | os.PathLike[str], what: str) -> Path:
    """Return the path of a readable, non-empty file or raise :class:`InputError`."""
    path = Path(source).expanduser()
    try:
        found = path.stat()
    except (OSError, ValueError):
        raise InputError(f"the {what} file {path} does not exist; check the path") from None
    if path.is_dir():
        raise InputError(
            f"{path} is a folder where a file of {what}s was expected; name a file in it "
            f"({_FORMATS})"
        )
    if path.is_file() and found.st_size == 0:
        raise InputError(f"the {what} file {path} is empty; it needs at least one row")
    if not os.access(path, os.R_OK):
        raise InputError(f"the {what} file {path} may not be read by you; check its permissions")
    return path


def read_raw(path: Path) -> Raw:
    """Return the bytes of a file: memory-mapped if plain, unpacked if gzipped."""
    if not path.is_file():  # a pipe such as <(zcat edges.gz) has no size and cannot be mapped
        data: Raw = path.read_bytes()
    else:
        with path.open("rb") as stream:
            data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        unpacked = gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        raise InputError(
            f"the gzip file {path} is damaged or cut short; fetch or compress it again"
        ) from None
    if not unpacked:
        raise InputError(f"the file {path} is empty once unpacked; it needs at least one row")
    return unpacked


def kind_of(path: Path, raw: Raw) -> Kind:
    """Tell the format of a file from its first bytes, or else from its name."""
    start = raw[:256].removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith(b"PK\x03\x04"):
        return "npz"
    if start.startswith(b"\x93NUMPY"):
        return "npy"
    if start.startswith((b"<?xml", b"<graphml", b"<!")):
        return "graphml"
    return _SUFFIXES.get(_suffix(path), "text")


def _suffix(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def read_parquet(path: Path, raw: Raw) -> pa.Table:
    """Read a Parquet file; a damaged one is an :class:`InputError`."""
    try:
        table = pq.read_table(pa.BufferReader(pa.py_buffer(raw)))
        # Parquet pages carry no checksum by default; names and texts may not even be UTF-8.
        table.validate(full=True)
        return table.rename_columns([str(name) for name in table.column_names])
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        reason = str(error).splitlines()[0].rstrip(".")[:160]
        raise InputError(
            f"{path} is not a complete Parquet file, it may be cut short ({reason}); write it again"
        ) from None


def read_arrays(path: Path, raw: Raw) -> dict[str, npt.NDArray[Any]]:
    """Read the arrays of an npz file (or the one of an npy file, as ``x``), never unpickling."""
    try:
        loaded = np.load(pa.BufferReader(pa.py_buffer(raw)), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"x": loaded}
        with loaded as archive:
            return {name: archive[name] for name in archive.files}
    except ValueError as error:
        if "pickle" in str(error).lower():
            raise InputError(
                f"{path} holds Python objects, which are never unpickled; save plain number or "
                f"text arrays (text as dtype 'U', not object)"
            ) from None
        raise InputError(f"{path} is not a complete npz file; write it again") from None
    except Exception:  # zipfile raises half a dozen unrelated types for damaged archives
        raise InputError(f"{path} is not a complete npz file; write it again") from None
