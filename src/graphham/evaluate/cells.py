"""Cells: single measurements on disk, each made once, by whichever process gets to it first.

``ROOT/cells/classify/cora/folds/graphham/seed0-fold3/cell.json`` is one. The JSON file is written
last and whole, so a cell that has one is finished. While a process works on a cell it holds a lock
on the cell's ``claim`` file, which also says who it is; the system drops the lock when a process
ends, however it ends, so the claims of dead processes stand in nobody's way.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.system.atomic import replacing, write_json
from graphham.system.locks import try_lock

FORMAT = "graphham-cell"
VERSION = 1
LEARNED = "+learned"  # behind a protocol of links whose pairs a learned scorer ranks
Record = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """What to measure.

    Args:
        kind: ``classify``, ``links``, ``hierarchy``, ``portrait`` or ``facts``.
        graph: Name of the dataset, planted case or user's file.
        protocol: Name of the protocol; for kinds without one, a word that says what is done.
        method: Name of the method or peer.
        seed: Of splits and methods.
        fold: Which fold is tested.
        folds: Number of folds.
        budget: Settings to choose among on validation data.
        settings: Settings of the method that are not up for choice.
    """

    kind: str
    graph: str
    protocol: str
    method: str
    seed: int = 0
    fold: int = 0
    folds: int = 5
    budget: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_learned(self) -> bool:
        """Whether pairs are ranked by a scorer that is learned beside the method."""
        return self.protocol.endswith(LEARNED)

    @property
    def key(self) -> str:
        """The cell's path below the folder of all cells; equal cells have equal keys."""
        extras = {"folds": self.folds, "budget": self.budget, "settings": self.settings}
        name = f"seed{self.seed}-fold{self.fold}"
        if extras != {"folds": 5, "budget": 1, "settings": {}}:
            text = json.dumps(extras, sort_keys=True)
            name += "-" + hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
        parts = (self.kind, self.graph, self.protocol, self.method)
        return "/".join([*(_slug(part) for part in parts), name])

    def to_dict(self) -> Record:
        """Return the cell as plain values."""
        return {**asdict(self), "settings": dict(self.settings)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Cell:
        """Return the cell a stored record is about."""
        return cls(**values)


class CellStore:
    """The cells below one folder.

    Args:
        root: The folder; made when first written to.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    @property
    def folder(self) -> Path:
        """Where the cells are."""
        return self.root / "cells"

    @property
    def groups(self) -> Path:
        """Where processes claim the fits that several cells share."""
        return self.folder / ".groups"

    def place(self, cell: Cell) -> Path:
        """Return the folder of one cell."""
        return self.folder / cell.key

    def is_finished(self, cell: Cell) -> bool:
        """Tell whether the cell has been measured."""
        return (self.place(cell) / "cell.json").is_file()

    def read(self, cell: Cell) -> Record:
        """Return the record of a finished cell."""
        return read_record(self.place(cell) / "cell.json")

    def read_arrays(self, cell: Cell) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays kept with a cell; none if there are none."""
        path = self.place(cell) / "arrays.npz"
        if not path.is_file():
            return {}
        with np.load(path, allow_pickle=False) as stored:
            return dict(stored)

    def write(
        self, cell: Cell, record: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
    ) -> Record:
        """Store a finished cell; the record goes last and whole."""
        place = self.place(cell)
        place.mkdir(parents=True, exist_ok=True)
        if arrays:
            with replacing(place / "arrays.npz") as temporary, temporary.open("wb") as file:
                np.savez_compressed(file, allow_pickle=False, **arrays)
        whole = {"format": FORMAT, "version": VERSION, "cell": cell.to_dict(), **record}
        write_json(place / "cell.json", rounded(whole))
        return read_record(place / "cell.json")

    def records(self) -> list[Record]:
        """Return all finished cells, in the order of their keys."""
        paths = sorted(self.folder.glob("*/*/*/*/*/cell.json"))
        return [read_record(path) for path in paths]

    @contextlib.contextmanager
    def claim(self, cell: Cell) -> Iterator[bool]:
        """Hold a cell for this process while the block runs; give ``False`` if another holds it."""
        place = self.place(cell)
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"cannot make {place}: {error.strerror}; choose another --out"
            ) from error
        handle = lock_file(place / "claim")
        if handle is None:
            yield False
            return
        try:
            yield True
        finally:
            # Removed while still locked: nobody can lock a file that is about to vanish.
            (place / "claim").unlink(missing_ok=True)
            os.close(handle)

    def holder(self, cell: Cell) -> str:
        """Say who works on a cell, as far as its claim tells."""
        try:
            return (self.place(cell) / "claim").read_text().strip()
        except OSError:
            return ""


def read_record(path: Path) -> Record:
    """Read a cell's record; anything else is an :class:`InputError`."""
    try:
        record: Record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}); remove its folder") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise InputError(f"{path} is not a graphham cell; remove it")
    if record.get("version", 0) > VERSION:
        raise InputError(f"{path} was written by a newer graphham; update, or use another --out")
    return record


def rounded(value: Any, digits: int = 6) -> Any:
    """Round every float, at any depth: six digits are far below any deviation."""
    if isinstance(value, dict):
        return {name: rounded(inner, digits) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inner, digits) for inner in value]
    if isinstance(value, float | np.floating):
        return round(float(value), digits)
    return value


def lock_file(path: Path) -> int | None:
    """Return a locked handle on a claim, or ``None`` if another process holds it."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not try_lock(handle):
                os.close(handle)
                return None
            # The former holder may have removed the file between our open and our lock.
            if os.fstat(handle).st_ino == path.stat().st_ino:
                os.ftruncate(handle, 0)
                os.write(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
                return handle
        except FileNotFoundError:
            pass
        os.close(handle)


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "unnamed"
