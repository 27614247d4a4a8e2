"""Finished cells as the lines of one file, which another run goes on with.

Several processes may share a file: it is looked at before every cell.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from graphham.errors import InputError
from graphham.evaluate.cells import Cell, Record, rounded
from graphham.evaluate.running import versions

Measure = Callable[[Cell], Record]
_DIGITS = 5


def read_cells(path: Path) -> dict[str, Record]:
    """Return the finished cells of a file by key; none where there is no file."""
    if not path.is_file():
        return {}
    found: dict[str, Record] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            record = json.loads(line)
            found[Cell.from_dict(record["cell"]).key] = record
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"line {number} of {path} is no cell ({error}); remove it") from error
    return found


def run(
    cells: Iterable[Cell], path: Path, measure: Measure, say: Callable[[str], None] = print
) -> None:
    """Measure the cells that a file lacks, and add each as a line once it is finished.

    Args:
        cells: What to measure.
        path: The file; looked at before every cell, so that processes can share it.
        measure: Does the work of a cell.
        say: Hears of every finished cell.
    """
    todo = list(cells)
    for number, cell in enumerate(todo, 1):
        if cell.key in read_cells(path):
            continue
        record = {"cell": cell.to_dict(), "status": "done"}
        try:
            record |= measure(cell)
        except InputError as error:
            record |= {"status": "refused", "reason": str(error)}
        whole = rounded({**record, "versions": versions()}, _DIGITS)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(whole, ensure_ascii=False, sort_keys=True) + "\n")
        metrics = whole.get("metrics", whole.get("reason"))
        score = metrics.get("accuracy") if isinstance(metrics, dict) else metrics
        say(f"{number}/{len(todo)} {cell.graph} {cell.protocol} {cell.method} {cell.seed}: {score}")


def sort_cells(path: Path) -> None:
    """Write the lines of a file in the order of their keys, so that two branches merge well."""
    found = read_cells(path)
    lines = [json.dumps(found[key], ensure_ascii=False, sort_keys=True) for key in sorted(found)]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
