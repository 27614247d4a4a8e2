"""Compare methods on one graph, for a user who wants to know which suits it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from graphham.errors import InputError
from graphham.evaluate.cells import LEARNED, Cell, CellStore
from graphham.evaluate.learned_links import CLUES
from graphham.evaluate.reporting import (
    comparison_tables,
    hierarchy_table,
    link_detail_table,
    select,
)
from graphham.evaluate.running import Outcome, run_cells
from graphham.evaluate.splits import check_protocol, num_folds
from graphham.evaluate.tables import Table
from graphham.methods.registry import method_class
from graphham.system.atomic import write_json

if TYPE_CHECKING:
    from graphham.graph.graph import Graph
    from graphham.system.console import Screen


@dataclass(frozen=True)
class ComparisonPlan:
    """Which methods are compared, and how.

    Args:
        kind: ``classify`` or ``links``.
        methods: Names in the registry; the others are tested against the first.
        protocol: See :data:`graphham.evaluate.splits.PROTOCOLS`.
        folds: Number of folds.
        seeds: Of splits and methods.
        budget: Settings each method may try on validation data.
        is_learned: Rank links by a scorer that is learned beside every method, and without one.
    """

    kind: str
    methods: Sequence[str]
    protocol: str
    folds: int = 5
    seeds: Sequence[int] = (0,)
    budget: int = 1
    is_learned: bool = False

    def __post_init__(self) -> None:
        check_protocol(self.kind, self.protocol)
        for name, value, least in (("folds", self.folds, 2), ("budget", self.budget, 1)):
            if value < least:
                raise InputError(f"--{name} must be at least {least}, got {value}")
        for method in self.methods:
            if self.kind not in method_class(method).tasks:
                raise InputError(
                    f"the method {method} does not serve {self.kind}; see 'graphham methods'"
                )

    @property
    def rows(self) -> Sequence[str]:
        """The methods, and what a learned scorer does without any."""
        return [*self.methods, CLUES] if self.is_learned else self.methods

    def cells(self, graph: str) -> list[Cell]:
        """Return what to measure on a graph of this name, fold by fold."""
        protocol = self.protocol + (LEARNED if self.is_learned else "")
        return [
            Cell(self.kind, graph, protocol, method, seed, fold, self.folds, self.budget)
            for seed in self.seeds
            for fold in range(num_folds(self.protocol, self.folds))
            for method in self.rows
        ]


def compare_methods(
    graph: Graph, plan: ComparisonPlan, out: Path, screen: Screen, keep: bool = False
) -> tuple[Outcome, list[Table], list[Path]]:
    """Measure methods on every fold of every seed and lay the scores side by side.

    Args:
        graph: The graph.
        plan: What to compare.
        out: Results folder; finished cells in it are kept.
        screen: Where progress is shown.
        keep: Leave the fitted method as a run folder in every cell.

    Returns:
        What became of the cells, the tables, and the files written.
    """
    _check_same_graph(graph, out)
    cells = plan.cells(graph.name)
    store = CellStore(out)
    outcome = run_cells(cells, store, screen, graph=graph, keep=keep)
    ordered = sorted(cells, key=lambda cell: plan.rows.index(cell.method))
    records = select(outcome.records, ordered)
    if all(record.get("status") == "refused" for record in records):
        reasons = [str(record.get("reason")) for record in records]
        raise InputError(reasons[0] if reasons else "no cell could be measured")
    named = {f"{plan.kind}-{cells[0].protocol}": comparison_tables(records, plan.kind)[0]}
    if plan.kind == "links":
        named["link-metrics"] = link_detail_table(records)
    hierarchy = hierarchy_table(records, "hierarchy", "Hierarchy of the same runs")
    if hierarchy.rows:
        named["hierarchy"] = hierarchy
    paths = [path for name, table in named.items() for path in table.write(out / "tables", name)]
    return outcome, list(named.values()), paths


def _check_same_graph(graph: Graph, out: Path) -> None:
    """Refuse to mix the results of two graphs in one folder."""
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
