"""Versions of cells: hashes of the code behind each, and which of them are the present ones."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from experiments.hierarchy_peers import PEERS
from experiments.planted_cases import is_planted, planted_roots
from graphham.evaluate.cells import Cell, Record
from graphham.evaluate.code_version import MEASURES, code_version, method_roots, reader_roots
from graphham.evaluate.learned_links import measure_learned_links

# The last four are kinds that only we measure; see measuring.py.
_MEASURES = {
    **MEASURES,
    "hierarchy": "experiments.hierarchy_cells:measure_hierarchy",
    "core": "experiments.core:measure_core",
    "portrait": "experiments.figure_data:measure_portrait",
    "facts": "graphham.datasets.table:table1_rows",
}
# Tables of many peers and graphs: a cell depends on its own only, which is a root of its own.
_STOPS = (
    "experiments.hierarchy_peers:PEERS",
    "experiments.planted_cases:is_planted",
    "experiments.planted_cases:planted_graph",
)


def cell_version(cell: Cell, measure: Callable[..., Any] | None = None) -> str:
    """Return the version of the code that a cell's number depends on.

    Args:
        cell: What is measured.
        measure: What measures it, for the cells of a study with a file of its own; by the cell's
            kind when not given.
    """
    base = cell.graph.partition("+")[0]
    roots, more = planted_roots(base) if is_planted(base) else (reader_roots(base), "")
    place = _MEASURES[cell.kind] if measure is None else _place(measure)
    return code_version([*roots, place, *_method_roots(cell.method)], _STOPS, more)


def table_version(cell: Cell) -> str:
    """Return the version of a cell of the tables, some of which a learned scorer measures.

    Apart from :func:`cell_version`, whose text is part of the versions of the studies with files of
    their own: their commands lead to it.
    """
    return cell_version(cell, measure_learned_links if cell.is_learned else None)


def study_version(measure: Callable[..., Any]) -> str:
    """Return the version of the code of a study that has no cells."""
    return code_version([_place(measure)], _STOPS)


def is_current(record: Record, version: str) -> bool:
    """Tell whether a stored record comes from a version; old ones that name none do not."""
    return bool(record.get("versions", {}).get("code") == version)


def _method_roots(name: str) -> list[str]:
    if name in PEERS:
        made = PEERS[name][1]
        return [f"{made.__module__}:{made.__qualname__.partition('.')[0]}"]
    # Names of variants stand for settings of ours, and those are part of the cell.
    return method_roots(name)


def _place(function: Callable[..., Any]) -> str:
    """Return where a function is, also in a module that is being run as a command."""
    module = function.__module__
    if module == "__main__":
        spec = sys.modules["__main__"].__spec__
        module = spec.name if spec is not None else module
    return f"{module}:{function.__qualname__}"
