"""Compare methods on one graph, for a user who wants to know which suits it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graphham.errors import InputError
from graphham.evaluate.cells import Cell, CellStore
from graphham.evaluate.reporting import (
    comparison_tables,
    hierarchy_table,
    link_detail_table,
    select,
)
from graphham.evaluate.running import Outcome, run_cells
from graphham.evaluate.splits import num_folds
from graphham.evaluate.tables import Table
from graphham.system.atomic import write_json

if TYPE_CHECKING:
    from graphham.graph.graph import Graph
    from graphham.system.console import Screen


def compare_methods(
    graph: Graph,
    kind: str,
    methods: Sequence[str],
    protocol: str,
    folds: int,
    seeds: Sequence[int],
    budget: int,
    out: Path,
    screen: Screen,
    keep: bool = False,
) -> tuple[Outcome, list[Table], list[Path]]:
    """Measure methods on every fold of every seed and lay the scores side by side.

    Args:
        graph: The graph.
        kind: ``classify`` or ``links``.
        methods: Names in the registry; the others are tested against the first.
        protocol: See :data:`graphham.evaluate.splits.PROTOCOLS`.
        folds: Number of folds.
        seeds: Of splits and methods.
        budget: Settings each method may try on validation data.
        out: Results folder; finished cells in it are kept.
        screen: Where progress is shown.
        keep: Leave the fitted method as a run folder in every cell.

    Returns:
        What became of the cells, the tables, and the files written.
    """
    _check_same_graph(graph, out)
    cells = [
        Cell(kind, graph.name, protocol, method, seed, fold, folds, budget)
        for seed in seeds
        for fold in range(num_folds(protocol, folds))
        for method in methods
    ]
    store = CellStore(out)
    outcome = run_cells(cells, store, screen, graph=graph, keep=keep)
    ordered = sorted(cells, key=lambda cell: methods.index(cell.method))
    records = select(outcome.records, ordered)
    if all(record.get("status") == "refused" for record in records):
        reasons = [str(record.get("reason")) for record in records]
        raise InputError(reasons[0] if reasons else "no cell could be measured")
    tables = comparison_tables(records, kind, methods[0])
    if kind == "links":
        tables.append(link_detail_table(records))
    found = hierarchy_table(records, "hierarchy", "Hierarchy of the same runs")
    if found.rows:
        tables.append(found)
    names = [f"{kind}-{protocol}", "link-metrics" if kind == "links" else "", "hierarchy"]
    files = [name for name in names if name]
    paths = [
        path
        for table, name in zip(tables, files, strict=False)
        for path in table.write(out / "tables", name)
    ]
    return outcome, tables, paths


def _check_same_graph(graph: Graph, out: Path) -> None:
    """Refuse to mix the results of two graphs in one folder."""
    import json

    path = out / "graph.json"
    facts = {"name": graph.name, "fingerprint": graph.fingerprint()}
    if path.is_file():
        known = json.loads(path.read_text(encoding="utf-8"))
        if known.get("fingerprint") != facts["fingerprint"]:
            raise InputError(
                f"{out} holds results of another graph than {graph.name!r}; choose another --out"
            )
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make {out}: {error.strerror}; choose another --out") from error
    write_json(path, facts)
