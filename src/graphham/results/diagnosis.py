"""Look at every file of a run or a store: what is whole, damaged, or can be made again."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphham.errors import InputError
from graphham.graph.store import MANIFEST, holds_parts, open_any, read_manifest
from graphham.results.model_card import CARD_FILE
from graphham.results.run_folder import (
    ALWAYS,
    DERIVED,
    GRAPH_FOLDER,
    NAMES_FILE,
    Run,
    read_config,
    read_summary,
)
from graphham.results.unpacked_run import unpack_run
from graphham.system.checksums import file_checksum
from graphham.training import checkpoints

_SUMMARY = "summary.json"


@dataclass
class Diagnosis:
    """What was found in a folder.

    Args:
        kind: What the folder is, in words.
        whole: Files whose content is what was written.
        damaged: Files that are missing or changed, with what is wrong.
        unchecked: Files that nothing is known about, because their format carries no checksums.
        edited: Files that people changed and may change.
        remedies: What to do, one sentence each.
        num_bytes: How much was read.
    """

    kind: str
    whole: list[str] = field(default_factory=list)
    damaged: dict[str, str] = field(default_factory=dict)
    unchecked: list[str] = field(default_factory=list)
    remedies: list[str] = field(default_factory=list)
    edited: list[str] = field(default_factory=list)
    num_bytes: int = 0

    def compare(
        self, folder: Path, name: str, expected: str | None, holes: Any = None, size: Any = None
    ) -> None:
        """Compare one file with its checksum and, where it is known, its size."""
        path = folder / name
        if not path.is_file():
            self.damaged[name] = "is missing"
            return
        found = path.stat().st_size
        if size is not None and found != size:
            self.damaged[name] = f"has {found:,} bytes and not {size:,}"
        elif expected is None:
            self.unchecked.append(name)
        elif file_checksum(path, holes) != expected:
            self.damaged[name] = "has changed since it was written"
        else:
            self.whole.append(name)
        self.num_bytes += found

    def include(self, other: Diagnosis, below: str) -> None:
        """Take in what was found in a folder inside this one."""
        self.whole += [f"{below}/{name}" for name in other.whole]
        self.unchecked += [f"{below}/{name}" for name in other.unchecked]
        self.damaged |= {f"{below}/{name}": what for name, what in other.damaged.items()}
        self.num_bytes += other.num_bytes


def diagnose(path: str | Path) -> Diagnosis:
    """Read everything in a run folder or a zip of it, a run in progress, a store or its parts.

    Raises:
        InputError: The folder is none of these.
    """
    folder = Path(path).expanduser()
    if folder.suffix.lower() == ".zip" and folder.is_file():
        return _run(unpack_run(folder))
    partial = folder.with_name(f"{folder.name}.partial") if folder.name else folder
    if not folder.exists() and partial.is_dir():
        folder = partial
    if (folder / MANIFEST).is_file():
        return _store(folder)
    if holds_parts(folder):
        return _parts(folder)
    if (folder / _SUMMARY).is_file() or _looks_like_run(folder):
        return _partial(folder) if folder.name.endswith(".partial") else _run(folder)
    raise InputError(f"{folder} is neither a run folder nor a store; name one of these")


def _looks_like_run(folder: Path) -> bool:
    return folder.is_dir() and any(
        (folder / name).is_file() for name in (*ALWAYS, checkpoints.POINTER)
    )


def _store(folder: Path) -> Diagnosis:
    found = Diagnosis("store")
    try:
        manifest = read_manifest(folder)
        found.whole.append(MANIFEST)
    except InputError as error:
        found.damaged[MANIFEST] = f"cannot be trusted: {error}"
        manifest = _lenient(folder / MANIFEST)
    files = manifest.get("files")
    for name, entry in (files if isinstance(files, dict) else {}).items():
        if isinstance(entry, dict) and Path(name).name == name:
            digest = entry.get("blake2b")
            found.compare(folder, name, str(digest), entry.get("holes"), entry.get("bytes"))
    if not found.damaged:
        try:
            open_any(folder)  # numbers under a right checksum that lead out of the graph
        except InputError as error:
            found.damaged[MANIFEST] = str(error)
    if found.damaged:
        report = manifest.get("report")
        source = str(report.get("source", "")) if isinstance(report, dict) else ""
        where = f" from {source}" if source else ""
        found.remedies.append(f"ingest the graph again{where}, with --out {folder} --overwrite")
    return found


def _parts(folder: Path) -> Diagnosis:
    found = Diagnosis("split store")
    for place in sorted(folder.glob(f"part-*/{MANIFEST}")):
        found.include(_store(place.parent), place.parent.name)
    if found.damaged:
        found.remedies.append("split the whole store again, or copy the damaged parts again")
    return found


def _run(folder: Path) -> Diagnosis:
    found = Diagnosis("run")
    try:
        summary = read_summary(folder)
        found.whole.append(_SUMMARY)
    except InputError as error:
        found.damaged[_SUMMARY] = f"cannot be trusted: {error}"
        summary = _lenient(folder / _SUMMARY)
    sizes, digests = (
        value if isinstance(value := summary.get(name), dict) else {}
        for name in ("files", "checksums")
    )
    for name in sorted({*ALWAYS, *sizes} - {_SUMMARY, CARD_FILE}):
        found.compare(folder, name, digests.get(name), size=sizes.get(name))
    if CARD_FILE in digests and (folder / CARD_FILE).is_file():
        if file_checksum(folder / CARD_FILE) == digests[CARD_FILE]:
            found.whole.append(CARD_FILE)
        else:
            found.edited.append(CARD_FILE)
    _check_names(folder, found)
    graph = folder / GRAPH_FOLDER
    if graph.is_dir():
        found.include(_store(graph), GRAPH_FOLDER)
    elif summary.get("keeps_graph"):
        # A run may be passed on without its graph; only a part of one is damage.
        found.remedies.append(
            f"{GRAPH_FOLDER}/ was taken out, which is allowed; name the graph with --graph where a "
            f"command asks for it"
        )
    if not found.damaged:
        try:
            Run(folder, summary).result()
        except InputError as error:
            found.damaged[_SUMMARY] = str(error)
    _advise(folder, found)
    return found


def _check_names(folder: Path, found: Diagnosis) -> None:
    if (folder / NAMES_FILE).is_file():
        try:
            _ = Run(folder, {}).renamed
            found.whole.append(NAMES_FILE)
        except InputError:
            found.damaged[NAMES_FILE] = "has changed since it was written"
    made = [name for name in DERIVED if name != NAMES_FILE and (folder / name).is_file()]
    found.unchecked += made


def _advise(folder: Path, found: Diagnosis) -> None:
    """Say what can be made again from what is whole."""
    inner = [name for name in found.damaged if name.split("/")[0] == GRAPH_FOLDER]
    outputs = [n for n in found.damaged if n not in (*inner, NAMES_FILE, "config.toml")]
    has_graph = not inner and (folder / GRAPH_FOLDER).is_dir()
    if NAMES_FILE in found.damaged:
        found.remedies.append(f"remove {folder / NAMES_FILE}; names given to groups are lost")
    if inner:
        found.remedies.append(
            f"the run itself does not need {folder / GRAPH_FOLDER}; name its graph with --graph"
        )
    if "config.toml" in found.damaged:
        found.remedies.append(
            "write config.toml again from 'method' of summary.json, or undo the change"
            if _SUMMARY not in found.damaged
            else "the settings are lost with config.toml and summary.json"
        )
    elif outputs:
        graph = folder / GRAPH_FOLDER if has_graph else "GRAPH"
        found.remedies.append(
            f"fit it again: graphham fit {graph} --config {folder / 'config.toml'} --out NEW"
        )


def _partial(folder: Path) -> Diagnosis:
    found = Diagnosis("run in progress")
    final = folder.with_name(folder.name.removesuffix(".partial"))
    try:
        read_config(folder / "config.toml")
        found.unchecked.append("config.toml")
    except InputError as error:
        found.damaged["config.toml"] = f"cannot be read: {error}"
    try:
        state = checkpoints.load_checkpoint(folder)
        found.whole += [path.name for path in checkpoints.checkpoint_files(folder)]
        begun = "from its last checkpoint" if state else "from the start; it has no checkpoint yet"
    except InputError as error:
        found.damaged[checkpoints.POINTER] = str(error)
    if found.damaged:
        found.remedies.append(f"start anew: fit with --out {final} --overwrite")
    else:
        found.remedies.append(f"fit with --out {final} --resume continues {begun}")
    return found


def _lenient(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
