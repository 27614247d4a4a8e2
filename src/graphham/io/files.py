"""Open a user's file: find out what it is, and refuse what cannot be read in one sentence."""

from __future__ import annotations

import contextlib
import gzip
import io
import mmap
import os
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from graphham.errors import InputError, ShortMemoryError
from graphham.io.parquet_footer import Chunk, read_chunks
from graphham.system.memory_limit import explain_short, is_short

Raw: TypeAlias = "bytes | mmap.mmap"

# Edges and unpacked text of up to this size stay in memory: that is about a million edges, which
# plain arrays sort as fast as the compiled code for larger graphs takes to load.
IN_MEMORY_BYTES = 32 << 20

# How large a packed file may become: a real table shrinks by a factor of 3 to 30, one that shrinks
# by 1,000 is made to fill memory or disk. Small files may do as they like.
UNPACKED_FREE_BYTES = 256 << 20
_UNPACKED_FACTOR = 100
_max_unpacked: ContextVar[int | None] = ContextVar("max_unpacked", default=None)

_PIECE = 1 << 22
# Rows of a Parquet file that are decoded at once, or fewer where their texts are long.
_BATCH_ROWS = 1 << 18
_BATCH_BYTES = 1 << 26
_FORMATS = "CSV, TSV or whitespace text (also .gz), Parquet, npz or GraphML"


def check_file(source: str | os.PathLike[str], what: str) -> Path:
    """Return the path of a readable, non-empty file or raise :class:`InputError`."""
    path = Path(source).expanduser()
    try:
        status = path.stat()
    except (OSError, ValueError):
        raise InputError(f"the {what} file {path} does not exist; check the path") from None
    if path.is_dir():
        raise InputError(
            f"{path} is a folder where a file of {what}s was expected; name a file in it "
            f"({_FORMATS})"
        )
    if path.is_file() and status.st_size == 0:
        raise InputError(f"the {what} file {path} is empty; it needs at least one row")
    if not os.access(path, os.R_OK):
        raise InputError(f"the {what} file {path} may not be read by you; check its permissions")
    return path


@contextlib.contextmanager
def unpacking_at_most(gib: float | None) -> Iterator[None]:
    """Let packed files become this large while the block runs; ``None`` keeps the usual limit."""
    if gib is not None and not 0 < gib < 2**30:
        raise InputError(f"--max-unpacked is {gib}; it must be above 0")
    token = _max_unpacked.set(None if gib is None else int(gib * 2**30))
    try:
        yield
    finally:
        _max_unpacked.reset(token)


def unpack_limit(num_bytes: int) -> int:
    """Return how many bytes a packed file of some size may become."""
    said = _max_unpacked.get()
    return max(UNPACKED_FREE_BYTES, _UNPACKED_FACTOR * num_bytes) if said is None else said


def check_unpacked(path: Path, num_bytes: int, size: int) -> None:
    """Refuse a file whose content would take ``size`` bytes, if a file of its own may not."""
    if size > unpack_limit(num_bytes):
        raise _refuse_unpacked(path, num_bytes, size)


def _refuse_unpacked(path: Path, num_bytes: int, size: int | None = None) -> InputError:
    limit = unpack_limit(num_bytes)
    real = "more" if size is None else f"{size:,} bytes"
    return InputError(
        f"{path} has {num_bytes:,} bytes and unpacks to {real}, above the limit of {limit:,}; if "
        f"you trust the file, raise it with --max-unpacked (GiB)"
    )


class SpillFolder:
    """A folder for what is too large to stay in memory, made when it is first asked for.

    Args:
        folder: An empty folder; ``None`` for a temporary one, which :meth:`close` removes.
        in_memory_bytes: What may stay in memory.
    """

    def __init__(self, folder: Path | None = None, in_memory_bytes: int = IN_MEMORY_BYTES) -> None:
        self._folder, self.in_memory_bytes = folder, in_memory_bytes
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    @property
    def path(self) -> Path:
        """The folder."""
        if self._folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="graphham-")
            self._folder = Path(self._temporary.name)
        return self._folder

    @property
    def parent(self) -> Path:
        """Where the folder is, or would be."""
        return Path(tempfile.gettempdir()) if self._folder is None else self._folder.parent

    @property
    def is_temporary(self) -> bool:
        """Whether a folder was made that will be removed."""
        return self._temporary is not None

    def close(self) -> None:
        """Remove the folder if it is temporary."""
        if self._temporary is not None:
            self._temporary.cleanup()


def read_raw(path: Path, spill: SpillFolder | None = None) -> Raw:
    """Return the bytes of a file: memory-mapped if plain, unpacked if gzipped.

    Args:
        path: The file.
        spill: Where to unpack to what is too large for memory; the system's temporary folder
            without it.
    """
    if not path.is_file():  # a pipe such as <(zcat edges.gz) has no size and cannot be mapped
        data: Raw = path.read_bytes()
    else:
        data = _mapped(path)
    return _unpacked(path, data, spill) if data[:2] == b"\x1f\x8b" else data


def forget_pages(raw: Raw) -> None:
    """Let go of the pages of a mapped file read so far; touching them reads them again."""
    if isinstance(raw, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        raw.madvise(mmap.MADV_DONTNEED)


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as stream:
        return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)


def _unpacked(path: Path, data: Raw, spill: SpillFolder | None) -> Raw:
    most = IN_MEMORY_BYTES if spill is None else spill.in_memory_bytes
    limit = unpack_limit(len(data))
    packed = gzip.GzipFile(fileobj=io.BytesIO(data) if isinstance(data, bytes) else data)
    try:
        unpacked: Raw = packed.read(min(most, limit))
        if more := packed.read(1):
            with _unpack_file(spill) as out:
                out.write(unpacked[:] + more)
                while piece := packed.read(_PIECE):
                    if out.tell() + len(piece) > limit:
                        break
                    out.write(piece)
                out.flush()
                if out.tell() > limit or piece:
                    raise _refuse_unpacked(path, len(data))
                unpacked = mmap.mmap(out.fileno(), 0, access=mmap.ACCESS_READ)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError(
            f"the gzip file {path} is damaged or cut short; fetch or compress it again"
        ) from None
    if not unpacked:
        raise InputError(f"the file {path} is empty once unpacked; it needs at least one row")
    return unpacked


def _unpack_file(spill: SpillFolder | None) -> IO[bytes]:
    """Open a file to unpack to; without a folder for it, one that goes when it is let go of."""
    if spill is None:
        return tempfile.TemporaryFile(prefix="graphham-")
    place = spill.path / f"unpacked-{len(list(spill.path.glob('unpacked-*')))}"
    return place.open("w+b")


def read_parquet(path: Path, raw: Raw) -> pa.Table:
    """Read a Parquet file; a damaged one is an :class:`InputError`."""
    with refusing_damage(path):
        schema = open_parquet_file(raw).schema_arrow
        schema = pa.schema([pa.field(str(f.name), f.type) for f in schema])
    pieces = [batch for batch, _ in parquet_batches(path, raw)]
    with refusing_damage(path):
        return pa.Table.from_batches(
            [piece.rename_columns(schema.names) for piece in pieces], schema
        )


def open_parquet_file(raw: Raw) -> pq.ParquetFile:
    """Open a Parquet file whose bytes are at hand."""
    return pq.ParquetFile(pa.BufferReader(pa.py_buffer(raw)))


def parquet_batches(
    path: Path, raw: Raw, columns: list[str] | None = None
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield the rows of a Parquet file in batches, and how many rows it has.

    Equal values take next to no room in the file, so that a few kilobytes may stand for any number
    of rows or for one long text again and again. What the file declares is compared with the limit
    for packed files before it is decoded, a batch holds fewer rows where texts are long, and what
    was decoded is counted.

    Args:
        path: The file, for messages.
        raw: Its bytes.
        columns: The columns wanted; all when not given.

    Raises:
        InputError: The file is damaged, or larger than packed files may become.
    """
    limit = unpack_limit(len(raw))
    with refusing_damage(path):
        opened = open_parquet_file(raw)
        chunks = _wanted_chunks(raw, columns)
        check_unpacked(path, len(raw), _declared_bytes(chunks))
        longest = _longest_text(chunks, raw)
        rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES // longest))
        stream = opened.iter_batches(rows, columns=columns, use_threads=False)
    done = 0
    while True:
        with refusing_damage(path):
            batch = next(stream, None)
            if batch is None:
                return
            # Pages carry no checksum by default, and texts may not even be UTF-8.
            batch.validate(full=True)
        done += batch.nbytes
        if done > limit:
            raise _refuse_unpacked(path, len(raw))
        yield batch, opened.metadata.num_rows


def _wanted_chunks(raw: Raw, columns: list[str] | None) -> list[Chunk]:
    return [
        chunk
        for chunk in read_chunks(raw)
        if columns is None or chunk.path in columns or chunk.path.split(".")[0] in columns
    ]


def _declared_bytes(chunks: list[Chunk]) -> int:
    """Return what the values of the file take at least once they are decoded."""
    bits = {"BOOLEAN": 1, "INT32": 32, "FLOAT": 32, "INT96": 96}
    return sum(c.num_values * bits.get(c.physical_type, 64) for c in chunks) // 8


def _longest_text(chunks: list[Chunk], raw: Raw) -> int:
    """Return the length of the longest text that a column names by number, at least 1."""
    longest = 1
    for chunk in chunks:
        name, size = chunk.path, chunk.num_bytes
        if chunk.physical_type != "BYTE_ARRAY" or size * _BATCH_ROWS <= _BATCH_BYTES:
            continue
        if "." in name or chunk.is_delta:
            longest = max(longest, size)  # nobody knows before it is decoded
        elif chunk.has_dictionary:
            file = pq.ParquetFile(pa.BufferReader(pa.py_buffer(raw)), read_dictionary=[name])
            first = next(file.iter_batches(1, row_groups=[chunk.group], columns=[name]))
            texts = first.column(0).dictionary if first.num_rows else ()
            if len(texts):
                longest = max(longest, pc.max(pc.binary_length(texts)).as_py() or 1)
    return longest


@contextlib.contextmanager
def refusing_damage(path: Path) -> Iterator[None]:
    """Turn what Arrow raises for a damaged Parquet file into an :class:`InputError`."""
    try:
        yield
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        if is_short(error):  # a damaged file may ask for any amount
            raise ShortMemoryError(
                f"{path} cannot be read, or is damaged: {explain_short(error)}"
            ) from None
        reason = str(error).splitlines()[0].rstrip(".")[:160]
        raise InputError(
            f"{path} is not a complete Parquet file, it may be cut short ({reason}); write it again"
        ) from None


def read_arrays(path: Path, raw: Raw) -> dict[str, npt.NDArray[Any]]:
    """Read the arrays of an npz file (or the one of an npy file, as ``x``), never unpickling.

    What a header says is compared with the bytes that there are before any is set aside.
    """
    try:
        _check_sizes(path, raw)
        loaded = np.load(pa.BufferReader(pa.py_buffer(raw)), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            found = {"x": loaded}
        else:
            with loaded as archive:
                found = {name: archive[name] for name in archive.files}
        for values in found.values():
            _check_text(values)
        return found
    except InputError:
        raise
    except ValueError as error:
        if "pickle" in str(error).lower():
            raise InputError(
                f"{path} holds Python objects, which are never unpickled; save plain number or "
                f"text arrays (text as dtype 'U', not object)"
            ) from None
        raise InputError(f"{path} is not a complete npz file; write it again") from None
    except Exception:  # zipfile raises half a dozen unrelated types for damaged archives
        raise InputError(f"{path} is not a complete npz file; write it again") from None


def _check_text(values: npt.NDArray[Any]) -> None:
    """Refuse numbers that are no signs, which Python ends with an internal error."""
    if values.dtype.kind != "U" or not values.size or not values.dtype.itemsize:
        return
    signs = np.ascontiguousarray(values).reshape(-1).view(np.uint32)
    if not values.dtype.isnative:
        signs = signs.byteswap()
    if int(signs.max()) > sys.maxunicode:
        raise ValueError("a number is no sign of any text")


def _check_sizes(path: Path, raw: Raw) -> None:
    """Refuse arrays that promise more than the file holds, and archives that unpack to too much."""
    buffer = pa.BufferReader(pa.py_buffer(raw))
    if raw[:4] != b"PK\x03\x04":
        _check_header(buffer, len(raw))
        return
    with zipfile.ZipFile(buffer) as archive:
        members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        total = sum(info.file_size for info in members)
        if total > max(unpack_limit(len(raw)), len(raw)):
            raise _refuse_unpacked(path, len(raw), total)
        for info in members:
            with archive.open(info) as stream:
                _check_header(stream, info.file_size)


def _check_header(stream: IO[bytes], size: int) -> None:
    version = np.lib.format.read_magic(stream)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    shape, _, dtype = read(stream)
    count = dtype.itemsize
    for length in shape:  # in Python's numbers, which do not overflow
        count *= length
    if not dtype.hasobject and stream.tell() + count != size:
        raise ValueError(f"{size:,} bytes are not {shape} values of type {dtype}")
