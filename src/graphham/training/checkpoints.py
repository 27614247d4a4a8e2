"""Checkpoints that survive a power cut: a new file first, then one pointer is switched.

``checkpoint-000007.safetensors`` holds the arrays. ``checkpoint.json`` names that file, its size
and checksum, and carries the matching meta data, so arrays and meta can never disagree: replacing
this one small file is what makes a checkpoint the current one. Older array files go last.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.system.atomic import replacing, write_json

POINTER = "checkpoint.json"
FORMAT = "graphham-checkpoint"
VERSION = 1
_ARRAYS = re.compile(r"checkpoint-(\d{6,})(?:\.part-\d{5,})?\.safetensors")


def next_number(folder: Path) -> int:
    """Return the number of the checkpoint to be written next."""
    numbers = [int(m[1]) for m in map(_ARRAYS.fullmatch, _names(folder)) if m]
    return max(numbers, default=0) + 1


def save_checkpoint(
    folder: Path, arrays: Mapping[str, Any], meta: Mapping[str, Any], number: int | None = None
) -> Path:
    """Make ``arrays`` and ``meta`` the current checkpoint of ``folder``; return the new file.

    Args:
        folder: The run folder.
        arrays: What to keep.
        meta: Plain values; ``parts`` lists files of :func:`write_part` that belong to it.
        number: Number of the checkpoint; the next free one when not given.
    """
    number = next_number(folder) if number is None else number
    path = folder / f"checkpoint-{number:06d}.safetensors"
    write_tensors(path, arrays)
    write_json(
        folder / POINTER,
        {
            "format": FORMAT,
            "version": VERSION,
            "file": path.name,
            "bytes": path.stat().st_size,
            "blake2b": checksum(path),
            "meta": dict(meta),
        },
    )
    for name in _names(folder):
        # A killed writer leaves its half-written temporary file; it goes with the old versions.
        stale = name.startswith(".checkpoint") and name.endswith(".tmp")
        found = _ARRAYS.fullmatch(name)
        if stale or (found and int(found[1]) != number):
            (folder / name).unlink(missing_ok=True)
    return path


def write_part(folder: Path, number: int, rank: int, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Write one process's part of a checkpoint; return how its meta data names it."""
    path = folder / f"checkpoint-{number:06d}.part-{rank:05d}.safetensors"
    write_tensors(path, arrays)
    return {"file": path.name, "bytes": path.stat().st_size, "blake2b": checksum(path)}


def read_part(folder: Path, part: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """Read a part that a checkpoint's meta data names; a damaged one is an :class:`InputError`."""
    path = folder / Path(str(part["file"])).name
    if not path.is_file() or path.stat().st_size != part["bytes"]:
        raise InputError(
            f"{path} is missing or cut short, so the run cannot be resumed; start anew with "
            f"--overwrite"
        )
    if checksum(path) != part["blake2b"]:
        raise InputError(f"{path} does not match its checksum; start anew with --overwrite")
    return read_tensors(path)


def load_checkpoint(folder: Path) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]] | None:
    """Return the arrays and meta data of the current checkpoint, or ``None`` if there is none.

    Raises:
        InputError: If the files are damaged or from a newer graphham.
    """
    pointer = folder / POINTER
    if not pointer.exists():
        return None
    what = f"the checkpoint in {folder}"
    advice = "it cannot be resumed; start anew with --overwrite"
    try:
        found = json.loads(pointer.read_text("utf-8"))
        if found["format"] != FORMAT:
            raise KeyError("format")
        version, name = int(found["version"]), str(found["file"])
        size, digest, meta = int(found["bytes"]), str(found["blake2b"]), dict(found["meta"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{what} is damaged ({POINTER} is unreadable); {advice}") from error
    if version > VERSION:
        raise InputError(
            f"{what} has format version {version}, this graphham reads up to {VERSION}; "
            f"resume it with the newer graphham that wrote it"
        )
    path = folder / name
    if not _ARRAYS.fullmatch(name) or not path.is_file():
        raise InputError(f"{what} is damaged ({name} is missing); {advice}")
    if path.stat().st_size != size or checksum(path) != digest:
        raise InputError(f"{what} is damaged ({name} does not match its checksum); {advice}")
    return read_tensors(path), meta


def checkpoint_files(folder: Path) -> list[Path]:
    """Return the files of the current checkpoint, the pointer last; empty when there is none."""
    pointer = folder / POINTER
    if not pointer.exists():
        return []
    try:
        found = json.loads(pointer.read_text("utf-8"))
        names = [str(found["file"])]
        names += [str(part["file"]) for part in found["meta"].get("parts", [])]
    except (ValueError, KeyError, TypeError, AttributeError):
        return [pointer]
    files = [folder / name for name in names if _ARRAYS.fullmatch(name)]
    return [path for path in (*files, pointer) if path.is_file()]


def remove_checkpoints(folder: Path) -> None:
    """Remove every checkpoint file, the pointer first so that it never names a missing file."""
    (folder / POINTER).unlink(missing_ok=True)
    for name in _names(folder):
        if _ARRAYS.fullmatch(name):
            (folder / name).unlink(missing_ok=True)


def _names(folder: Path) -> list[str]:
    return [p.name for p in folder.iterdir()]


def checksum(path: Path) -> str:
    """Return a short hash of a file's bytes, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def write_tensors(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write numpy arrays and torch tensors as one safetensors file, whole or not at all."""
    with replacing(path) as temporary:
        if any(str(getattr(a, "dtype", "")) == "torch.bfloat16" for a in arrays.values()):
            import torch
            from safetensors.torch import save_file as save_torch

            # Clones, because safetensors refuses tensors that share memory.
            tensors = {k: torch.as_tensor(v).detach().cpu().clone() for k, v in arrays.items()}
            save_torch({k: t.contiguous() for k, t in tensors.items()}, str(temporary))
        else:
            from safetensors.numpy import save_file

            save_file({k: _native(k, v) for k, v in arrays.items()}, str(temporary))


def read_tensors(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Read a safetensors file into numpy arrays; a damaged file is an :class:`InputError`.

    numpy has no bfloat16; such tensors come back as float32, which holds every one of their values.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    arrays: dict[str, npt.NDArray[Any]]
    try:
        try:
            arrays = load_file(str(path))
        except TypeError:
            import torch
            from safetensors.torch import load_file as load_torch

            arrays = {
                name: (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
                for name, tensor in load_torch(str(path)).items()
            }
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"{path} is damaged or not a safetensors file ({error})") from error
    return arrays


def _native(name: str, value: Any) -> npt.NDArray[Any]:
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"cannot save {name!r}: arrays of type {array.dtype} have no safe format")
    # order="C", not ascontiguousarray, which would turn a scalar into a vector.
    return np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")


class CheckpointStore(Protocol):
    """Where a trainer keeps its log and checkpoints, such as the run folder being written."""

    @property
    def partial(self) -> Path:
        """The folder that holds the checkpoints."""
        ...

    def log(self, record: dict[str, Any]) -> None:
        """Add one record to the training log."""

    def truncate_log(self, epochs: int) -> None:
        """Forget the records after the first ``epochs``."""

    def save_checkpoint(
        self, arrays: dict[str, Any], meta: dict[str, Any], number: int | None = None
    ) -> None:
        """Write a checkpoint and switch to it."""
