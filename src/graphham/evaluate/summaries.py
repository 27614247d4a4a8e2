"""Summaries: what the repository keeps of finished cells, one small file per graph and protocol.

Cells are folders with arrays and run folders beside the record; the summaries hold the records
only, one line each, so that anyone who clones the source can make RESULTS.md again and compare.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from graphham.errors import InputError
from graphham.evaluate.cells import Cell, CellStore, Record, rounded
from graphham.evaluate.hierarchy_scores import stability
from graphham.system.atomic import write_bytes

FORMAT = "graphham-summary"
_DIGITS = 5
_KEPT = (
    "cell",
    "status",
    "reason",
    "metrics",
    "hierarchy",
    "stability",
    "validation",
    "chosen",
    "split",
    "cost",
    "versions",
)


def summaries_folder(root: Path) -> Path:
    """Return where the summaries of a results folder are."""
    return root / "summaries"


def read_summaries(root: str | Path) -> dict[str, Record]:
    """Return all summarised records by cell key."""
    found: dict[str, Record] = {}
    for path in sorted(summaries_folder(Path(root)).glob("*.json")):
        try:
            whole = json.loads(path.read_text(encoding="utf-8"))
            versions = whole["versions"]
            for line in whole["records"]:
                record = {**line, "versions": versions[line["versions"]]}
                found[Cell.from_dict(record["cell"]).key] = record
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            raise InputError(f"{path} is no summary of cells ({error}); restore it") from error
    return found


def gather(root: str | Path) -> tuple[int, list[Path]]:
    """Bring the finished cells of a results folder into its summaries.

    A cell that was measured again replaces its old line; lines whose cells are not on this machine
    stay.

    Returns:
        The number of cells gathered, and the files written.
    """
    root = Path(root)
    store = CellStore(root)
    known = read_summaries(root)
    fresh = [_short(record) for record in store.records()]
    for record in fresh:
        known[Cell.from_dict(record["cell"]).key] = record
    _add_stability(known, store)
    files: dict[str, list[Record]] = {}
    for key in sorted(known):
        cell = known[key]["cell"]
        name = ".".join(Cell.from_dict(cell).key.split("/")[:3])
        files.setdefault(name, []).append(known[key])
    paths = []
    for name, records in files.items():
        path = summaries_folder(root) / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, _text(records).encode())
        paths.append(path)
    return len(fresh), paths


def _short(record: Record) -> Record:
    kept = {name: record[name] for name in _KEPT if name in record}
    if len(record.get("tried", [])) > 1:
        kept["tried"] = [
            {"settings": one["settings"], "validation": one["validation"]}
            for one in record["tried"]
        ]
    short: Record = rounded(kept, _DIGITS)
    return short


def _add_stability(known: dict[str, Record], store: CellStore) -> None:
    """Compare the groups of different seeds, where their arrays are on this machine."""
    families: dict[str, list[str]] = {}
    for key, record in known.items():
        cell = record["cell"]
        if cell["kind"] == "hierarchy" and record.get("status") == "done":
            family = key.rsplit("/", 1)[0] + json.dumps(cell["settings"], sort_keys=True)
            families.setdefault(family, []).append(key)
    for keys in families.values():
        # Seeds of planted graphs are different graphs; their groups cannot be compared.
        if any("truth_nmi_1" in known[key]["metrics"] for key in keys):
            continue
        arrays = [store.read_arrays(Cell.from_dict(known[key]["cell"])) for key in keys]
        if len(arrays) < 2 or not all(arrays):
            continue
        names = [name for name in arrays[0] if name.startswith("level_")]
        found = {name: stability([one[name] for one in arrays]) for name in names}
        for key in keys:
            known[key]["stability"] = rounded(found, _DIGITS)


def _text(records: Iterable[Record]) -> str:
    """Write one line per record, the versions once: small, and readable in a diff."""
    versions: list[Any] = []
    lines = []
    for record in records:
        if record["versions"] not in versions:
            versions.append(record["versions"])
        line = {**record, "versions": versions.index(record["versions"])}
        lines.append(json.dumps(line, ensure_ascii=False, sort_keys=True))
    head = f'{{"format": "{FORMAT}",\n"versions": {json.dumps(versions, sort_keys=True)},\n'
    return head + '"records": [\n' + ",\n".join(lines) + "\n]}\n"


def commits(records: Iterable[Record]) -> list[str]:
    """Return the commits the records were measured with, in order of first use."""
    found = (record.get("versions", {}).get("commit") for record in records)
    return [commit for commit, _ in itertools.groupby(sorted(c for c in found if c))]
