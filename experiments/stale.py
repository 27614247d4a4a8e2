"""Say which stored cells are of another version of the code, and what it takes to renew them."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cell_file import read_cells
from experiments.planted_sizes import STANDINS
from experiments.stored import OTHER, SHARED, is_fresh, read_shared, read_stored
from experiments.studies import load_study, study_names, study_rank
from experiments.versions import cell_version, is_current, study_version, table_version
from graphham.datasets.catalog import CATALOG
from graphham.evaluate.cells import Cell, CellStore, Record

# Studies with a file of their own: the module that measures, and in it what does the work.
FILES = {
    "few_labels": "few_labels:measure_cell",
    "hierarchy_study": "hierarchy_study:measure_cell",
    "explanation": "explanation_study:measure_cell",
    "size": "size_study:measure_cell",
}
# Studies whose lines are no cells; a run measures all of them.
WHOLE = {"structure": "structure_study:runs", "mixture": "mixture_study:study"}
_UNKNOWN = "?"


@dataclass
class Part:
    """The cells of one method in one study.

    Args:
        study: Name of the study, which is that of its file.
        method: Name of the method.
        command: What measures its stale and missing cells.
        current: Cells of the present version.
        stale: Cells of others.
        missing: Cells never measured.
        seconds: What the stale and missing ones will take.
        commits: Commits that the stale ones were measured with.
    """

    study: str
    method: str
    command: str
    current: int = 0
    stale: int = 0
    missing: int = 0
    seconds: float = 0.0
    commits: set[str] = field(default_factory=set)


class Costs:
    """Seconds of finished cells, which say what others will take.

    Seconds of the processor count before those of the clock, which a busy machine makes long.

    Args:
        records: Finished cells.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        # By clock (last) and processor (first), then by what is alike.
        self._alike: tuple[dict[tuple[str, ...], list[float]], ...] = ({}, {})
        self._graphs: tuple[dict[tuple[str, str], dict[str, list[float]]], ...] = ({}, {})
        for record in records:
            spent = cost_of(record)
            if spent is None or "cell" not in record:
                continue
            cell = Cell.from_dict(record["cell"])
            at = 0 if _has_processor(record) else 1
            for name in (*_likeness(cell), (cell.kind, cell.graph)):
                self._alike[at].setdefault(name, []).append(spent / cell.budget)
            graphs = self._graphs[at].setdefault((cell.kind, _like(cell)), {})
            graphs.setdefault(cell.graph, []).append(spent / cell.budget)

    def of(self, cell: Cell, record: Record | None = None) -> float:
        """Return the likely seconds of a cell.

        Its own last time, or the mean of those alike; on a graph that its method never saw, the
        time on the one nearest in size by numbers of nodes and links.
        """
        own = cost_of(record) if record is not None else None
        if record is not None and own is not None and _has_processor(record):
            return own
        for at in (0, 1):
            if at and own is not None:
                return own
            for name in _likeness(cell):
                if name in self._alike[at]:
                    return cell.budget * float(np.mean(self._alike[at][name]))
            scaled = self._by_size(cell, self._graphs[at])
            if scaled is not None:
                return cell.budget * scaled
        others = [v for at in (0, 1) for v in self._alike[at].get((cell.kind, cell.graph), [])]
        return float(np.mean(others)) if others else 0.0

    @staticmethod
    def _by_size(
        cell: Cell, graphs: Mapping[tuple[str, str], Mapping[str, list[float]]]
    ) -> float | None:
        """Return the seconds of the method on the graph nearest in size, by size."""
        size = _size(cell.graph)
        # Portraits and the like are fits too.
        kinds = (cell.kind,) if cell.kind in ("classify", "links") else (cell.kind, "classify")
        for kind in kinds:
            found = graphs.get((kind, _like(cell)), {})
            sizes = {graph: known for graph in found if (known := _size(graph))}
            if size and sizes:
                near = min(sizes, key=lambda graph: abs(np.log(size / sizes[graph])))
                return float(np.mean(found[near]) * size / sizes[near])
            if found:
                return float(np.mean([np.mean(values) for values in found.values()]))
        return None


def cost_of(record: Record) -> float | None:
    """Return the seconds a record says it took: of the processor where it knows them.

    A fit that another cell made is not counted again.
    """
    cost = record.get("cost", {})
    for name in ("cpu_seconds", "search_seconds", "seconds"):
        if name in cost:
            times = int(record.get("cell", {}).get("settings", {}).get("seeds", 1))
            spared = 0.0 if name == "cpu_seconds" else float(cost.get("shared_seconds", 0.0))
            return max(0.0, float(cost[name]) - spared) * times
    if "cell" in record:
        return None
    return float(record.get("cpu_seconds") or record.get("cpu") or 0.0)


def _has_processor(record: Record) -> bool:
    return "cpu_seconds" in record.get("cost", {})


def _likeness(cell: Cell) -> list[tuple[str, ...]]:
    kind, graph, method = cell.kind, cell.graph, _like(cell)
    return [(kind, graph, cell.protocol, method), (kind, graph, method)]


def _like(cell: Cell) -> str:
    """Return the method a cell costs as much as: ours without a part takes as long as with it."""
    if cell.settings.get("preset") == "paper":
        return "graphham-paper"
    return "graphham" if cell.method.startswith("graphham-no-") else cell.method


def _size(graph: str) -> float:
    """Return nodes and links of a dataset or a stand-in of one; 0 where nobody says."""
    base, _, part = graph.partition("/")
    if base in STANDINS:
        nodes = STANDINS[base].nodes / int(part or 1)
        return nodes * (1 + STANDINS[base].degree / 2)
    return CATALOG[graph].nodes + CATALOG[graph].edges if graph in CATALOG else 0.0


def stale_parts(root: str | Path, names: Sequence[str] = ()) -> list[Part]:
    """Compare every stored cell with the present code.

    Args:
        root: Results folder.
        names: Only these studies; all when there are none.
    """
    root = Path(root)
    stored = read_stored(root)
    for record in CellStore(root).records():
        stored[Cell.from_dict(record["cell"]).key] = record
    shared = read_shared(root)
    costs = Costs([*stored.values(), *read_cells(root / f"{SHARED}.jsonl").values()])
    parts: list[Part] = []
    seen: set[str] = set()
    for name in sorted(study_names(), key=study_rank):
        cells = [cell for cell in load_study(name).cells if cell.key not in seen]
        seen |= {cell.key for cell in cells}
        # What another file holds is renewed there, unless it is of today here.
        mine = [c for c in cells if c.key not in shared or is_fresh(c, stored.get(c.key))]
        parts += _study_parts(name, mine, stored, costs)
    left = [record for key, record in stored.items() if key not in seen]
    parts += _other_parts(left)
    for name, place in FILES.items():
        records = read_cells(root / f"{name}.jsonl")
        parts += _file_parts(name, place, records, Costs(records.values()))
    parts += [part for name, place in WHOLE.items() for part in _whole_part(root, name, place)]
    return [part for part in parts if not names or part.study in names]


def counts(parts: Iterable[Part]) -> tuple[int, int]:
    """Return how many stored cells are of the present version, and how many there are."""
    listed = list(parts)
    current = sum(part.current for part in listed)
    return current, current + sum(part.stale for part in listed)


def stale_text(parts: Sequence[Part]) -> str:
    """Return the plan as text: studies, their methods, cells, seconds, commands."""
    lines: list[str] = []
    for study in dict.fromkeys(part.study for part in parts):
        todo = [p for p in parts if p.study == study and p.stale + p.missing]
        mine = [p for p in parts if p.study == study]
        current, total = counts(mine)
        missing = sum(p.missing for p in mine)
        lines.append(
            f"{study}: {current:,} of {total:,} stored cells are of the present version"
            + (f", {missing:,} were never measured" if missing else "")
            + (f"; about {sum(p.seconds for p in todo):,.0f} CPU-seconds" if todo else "")
        )
        width = max((len(p.method) for p in todo), default=0)
        for part in todo:
            facts = [f"{part.stale:,} stale"] if part.stale else []
            facts += [f"{part.missing:,} missing"] if part.missing else []
            named = f"  (of {_shortened(part.commits)})" if part.commits else ""
            lines.append(
                f"  {part.method:<{width}}  {', '.join(facts):<24} {part.seconds:>9,.0f} s  "
                f"{part.command}{named}"
            )
    current, total = counts(parts)
    seconds = sum(part.seconds for part in parts)
    lines += [
        "",
        f"All: {current:,} of {total:,} stored cells are of the present version; "
        f"the others and those missing take {seconds:,.0f} CPU-seconds ({seconds / 3600:.1f} h).",
    ]
    return "\n".join(lines)


def _shortened(commits: Iterable[str], most: int = 3) -> str:
    named = sorted(commits)
    more = f" and {len(named) - most} more" if len(named) > most else ""
    return ", ".join(named[:most]) + more


def _tally(parts: dict[str, Part], part: Part, record: Record | None, is_new: bool) -> Part:
    kept = parts.setdefault(part.method, part)
    if record is None:
        kept.missing += 1
    elif is_new:
        kept.current += 1
    else:
        kept.stale += 1
        kept.commits.add(str(record.get("versions", {}).get("commit", _UNKNOWN)))
    return kept


def _study_parts(
    name: str, cells: Iterable[Cell], stored: Mapping[str, Record], costs: Costs
) -> list[Part]:
    parts: dict[str, Part] = {}
    for cell in cells:
        record = stored.get(cell.key)
        is_new = is_fresh(cell, record)
        command = f"graphham reproduce {name} --renew --methods {cell.method}"
        part = _tally(parts, Part(name, cell.method, command), record, is_new)
        if not is_new:
            part.seconds += costs.of(cell, record)
    return list(parts.values())


def _other_parts(records: Iterable[Record]) -> list[Part]:
    """Count cells that no study names any more; nothing measures them again."""
    parts: dict[str, Part] = {}
    for record in records:
        cell = Cell.from_dict(record["cell"])
        is_new = is_current(record, table_version(cell))
        part = Part(OTHER, cell.method, f"no study names them; remove them from {OTHER}.jsonl")
        _tally(parts, part, record, is_new)
    return list(parts.values())


def _file_parts(name: str, place: str, records: Mapping[str, Record], costs: Costs) -> list[Part]:
    module, function = _function(place)
    parts: dict[str, Part] = {}
    for record in records.values():
        cell = Cell.from_dict(record["cell"])
        is_new = is_current(record, cell_version(cell, function))
        command = f"python -m experiments.{module} --stale {cell.method}"
        part = _tally(parts, Part(name, cell.method, command), record, is_new)
        if not is_new:
            part.seconds += costs.of(cell, record)
    return list(parts.values())


def _whole_part(root: Path, name: str, place: str) -> list[Part]:
    path = root / f"{name}.jsonl"
    if not path.is_file():
        return []
    module, function = _function(place)
    parts: dict[str, Part] = {}
    version = study_version(function)
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        is_new = is_current(record, version)
        part = _tally(parts, Part(name, "all", f"python -m experiments.{module}"), record, is_new)
        part.seconds += 0.0 if is_new else cost_of(record) or 0.0
    return list(parts.values())


def _function(place: str) -> tuple[str, Callable[..., Any]]:
    module, _, name = place.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(f"experiments.{module}"), name)
    return module, found
