"""Carry stored cells over a change of the code, after a check that it did not move them.

    git worktree add ../before HEAD~3
    python -m experiments.carry ../before --protocols folds --methods gcn gat

A cell's version is a hash of all code its number depends on, and a change may be beside the point
for most of them: what few labels are validated on says nothing about folds. For every method and
protocol that is asked about, the cheapest cell is measured with the old tree and with this one, on
this machine; where both give the same numbers to the last digit the others of that method and
protocol take the present version, which the record says (``carried``: the version it was measured
with). One graph speaks for all others, so graphs that a change touches, such as those with rows of
zeros, have to be left out by ``--not-graphs``. Of classes, the split of every single cell has to be
the same too. Only cells that were of the old tree's version are carried.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.cell_file import read_cells, sort_cells
from experiments.stale import FILES, cost_of
from experiments.stored import read_stored, write_stored
from graphham.errors import InputError
from graphham.evaluate.cells import Cell, Record

ROOT = Path(__file__).parents[1]
# Runs in either tree: versions of cells, their splits, or what measuring them gives.
_CHILD = """
import importlib, json, sys
from experiments.versions import cell_version, table_version
from graphham.evaluate.cells import Cell, rounded
from graphham.evaluate.running import one_thread

def study(name):
    module, _, function = name.partition(":")
    return getattr(importlib.import_module("experiments." + module), function)

for line in sys.stdin:
    asked = json.loads(line)
    cell = Cell.from_dict(asked["cell"])
    work = study(asked["study"]) if asked["study"] else None
    if asked["what"] == "version":
        answer = table_version(cell) if work is None else cell_version(cell, work)
    elif asked["what"] == "split":
        from experiments.few_labels import find_graph
        from graphham.evaluate.splits import node_split
        graph = find_graph(cell.graph, cell.seed)
        answer = node_split(
            graph, cell.protocol, seed=cell.seed, fold=cell.fold, folds=cell.folds
        ).fingerprint()
    else:
        with one_thread():
            if work is None:
                from experiments.measuring import measure
                record = measure(cell)[0]
            else:
                record = work(cell)
        answer = rounded({k: record.get(k) for k in ("metrics", "validation", "chosen")}, 5)
    print(json.dumps(answer, sort_keys=True), flush=True)
"""


@dataclass(frozen=True)
class Stored:
    """A stored record and where it stands.

    Args:
        file: Name of a study with a file of its own, or ``""`` for the tables' files.
        record: The record.
    """

    file: str
    record: Record

    @property
    def cell(self) -> Cell:
        """The cell that was measured."""
        return Cell.from_dict(self.record["cell"])

    @property
    def group(self) -> tuple[str, ...]:
        """Cells that one check speaks for."""
        cell = self.cell
        settings = json.dumps(dict(cell.settings), sort_keys=True)
        return self.file, cell.kind, cell.protocol, cell.method, settings, str(cell.is_learned)


def ask(tree: Path, what: str, asked: Sequence[Stored]) -> list[Any]:
    """Return what the code of a tree answers about cells."""
    lines = [
        json.dumps({"what": what, "cell": one.record["cell"], "study": FILES.get(one.file, "")})
        for one in asked
    ]
    place = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}"}
    done = subprocess.run(
        [sys.executable, "-c", _CHILD],
        input="\n".join(lines),
        cwd=tree,
        env=place,
        text=True,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise InputError(f"{tree} could not tell the {what} of its cells: {done.stderr[-400:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def carried(old: Path, new: Path, candidates: Sequence[Stored]) -> tuple[list[Stored], list[str]]:
    """Return the cells that may take the present version, and what was found of each group.

    Args:
        old: The tree they were measured with.
        new: The present tree.
        candidates: Stored cells.
    """
    before, now = ask(old, "version", candidates), ask(new, "version", candidates)
    groups: dict[tuple[str, ...], list[Stored]] = {}
    for one, was, is_ in zip(candidates, before, now, strict=True):
        if one.record.get("versions", {}).get("code") == was != is_:
            measured = one.record["versions"].get("carried", was)
            one.record["versions"] |= {"carried": measured, "code": is_}
            groups.setdefault(one.group, []).append(one)
    kept: list[Stored] = []
    said: list[str] = []
    for group, members in sorted(groups.items()):
        name = f"{group[1]} {group[2]} {group[3]} {group[4]}"
        if members[0].cell.kind == "classify":
            splits = ask(new, "split", members)
            whole = len(members)
            members = [
                one
                for one, found in zip(members, splits, strict=True)
                if one.record.get("split", {}).get("fingerprint") == found
            ]
            if len(members) < whole:
                said.append(f"{name}: {whole - len(members)} cells have another split now")
        if not members:
            continue
        sample = [min(members, key=lambda one: cost_of(one.record) or 0.0)]
        if ask(old, "measure", sample) == ask(new, "measure", sample):
            kept += members
            said.append(f"{name}: {len(members)} carried, {sample[0].cell.graph} is the same")
        else:
            said.append(f"{name}: {sample[0].cell.graph} moved, {len(members)} stay old")
        print(said[-1], flush=True)
    return kept, said


def main(arguments: Sequence[str] | None = None) -> int:
    """Check and carry what is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.carry",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("old", type=Path, help="a tree with the code that measured the cells")
    parser.add_argument("--root", type=Path, default=ROOT / "experiments" / "results")
    parser.add_argument("--files", nargs="+", default=["", *FILES], metavar="NAME")
    parser.add_argument("--protocols", nargs="+", metavar="NAME")
    parser.add_argument("--methods", nargs="+", metavar="NAME")
    parser.add_argument("--graphs", nargs="+", metavar="NAME")
    parser.add_argument("--not-graphs", nargs="+", default=[], metavar="NAME")
    given = parser.parse_args(arguments)
    stored = {"": read_stored(given.root)}
    stored |= {name: read_cells(given.root / f"{name}.jsonl") for name in FILES}
    asked = [
        one
        for name in given.files
        for record in stored[name].values()
        if record.get("status") == "done"
        for one in [Stored(name, record)]
        if (not given.protocols or one.cell.protocol in given.protocols)
        and (not given.methods or one.cell.method in given.methods)
        and (not given.graphs or one.cell.graph in given.graphs)
        and one.cell.graph not in given.not_graphs
    ]
    try:
        kept, _ = carried(given.old.resolve(), ROOT, asked)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    write(given.root, kept)
    print(f"{len(kept)} of {len(asked)} cells carried")
    return 0


def write(root: Path, kept: Sequence[Stored]) -> None:
    """Write carried records where they stand; the last line of a cell counts."""
    tables = {one.cell.key: one.record for one in kept if not one.file}
    if tables:
        write_stored(root, read_stored(root) | tables)
    for name in sorted({one.file for one in kept if one.file}):
        path = root / f"{name}.jsonl"
        with path.open("a", encoding="utf-8") as file:
            for one in kept:
                if one.file == name:
                    file.write(json.dumps(one.record, ensure_ascii=False, sort_keys=True) + "\n")
        sort_cells(path)


if __name__ == "__main__":
    sys.exit(main())
