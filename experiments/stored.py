"""Stored cells: what the repository keeps of finished cells, one file per study.

``results/table2.jsonl`` holds the records of Table 2, one cell per line, sorted. Cells are folders
with arrays and run folders beside the record; the stored lines hold the records only, so that
anyone who clones the source can make RESULTS.md again and compare.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from experiments.cell_file import read_cells
from experiments.few_labels import measure_cell
from experiments.paper_sentences import gap_scores
from experiments.studies import load_study, study_names, study_rank
from experiments.versions import cell_version, is_current, table_version
from graphham.errors import InputError
from graphham.evaluate.cells import Cell, CellStore, Record, rounded
from graphham.system.atomic import write_bytes

# Cells that no study names: other methods, seeds or settings someone asked for.
OTHER = "other"
# Studies with a file of their own whose cells are the tables' too: one fit serves both.
SHARED = "few_labels"
_DIGITS = 5
_KEPT = (
    "cell",
    "status",
    "reason",
    "metrics",
    "hierarchy",
    "gaps",
    "validation",
    "chosen",
    "split",
    "cost",
    "versions",
)

_EARLIER = (
    "Cells of GraphHAM and its ablations were measured before its groups became a block model of "
    "links and features, which ended second opinions and learned link scores too. They do not "
    "describe the present version."
)


def earlier_note(records: Iterable[Record]) -> str:
    """Return a remark if records were made by GraphHAM as it was before the block model."""
    parts = (record.get(part) or {} for record in records for part in ("metrics", "hierarchy"))
    # Only that version measured how the layers nest before the levels are combined.
    return _EARLIER if any("nesting_evidence" in part for part in parts) else ""


def read_stored(root: str | Path, names: Iterable[str] | None = None) -> dict[str, Record]:
    """Return stored records by cell key.

    Args:
        root: Results folder.
        names: Studies in whose files to look; all when not given. A cell that several studies
            share is in the file of the first of them.
    """
    found: dict[str, Record] = {}
    for name in (*study_names(), OTHER) if names is None else names:
        path = Path(root) / f"{name}.jsonl"
        if not path.is_file():
            continue
        try:
            for line in path.read_text(encoding="utf-8").splitlines():
                record = json.loads(line)
                found[Cell.from_dict(record["cell"]).key] = record
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} holds no stored cells ({error}); restore it") from error
    return found


def read_shared(root: str | Path) -> dict[str, Record]:
    """Return the cells of few and many labels that a table has too, by key."""
    found = read_cells(Path(root) / f"{SHARED}.jsonl")
    named = {cell.key for name in study_names() for cell in load_study(name).cells} if found else ()
    return {key: found[key] for key in found if key in named}


def read_known(root: str | Path) -> dict[str, Record]:
    """Return every record a table may be made of: stored ones, and shared ones that these lack."""
    return {**read_shared(root), **read_stored(root)}


def is_fresh(cell: Cell, record: Record | None, shared: bool = False) -> bool:
    """Tell whether a cell has a record of the present version of the code.

    Args:
        cell: What was measured.
        record: Its record, if there is one.
        shared: Whether the record is one of :func:`read_shared`.
    """
    measured = cell_version(cell, measure_cell) if shared else table_version(cell)
    return record is not None and is_current(record, measured)


def gather(root: str | Path) -> tuple[int, list[Path]]:
    """Bring the finished cells of a results folder into its stored lines.

    A cell that was measured again replaces its old line; lines whose cells are not on this machine
    stay, except old ones of cells that :func:`read_shared` has as well.

    Returns:
        The number of cells gathered, and the files written.
    """
    root = Path(root)
    store = CellStore(root)
    known = read_stored(root)
    fresh = [_short(record) for record in store.records()]
    for record in fresh:
        known[Cell.from_dict(record["cell"]).key] = record
    _add_gaps(known, store)
    for key, record in read_shared(root).items():
        cell = Cell.from_dict(record["cell"])
        if key in known and not is_fresh(cell, known[key]):
            del known[key]
    return len(fresh), write_stored(root, known)


def write_stored(root: Path, records: dict[str, Record]) -> list[Path]:
    """Write all records, each into the file of the first study that names its cell.

    Files without a record any more are removed.
    """
    homes: dict[str, str] = {}
    for name in sorted(study_names(), key=study_rank):
        for cell in load_study(name).cells:
            homes.setdefault(cell.key, name)
    lines: dict[str, list[str]] = {}
    for key in sorted(records):
        text = json.dumps(records[key], ensure_ascii=False, sort_keys=True)
        lines.setdefault(homes.get(key, OTHER), []).append(text + "\n")
    paths = []
    for name, found in sorted(lines.items()):
        path = root / f"{name}.jsonl"
        root.mkdir(parents=True, exist_ok=True)
        write_bytes(path, "".join(found).encode())
        paths.append(path)
    for name in {*study_names(), OTHER} - set(lines):
        (root / f"{name}.jsonl").unlink(missing_ok=True)
    return paths


def commits(records: Iterable[Record]) -> list[str]:
    """Return the commits the records were measured with, in alphabetical order."""
    return sorted({r.get("versions", {}).get("commit") for r in records} - {None})


def _short(record: Record) -> Record:
    kept = {name: record[name] for name in _KEPT if name in record}
    if len(record.get("tried", [])) > 1:
        kept["tried"] = [
            {"settings": one["settings"], "validation": one["validation"]}
            for one in record["tried"]
        ]
    short: Record = rounded(kept, _DIGITS)
    return short


def _add_gaps(known: dict[str, Record], store: CellStore) -> None:
    """Keep what Figure 6 says in numbers, where the arrays are on this machine."""
    for record in known.values():
        if record["cell"]["kind"] == "portrait" and record.get("status") == "done":
            found = gap_scores(store.read_arrays(Cell.from_dict(record["cell"])))
            if found:
                record["gaps"] = rounded(found, _DIGITS)
