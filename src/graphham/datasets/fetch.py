"""Find the files of a dataset on this machine, or download them into the cache."""

from __future__ import annotations

import hashlib
import http.client
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from graphham.datasets.catalog import DataFile, DatasetInfo
from graphham.errors import InputError
from graphham.system.folders import cache_folder

# Called with a file's name, the bytes so far, and the bytes in all where known.
Progress = Callable[[str, int, int | None], None]
_PIECE = 1 << 18
_TIMEOUT_SECONDS = 30.0


def search_folders(root: str | Path | None = None) -> list[Path]:
    """Return the data folders that are looked at, in order; ``root`` replaces all others."""
    if root is not None:
        return [Path(root).expanduser()]
    named = os.environ.get("GRAPHHAM_DATA")
    offline = [Path(named).expanduser()] if named else []
    return [*offline, cache_folder()]


def locate(info: DatasetInfo, root: str | Path | None = None) -> Path | None:
    """Return the dataset's folder where all its files are, or ``None``."""
    for base in search_folders(root):
        folder = base / info.folder
        complete = bool(info.files) and all((folder / f.path).is_file() for f in info.files)
        if complete or any((folder / other).is_file() for other in info.also):
            return folder
    return None


def fetch(
    info: DatasetInfo, root: str | Path | None = None, progress: bool | Progress = True
) -> Path:
    """Make sure the dataset is on this machine and return its folder.

    Args:
        info: Which dataset.
        root: Data folder to use in place of ``GRAPHHAM_DATA`` and the cache.
        progress: ``True`` for a progress bar on standard error, ``False`` for silence, or a
            function called as ``(name, bytes so far, bytes in all)``.
    """
    located = locate(info, root)
    if located is not None:
        verify(info, located)
        return located
    folder = search_folders(root)[-1] / info.folder
    missing = [f for f in info.files if not (folder / f.path).is_file()]
    by_hand = [f for f in missing if f.url is None]
    if by_hand:
        raise InputError(
            f"dataset {info.name!r} has no public address and is not on this machine; set "
            f"GRAPHHAM_DATA to a folder that holds {info.folder}/{by_hand[0].path} "
            f"({info.how_made})"
        )
    with _reporter(progress) as report:
        for file in missing:
            try:
                _download(file, folder / file.path, report)
            except (OSError, http.client.HTTPException) as error:
                reason = getattr(error, "reason", None) or error
                if isinstance(error, urllib.error.HTTPError):
                    reason = error
                    error.close()  # it is also the server's answer, with its connection
                raise InputError(
                    f"dataset {info.name!r} is not on this machine and {file.url} cannot be "
                    f"downloaded ({reason}); put {', '.join(f.name for f in info.files)} into "
                    f"{(folder / file.path).parent} or set GRAPHHAM_DATA to a folder that holds "
                    f"{info.folder}/raw"
                ) from error
    verify(info, folder)
    return folder


def verify(info: DatasetInfo, folder: Path) -> None:
    """Compare the files with the known checksums; a wrong file is an :class:`InputError`."""
    for file in info.files:
        path = folder / file.path
        if file.sha256 is None or not file.is_original or not path.is_file():
            continue
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if digest != file.sha256:
            raise InputError(
                f"{path} is not the original file of dataset {info.name!r} (checksum "
                f"{digest[:12]}..., expected {file.sha256[:12]}...); remove it and run "
                f"'graphham data get {info.name}'"
            )


def _download(file: DataFile, path: Path, report: Progress) -> None:
    """Write one file in full or not at all."""
    assert file.url is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    request = urllib.request.Request(file.url, headers={"User-Agent": "graphham"})
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    digest = hashlib.sha256()
    done = 0
    try:
        with (
            os.fdopen(handle, "wb") as out,
            urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response,
        ):
            length = response.headers.get("Content-Length")
            total = int(length) if length and length.isdecimal() else file.size
            report(file.name, 0, total)
            while piece := response.read(_PIECE):
                out.write(piece)
                digest.update(piece)
                done += len(piece)
                report(file.name, done, total)
        if length and done != int(length):
            raise urllib.error.URLError(f"the connection ended after {done:,} of {length} bytes")
        if file.sha256 is not None and file.is_original and digest.hexdigest() != file.sha256:
            raise InputError(
                f"{file.url} did not send the expected file (checksum "
                f"{digest.hexdigest()[:12]}..., expected {file.sha256[:12]}...) and it was not "
                f"kept; try again or put {file.name} into {path.parent} by hand"
            )
        # Others who share the cache may read the file, as if it had been written the usual way.
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)


@contextmanager
def _reporter(progress: bool | Progress) -> Iterator[Progress]:
    if callable(progress):
        yield progress
        return
    if not progress:
        yield lambda _name, _done, _total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bar

    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    tasks: dict[str, object] = {}

    def show(name: str, done: int, total: int | None) -> None:
        if name not in tasks:
            tasks[name] = bar.add_task(name, total=total)
        bar.update(tasks[name], completed=done)  # type: ignore[arg-type]

    with bar:
        yield show
