"""Files that carry a checksum: know what was written, and notice when it has changed."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphham.errors import InputError
from graphham.system.atomic import plain

SEAL = "checksum"
_CHUNK = 1 << 22


class CheckedFile(io.RawIOBase):
    """A new file that remembers the size and checksum of what is written to it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._stream = path.open("xb")
        self._digest = hashlib.blake2b(digest_size=16)
        self._bytes = 0
        self._holes: list[list[int]] = []

    def writable(self) -> bool:
        """Say that this file can be written to, as Arrow asks."""
        return True

    def write(self, data: Any) -> int:
        """Write bytes-like data and count it in."""
        view = memoryview(data).cast("B")
        self._digest.update(view)
        self._bytes += len(view)
        return self._stream.write(view)

    def skip(self, count: int) -> None:
        """Leave a hole that reads as zeros and takes no room, where the file system can.

        The checksum does not cover it: holes may be many times as large as what is written.
        """
        if not count:
            return
        self._holes.append([self._bytes, count])
        self._bytes += count
        self._stream.seek(count, os.SEEK_CUR)

    def close(self) -> None:
        """Close the file without promising that it reached the disk."""
        self._stream.close()
        super().close()

    def finish(self) -> dict[str, Any]:
        """Bring the file to disk and close it; return size and checksum for a manifest."""
        self._stream.flush()
        self._stream.truncate(self._bytes)  # a hole at the end is part of the file
        os.fsync(self._stream.fileno())
        self.close()
        holes = {"holes": self._holes} if self._holes else {}
        return {"bytes": self._bytes, "blake2b": self._digest.hexdigest(), **holes}


def sealed(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest with a checksum of its own content, however it will be laid out."""
    return {**manifest, SEAL: _content_checksum(manifest)}


def is_intact(manifest: Mapping[str, Any], must_be_sealed: bool) -> bool:
    """Whether a manifest says what it said when it was sealed.

    Args:
        manifest: What was read.
        must_be_sealed: Whether it is of a format that always carries its checksum.
    """
    found = manifest.get(SEAL)
    if found is None:
        return not must_be_sealed
    return bool(found == _content_checksum(manifest))


def _content_checksum(manifest: Mapping[str, Any]) -> str:
    content = plain({name: value for name, value in manifest.items() if name != SEAL})
    # Read back first: what JSON cannot tell apart, such as a tuple and a list, must not matter.
    text = json.dumps(json.loads(json.dumps(content)), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def check_files(
    folder: Path,
    files: dict[str, dict[str, Any]],
    verify: bool,
    advice: str = "ingest the graph again",
) -> None:
    """Compare the files of a store with its manifest; contents are read only to ``verify``."""
    for name, entry in files.items():
        size = -1
        with contextlib.suppress(OSError):
            size = (folder / name).stat().st_size
        if size != entry["bytes"]:
            damage = "is missing" if size < 0 else f"has {size:,} bytes and not {entry['bytes']:,}"
            raise InputError(f"the store {folder} is damaged: {name} {damage}; {advice}")
        if verify and file_checksum(folder / name, entry.get("holes", [])) != entry["blake2b"]:
            raise InputError(
                f"the store {folder} is damaged: the content of {name} has changed since it was "
                f"written; {advice}"
            )


def file_checksum(file: Path, holes: list[list[int]] | None = None) -> str:
    """Return the checksum of a file, read in pieces.

    Args:
        file: The file.
        holes: Start and length of each range that the checksum leaves out, in order.
    """
    digest = hashlib.blake2b(digest_size=16)
    with file.open("rb") as stream:
        for start, count in [*(holes or []), [file.stat().st_size, 0]]:
            while piece := stream.read(min(_CHUNK, start - stream.tell())):
                digest.update(piece)
            stream.seek(start + count)
    return digest.hexdigest()
