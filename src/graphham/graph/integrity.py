"""Check what a store holds before any of it is used as an index.

Compiled loops and Arrow's text columns follow the numbers they are given, so one wrong number in a
row bound, a neighbour or a text offset ends the process without a word. Every file of such numbers
is therefore compared with its checksum and its bounds before it is used. Weights and features only
go into sums; they are compared with their checksum too unless they are very large. A check of a
large file is remembered in the user's cache folder and repeated only when the file has changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from graphham.system.atomic import write_json
from graphham.system.checksums import file_checksum
from graphham.system.memory_limit import is_short

# Raised when a check becomes stricter, so that what passed an older one is checked again.
CHECKS_VERSION = 1
# Smaller stores are checked sooner than a note about them is found.
REMEMBERED_BYTES = 1 << 20
# Features and weights beyond this size are compared with their checksum only to verify: reading
# them all would take longer than people wait for a store to open.
UNREAD_BYTES = 1 << 30
# Within this time two changes of a file may leave the same time stamp.
_RECENT_NANOSECONDS = 50_000_000
_CHUNK = 1 << 20

Array = npt.NDArray[Any]


class DamagedFileError(ValueError):
    """A file does not hold what its store promises.

    Args:
        name: The file, inside its store.
        reason: What is wrong with it, to be read after the name.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} {reason}")


class CheckedReader:
    """Maps the files of one store, each checked before it is handed out.

    Args:
        folder: The store.
        manifest: The content of its manifest.
    """

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder, self.files = folder, manifest["files"]
        self._passed = PassedChecks(folder, manifest)

    def has(self, file: str) -> bool:
        """Whether the store lists a file."""
        return file in self.files

    def array(self, name: str, kinds: str, shape: tuple[int | None, ...]) -> Array:
        """Map an array of plain numbers, which are never used as an index.

        Args:
            name: Name of the array.
            kinds: The kinds of its numbers, as NumPy abbreviates them.
            shape: Its shape; ``None`` where the store does not promise a length.

        Raises:
            DamagedFileError: The header of the file says something else.
        """
        file = self._file(f"{name}.npy")
        try:
            values = _map_array(self.folder / file)
        except (OSError, MemoryError):
            raise
        # NumPy evaluates the header as Python text, which can go wrong in many ways.
        except Exception as error:
            reason = " ".join(str(error).split())[:200]
            raise DamagedFileError(file, f"cannot be read ({reason})") from None
        promised = tuple(a if b is None else b for a, b in zip(values.shape, shape, strict=False))
        if len(values.shape) != len(shape) or values.shape != promised:
            raise DamagedFileError(file, f"has shape {values.shape} and not {shape}")
        is_number = values.dtype.kind in kinds and values.dtype.isnative
        if not (is_number or values.size == 0):
            raise DamagedFileError(file, f"holds numbers of type {values.dtype}")
        return values

    def numbers(self, name: str, kinds: str, shape: tuple[int | None, ...]) -> Array:
        """Map an array as :meth:`array` does; compare its checksum unless it is very large."""
        file = self._file(f"{name}.npy")
        if self.files[file]["bytes"] <= UNREAD_BYTES:
            self._compare(file)
        return self.array(name, kinds, shape)

    def rows(
        self,
        name: str,
        shape: tuple[int | None, ...],
        low: int,
        high: int,
        own: slice | None = None,
    ) -> Array:
        """Map an array whose numbers are used as an index.

        Args:
            name: Name of the array.
            shape: Its shape, as in :meth:`array`.
            low: The smallest number that is allowed.
            high: One past the largest.
            own: Where the numbers are of which the file holds only some; all if not given.
        """
        self._compare(f"{name}.npy")
        values = self.array(name, "iu", shape)
        if f"{name}.npy" not in self._passed:
            check_range(f"{name}.npy", values[own or slice(None)], low, high)
        return values

    def row_bounds(self, name: str, num_rows: int) -> Array:
        """Map the ``(num_rows + 1,)`` bounds of rows: from 0, never falling."""
        self._compare(f"{name}.npy")
        bounds = self.array(name, "iu", (num_rows + 1,))
        if f"{name}.npy" not in self._passed:
            check_ascending(f"{name}.npy", bounds)
        return bounds

    def ids(self, name: str, count: int) -> Array:
        """Map ``count`` whole numbers of any size, compared with their checksum."""
        self._compare(f"{name}.npy")
        return self.array(name, "iu", (count,))

    def texts(self, name: str, count: int) -> pa.Array:
        """Map ``count`` texts.

        Raises:
            DamagedFileError: The offsets of a text lead out of the file, or it is not UTF-8.
        """
        file = self._file(f"{name}.arrow")
        self._compare(file)
        try:
            reader = pa.ipc.open_file(pa.memory_map(str(self.folder / file)))
            values = reader.get_batch(0).column(0)
            values.validate(full=file not in self._passed)
        except (pa.ArrowException, OSError, ValueError, IndexError, TypeError) as error:
            if is_short(error):  # a machine without room says nothing about the file
                raise
            reason = " ".join(str(error).split())[:200]
            raise DamagedFileError(file, f"cannot be read ({reason})") from None
        is_text = pa.types.is_large_string(values.type) or pa.types.is_string(values.type)
        if not is_text or len(values) != count or values.null_count:
            raise DamagedFileError(
                file, f"holds {len(values):,} values of type {values.type} and not {count:,} texts"
            )
        return values

    def finish(self) -> None:
        """Remember that everything handed out so far was found whole."""
        self._passed.save()

    def _compare(self, file: str) -> None:
        """Compare a file with its checksum, so that a changed number that looks right is seen."""
        self._file(file)
        if self._passed.begin(file):
            return
        entry = self.files[file]
        if file_checksum(self.folder / file, entry.get("holes", [])) != entry["blake2b"]:
            raise DamagedFileError(file, "has changed since it was written")

    def _file(self, file: str) -> str:
        if file not in self.files:
            raise DamagedFileError(file, "is not in the manifest")
        return file


class PassedChecks:
    """Remembers which files of a store were found whole, on this machine.

    Nothing depends on it but time: a cache folder that cannot be read or written is no failure.

    Args:
        folder: The store.
        manifest: The content of its manifest; a file is checked again under another one.
    """

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder = folder
        text = json.dumps(manifest, sort_keys=True)
        self._manifest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        large = sum(int(entry["bytes"]) for entry in manifest["files"].values())
        self._note = _note_path(folder) if large >= REMEMBERED_BYTES else None
        self._known = self._read()
        self._seen: dict[str, list[int]] = {}

    def __contains__(self, file: str) -> bool:
        return file in self._seen and self._known.get(file) == self._seen[file]

    def begin(self, file: str) -> bool:
        """Note a file's state before it is read; return whether it passed in this state."""
        self._seen[file] = _state(self.folder / file)
        return file in self

    def save(self) -> None:
        """Write down the files that were begun, but for those that have changed meanwhile."""
        if self._note is None or all(file in self for file in self._seen):
            return
        now = time.time_ns()
        with contextlib.suppress(OSError):
            files = {
                file: state
                for file, state in self._seen.items()
                if now - state[1] > _RECENT_NANOSECONDS and _state(self.folder / file) == state
            }
            self._note.parent.mkdir(parents=True, exist_ok=True)
            note = {"version": CHECKS_VERSION, "manifest": self._manifest, "files": files}
            write_json(self._note, note)

    def _read(self) -> dict[str, Any]:
        if self._note is None:
            return {}
        try:
            note = json.loads(self._note.read_text(encoding="utf-8"))
            is_same = (note["version"], note["manifest"]) == (CHECKS_VERSION, self._manifest)
            return dict(note["files"]) if is_same else {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}


def check_range(file: str, values: Array, low: int, high: int) -> None:
    """Refuse numbers outside ``low..high-1``, piece by piece."""
    for start, piece in _pieces(values):
        least, most = int(piece.min()), int(piece.max())
        if not low <= least <= most < high:
            wrong = np.flatnonzero((piece < low) | (piece >= high))[0]
            raise DamagedFileError(
                file,
                f"holds {int(piece[wrong])} at position {start + int(wrong):,}, which is outside "
                f"{low}..{high - 1}",
            )


def check_ascending(file: str, bounds: Array) -> None:
    """Refuse row bounds that begin above 0 or fall, piece by piece."""
    last = 0
    for start, piece in _pieces(bounds):
        if start == 0 and int(piece[0]) != 0:
            raise DamagedFileError(file, f"begins with {int(piece[0])} and not with 0")
        if int(piece[0]) < last or bool((piece[1:] < piece[:-1]).any()):
            raise DamagedFileError(file, "holds row bounds that fall")
        last = int(piece[-1])


def _pieces(values: Array) -> Iterator[tuple[int, Array]]:
    for start in range(0, len(values), _CHUNK):
        yield start, values[start : start + _CHUNK]


def _map_array(file: Path) -> Array:
    """Map a file that NumPy's format describes, from its header to its very end."""
    with file.open("rb") as stream:
        version = np.lib.format.read_magic(stream)
        if version != (1, 0):
            raise ValueError(f"unknown header version {version}")
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(stream)
        offset = stream.tell()
        size = os.fstat(stream.fileno()).st_size
    if dtype.hasobject or is_fortran or min(shape, default=0) < 0:
        raise ValueError("unknown layout")
    count = 1
    for length in shape:  # in Python's numbers, which do not overflow
        count *= length
    if offset + count * dtype.itemsize != size:
        raise ValueError(f"{size:,} bytes are not {shape} numbers of type {dtype}")
    if count == 0:  # an empty range cannot be mapped
        return np.empty(shape, dtype)
    mapped: Array = np.memmap(file, dtype, "r", offset, shape)
    # A plain array over the map: every operation on np.memmap pays for its subclass.
    return mapped.view(np.ndarray)


def _state(file: Path) -> list[int]:
    """Return what changes when a file does: size, time of change, identity, time of status."""
    status = file.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns]


def _note_path(folder: Path) -> Path | None:
    """Return where the checks of a store are noted; ``None`` where the user has no cache."""
    from graphham.system.folders import cache_folder

    try:
        place = str(folder.resolve())
        name = hashlib.blake2b(os.fsencode(place), digest_size=16).hexdigest()
        return cache_folder() / "checked" / f"{name}.json"
    except (OSError, RuntimeError):  # no home folder, or links in a circle
        return None
