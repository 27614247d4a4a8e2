"""Open a zip of a run: unpack it into a temporary folder, and trust nothing in it."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import zipfile
from functools import lru_cache
from pathlib import Path, PurePosixPath

from graphham.errors import InputError
from graphham.io.files import unpack_limit

_UNPACKED: set[Path] = set()


def unpack_run(path: Path) -> Path:
    """Unpack a run into a temporary folder that goes when the program ends; return the run in it.

    A file that has not changed is unpacked once.

    Raises:
        InputError: The file is damaged, holds no run, names places outside, or unpacks to too much.
    """
    status = path.stat()
    found = _unpack(path.resolve(), status.st_mtime_ns, status.st_size)
    if not found.is_dir():  # somebody tidied up the temporary files
        _unpack.cache_clear()
        found = _unpack(path.resolve(), status.st_mtime_ns, status.st_size)
    return found


def is_unpacked(folder: Path) -> bool:
    """Whether a run folder is a temporary copy of a zip, so that what is written there is lost."""
    return folder.parent in _UNPACKED


@lru_cache(maxsize=64)
def _unpack(path: Path, changed: int, size: int) -> Path:
    limit = unpack_limit(size)
    try:
        with zipfile.ZipFile(path) as archive:
            members = [m for m in archive.infolist() if not m.is_dir()]
            total = sum(m.file_size for m in members)
            if total > limit:
                raise InputError(
                    f"{path} unpacks to {total:,} bytes, above the limit of {limit:,}; unpack it "
                    f"yourself if you trust it, and give the folder"
                )
            names = [PurePosixPath(m.filename) for m in members]
            strays = [n for n in names if n.is_absolute() or ".." in n.parts or "\\" in str(n)]
            if strays:
                raise InputError(f"{path} names files outside of it ({strays[0]}); do not trust it")
            heads = [n.parent for n in names if n.name == "summary.json"]
            if len(heads) != 1:
                raise InputError(f"{path} holds no run: it has {len(heads)} files summary.json")
            folder = Path(tempfile.mkdtemp(prefix="graphham-zip-"))
            _UNPACKED.add(folder)
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            left = limit
            for member, name in zip(members, names, strict=True):
                if not name.is_relative_to(heads[0]):
                    continue
                place = folder / path.stem / name.relative_to(heads[0])
                place.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, place.open("wb") as target:
                    # A header may lie about the size; what comes out is counted.
                    while piece := source.read(1 << 20):
                        left -= len(piece)
                        if left < 0:
                            raise InputError(f"{path} unpacks to more than {limit:,} bytes")
                        target.write(piece)
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path} is damaged or no zip of a run ({reason})") from error
    return folder / path.stem
