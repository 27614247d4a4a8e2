"""Measure the cells of the studies: those any user can measure, and the kinds only we need."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.planted_cases import is_planted, planted_graph
from graphham.evaluate import running
from graphham.evaluate.cells import Cell
from graphham.evaluate.running import Measured

if TYPE_CHECKING:
    from graphham.graph.graph import Graph


def measure(
    cell: Cell, graph: Graph | None = None, place: Path | None = None, **more: Any
) -> Measured:
    """Do the work of one cell.

    Args:
        cell: What to measure; ``hierarchy``, ``portrait``, ``facts`` and ``core`` are kinds of
            ours, the others are measured as ``graphham evaluate`` does.
        graph: The graph; looked up by the cell's name when not given.
        place: Folder of the cell, for kinds that leave a run folder.
        **more: Passed on to :func:`graphham.evaluate.running.measure`.
    """
    if cell.kind == "hierarchy":
        from experiments.hierarchy_cells import measure_hierarchy

        return measure_hierarchy(cell)
    if cell.kind == "core":
        from experiments.core import measure_core

        return measure_core(cell), {}
    if cell.kind == "facts":
        from graphham.datasets import table1_rows

        return {"metrics": table1_rows([cell.graph])[0]}, {}
    graph = load_graph(cell.graph, cell.seed) if graph is None else graph
    if cell.kind == "portrait":
        from experiments.figure_data import measure_portrait

        return measure_portrait(cell, graph, place)
    return running.measure(cell, graph, place, **more)


@functools.lru_cache(maxsize=2)
def load_graph(name: str, seed: int = 0) -> Graph:
    """Return a dataset or, for the seed, a planted graph by name."""
    return planted_graph(name, seed)[0] if is_planted(name) else running.load_graph(name)
