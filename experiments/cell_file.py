"""Finished cells as the lines of one file, which another run goes on with.

Several processes may share a file: it is looked at before every cell.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from experiments.versions import cell_version, is_current
from graphham.errors import InputError
from graphham.evaluate.cells import Cell, Record, rounded
from graphham.evaluate.running import versions
from graphham.evaluate.tables import Table

Measure = Callable[[Cell], Record]
# The cells of a study, and what makes tables of the finished ones.
Plan = tuple[Iterable[Cell], Callable[[Mapping[str, Record]], Iterable[Table]]]
_DIGITS = 5


def read_cells(path: Path) -> dict[str, Record]:
    """Return the finished cells of a file by key; none where there is no file.

    Of a cell that was measured again the last line counts.
    """
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
    cells: Iterable[Cell],
    path: Path,
    measure: Measure,
    say: Callable[[str], None] = print,
    renew: bool = False,
) -> None:
    """Measure the cells that a file lacks, and add each as a line once it is finished.

    Args:
        cells: What to measure.
        path: The file; looked at before every cell, so that processes can share it.
        measure: Does the work of a cell.
        say: Hears of every finished cell.
        renew: Measure cells of other versions of the code again.
    """
    todo = list(cells)
    # Before the first cell: the source may change while they are measured, the loaded code cannot.
    code = {cell.key: cell_version(cell, measure) for cell in todo}
    for number, cell in enumerate(todo, 1):
        known = read_cells(path).get(cell.key)
        if known is not None and (not renew or is_current(known, code[cell.key])):
            continue
        record = {"cell": cell.to_dict(), "status": "done"}
        try:
            record |= measure(cell)
        except InputError as error:
            record |= {"status": "refused", "reason": str(error)}
        whole = rounded({**record, "versions": versions(code[cell.key])}, _DIGITS)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(whole, ensure_ascii=False, sort_keys=True) + "\n")
        metrics = whole.get("metrics", whole.get("reason"))
        if isinstance(metrics, dict):
            metrics = metrics.get("micro_f1", metrics.get("accuracy"))
        name = f"{cell.graph} {cell.protocol} {cell.method} {cell.seed}"
        say(f"{number}/{len(todo)} {name}: {metrics}")


def command(module: str, about: str | None, file: Path) -> argparse.ArgumentParser:
    """Return the command of a study: its options about the file are everybody's."""
    parser = argparse.ArgumentParser(
        prog=f"python -m experiments.{module}",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--file", type=Path, default=file, help="where finished cells are")
    parser.add_argument("--show", action="store_true", help="measure nothing")
    parser.add_argument(
        "--stale",
        nargs="*",
        metavar="METHOD",
        help="measure the file's cells of other versions of the code again, of these methods or "
        "of all, and nothing else",
    )
    return parser


def follow(given: argparse.Namespace, measure: Measure, plan: Callable[[], Plan]) -> int:
    """Measure what is missing, print the tables, and return the command's exit code.

    Args:
        given: What the options of :func:`command` say.
        measure: Does the work of a cell.
        plan: Reads the other options; what is wrong with them it says by an :class:`InputError`.
    """
    try:
        if given.stale is not None:
            run(
                stale_cells(given.file, measure, given.stale), given.file, measure, _print_now, True
            )
            sort_cells(given.file)
            return 0
        cells, tables = plan()
        if not given.show:
            run(cells, given.file, measure, _print_now)
        for table in tables(read_cells(given.file)):
            print(f"\n## {table.title}\n\n{table.markdown()}")
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def stale_cells(path: Path, measure: Measure, methods: Iterable[str] = ()) -> list[Cell]:
    """Return the cells of a file that another version of the code measured.

    Args:
        path: The file.
        measure: What measures its cells.
        methods: Only those of these methods; of all when there are none.
    """
    wanted = set(methods)
    known = [(Cell.from_dict(record["cell"]), record) for record in read_cells(path).values()]
    return [
        cell
        for cell, record in known
        if (not wanted or cell.method in wanted)
        and not is_current(record, cell_version(cell, measure))
    ]


def _print_now(text: str) -> None:
    print(text, flush=True)


def sort_cells(path: Path) -> None:
    """Write the lines of a file in the order of their keys, so that two branches merge well."""
    found = read_cells(path)
    lines = [json.dumps(found[key], ensure_ascii=False, sort_keys=True) for key in sorted(found)]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
