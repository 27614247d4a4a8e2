"""The folder of a fitted method: the files of a run folder, as far as a method has them.

``config.toml`` holds the settings, ``model.safetensors`` the arrays, ``nodes.parquet`` one row per
node, ``embedding.npy`` the vectors, ``metrics.jsonl`` the training log and ``summary.json`` the
rest; ``groups.parquet`` has one row per group where a method finds any, and what only one method
finds has files of its own (``outputs`` of the summary names them). GraphHAM itself writes a whole
run folder, which adds its hierarchy.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.ids import NodeIds
from graphham.methods.base import Method
from graphham.system.atomic import (
    plain,
    remove_folder,
    sync,
    without_none,
    write_bytes,
    write_json,
)
from graphham.training.checkpoints import read_tensors, write_tensors
from graphham.version import __version__

FORMAT = "graphham-method"
VERSION = 1


def save_method(
    method: Method,
    path: str | Path,
    about: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> None:
    """Write a fitted method to a new folder, whole or not at all.

    Args:
        method: Fitted.
        path: The folder to be.
        about: More for the summary, such as the graph's name and size.
        overwrite: Replace a run of any method; the old one stays until the new one is whole.
    """
    final = Path(path)
    if overwrite:
        check_replaceable(final)
    elif final.exists() or final.is_symlink():
        raise InputError(f"{final} exists already; choose another folder or remove it first")
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{final.name}.", dir=final.parent))
    except OSError as error:
        raise InputError(f"cannot write {final}: {error.strerror}; choose another place") from error
    try:
        _write_files(method, partial, about or {})
        sync(partial)
        partial.chmod(0o755)
        if final.exists():
            final.rename(partial.with_name(f"{partial.name}.old"))
        partial.rename(final)
        remove_folder(partial.with_name(f"{partial.name}.old"))
    except OSError as error:
        raise InputError(f"cannot write {final}: {error.strerror}; choose another place") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_replaceable(path: Path) -> None:
    """Refuse to replace anything but a finished run of any method."""
    if not path.exists() and not path.is_symlink():
        return
    found: dict[str, Any] = {}
    if path.is_dir() and not path.is_symlink():
        with contextlib.suppress(InputError):
            found = _read_json(path)
    if found.get("format") not in (FORMAT, "graphham-run"):
        raise InputError(
            f"{path} exists and is not a run folder, so it is not overwritten; choose another --out"
        )


def load_method(path: str | Path) -> Method:
    """Load the method of a folder written by :func:`save_method` or of a GraphHAM run."""
    from graphham.methods.registry import make_method

    folder = Path(path)
    summary = _read_json(folder)
    if summary.get("format") == "graphham-run":
        about = summary.get("method") or {"name": "graphham", "settings": {}}
        method = make_method(about["name"], **about.get("settings", {}))
        method._restore_run(folder)  # type: ignore[attr-defined]
        return method
    if summary.get("format") != FORMAT:
        raise InputError(f"{folder} is not a fitted method: its summary.json is not from graphham")
    if summary.get("format_version", 0) > VERSION:
        raise InputError(
            f"{folder} has format {summary['format_version']}, this graphham reads up to {VERSION};"
            f" install a newer graphham"
        )
    method = make_method(summary["method"]["name"], **summary["method"]["settings"])
    arrays = read_tensors(folder / "model.safetensors")
    method.ids_ = _read_ids(folder / "nodes.parquet")
    method.embedding_ = _read_vectors(folder / "embedding.npy")
    method.class_scores_ = arrays.get("outputs.class_scores")
    levels = [k for k in arrays if k.startswith("outputs.level.")]
    method.levels_ = [arrays[f"outputs.level.{i}"] for i in range(1, len(levels) + 1)] or None
    method.classes_ = tuple(summary["classes"])
    method.validation_ = summary["validation"]
    method.cost_ = dict(summary["cost"])
    text = (folder / "metrics.jsonl").read_text("utf-8")
    method.history_ = [json.loads(line) for line in text.splitlines()]
    state = {k: v for k, v in arrays.items() if not k.startswith("outputs.")}
    method._restore(state, summary["facts"])
    return method


def _write_files(method: Method, folder: Path, more: Mapping[str, Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    import tomli_w

    about: Mapping[str, Any] = {"name": method.name, "settings": method.get_params()}
    config = {"method": method.name, **method.get_params()}
    write_bytes(folder / "config.toml", tomli_w.dumps(without_none(plain(config))).encode())
    arrays = dict(method._state())
    columns: dict[str, Any] = {"id": method.ids_.to_arrow()}
    if method.class_scores_ is not None:
        arrays["outputs.class_scores"] = method.class_scores_
        best = method.class_scores_.argmax(1)
        columns["prediction"] = pa.array([str(method.classes_[code]) for code in best.tolist()])
    for number, codes in enumerate(method.levels_ or [], 1):
        arrays[f"outputs.level.{number}"] = codes
        columns[f"group_{number}"] = pa.array(codes)
    write_tensors(folder / "model.safetensors", arrays)
    pq.write_table(pa.table(columns), folder / "nodes.parquet", compression="zstd")
    if method.levels_:
        pq.write_table(_group_table(method.levels_), folder / "groups.parquet", compression="zstd")
    np.save(folder / "embedding.npy", np.ascontiguousarray(method.embedding_), allow_pickle=False)
    lines = [json.dumps(plain(record)) + "\n" for record in method.history_]
    write_bytes(folder / "metrics.jsonl", "".join(lines).encode())
    write_json(
        folder / "summary.json",
        {
            "format": FORMAT,
            "format_version": VERSION,
            "graphham_version": __version__,
            "method": about,
            "classes": list(method.classes_),
            "validation": method.validation_,
            "cost": method.cost_,
            "facts": method._facts(),
            "outputs": method.write_outputs(folder),
            **more,
        },
    )


def _group_table(levels: Sequence[npt.NDArray[np.int32]]) -> Any:
    """Return one row per group: level, number, size, and the coarser group most of it lies in."""
    import pyarrow as pa

    rows: list[dict[str, Any]] = []
    for level, codes in enumerate(levels, 1):
        count = int(codes.max()) + 1
        sizes = np.bincount(codes, minlength=count)
        parents: list[int | None] = [None] * count
        if level < len(levels):
            above = levels[level]
            joint = sp.coo_matrix((np.ones(len(codes)), (codes, above))).tocsr()
            best = np.asarray(joint.argmax(axis=1)).ravel()
            parents = [int(b) if size else None for b, size in zip(best, sizes, strict=True)]
        rows += [
            {"level": level, "group": group, "size": int(size), "parent": parent}
            for group, (size, parent) in enumerate(zip(sizes, parents, strict=True))
            if size
        ]
    columns = {"level": pa.int32(), "group": pa.int32(), "size": pa.int64(), "parent": pa.int32()}
    return pa.table({n: pa.array([row[n] for row in rows], type=t) for n, t in columns.items()})


def _read_json(folder: Path) -> dict[str, Any]:
    path = folder / "summary.json"
    if not path.is_file():
        raise InputError(f"{folder} is not the folder of a fitted method: it has no summary.json")
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is damaged or cut short ({error}); fit it again") from error
    if not isinstance(found, dict):
        raise InputError(f"{path} is not from graphham; give the folder of a fitted method")
    return found


def _read_ids(path: Path) -> NodeIds:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return NodeIds(pq.read_table(path, columns=["id"])["id"])
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} is damaged ({error}); fit the method again") from error


def _read_vectors(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{path} is damaged ({error}); fit the method again") from error
