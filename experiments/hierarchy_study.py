"""Are the groups real? Hierarchies found without labels, ours beside its peers'.

    python -m experiments.hierarchy_study [--graphs cora ...] [--methods graphham ...] [--show]

Cora, Citeseer and Photo, where both levels are compared with the classes, and planted graphs, where
each is compared with its own truth. Every method makes the same numbers of groups (4 C and C for C
classes, or the planted ones); those that have an opinion are asked for their own too. A cell is one
graph, method and question over all seeds: adjusted mutual information per level, how well the
groups of different seeds agree (same graph only), and processor seconds a seed.

Ours are fitted with one epoch: the groups of a fit, and the memberships shown, are those of the
block model, which is fitted before the network is trained and does not move afterwards
(``tests/experiments/test_hierarchy_study.py`` compares the two). Cells are lines of
``results/hierarchy_study.jsonl``. Photo is a test graph: ``experiments/looks.md`` has a line for
every time it was looked at.
"""

from __future__ import annotations

import functools
import itertools
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

from experiments.cell_file import Plan, command, follow
from experiments.hierarchy_peers import CHOOSERS, PEERS, peer_hierarchy
from experiments.measuring import load_graph
from experiments.planted_cases import COARSE, FINE, is_planted, planted_graph
from graphham.evaluate.cells import Cell, Record
from graphham.evaluate.running import one_thread
from graphham.evaluate.tables import Column, Table
from graphham.graph.graph import Graph
from graphham.methods.registry import make_method

Codes = npt.NDArray[Any]
FILE = Path(__file__).parent / "results" / "hierarchy_study.jsonl"
REAL = ("cora", "citeseer", "amazon-photo")
PLANTED = (
    "tree-70-20-10",
    "tree-60-25-15",
    "tree-50-33-17",
    "tree-40-30-30",
    "tree-unequal",
    "heterophilous",
    "partners",
)
GRAPHS = (*REAL, *PLANTED)
METHODS = (
    "graphham",
    "smooth-kmeans",
    "smooth-ward",
    "spectral-kmeans",
    "leidenalg",
    "paris",
    "nested-sbm",
    "umap-hdbscan",
)
OURS = "graphham"
SEEDS = 5
GIVEN, OWN = "given", "own"


def find_levels(method: str, graph: Graph, groups: Sequence[int], seed: int) -> list[Codes]:
    """Return the groups of each level, fine to coarse.

    Args:
        method: ``graphham``, one of its settings' names, or a peer.
        graph: The graph; labels are not read.
        groups: How many per level; none for the method's own.
        seed: Of the method's draws.
    """
    if method in PEERS:
        return [np.asarray(level) for level in peer_hierarchy(method, graph, groups, seed).levels]
    made = make_method(method, seed=seed, groups=tuple(groups) or None, epochs=1)
    made.fit(graph)
    assert made.levels_ is not None
    return [np.asarray(level) for level in made.levels_]


def measure_cell(cell: Cell, find: Callable[..., list[Codes]] = find_levels) -> Record:
    """Find the groups of a graph with every seed and score them."""
    scores: list[Record] = []
    kept: list[list[Codes]] = []
    seconds: list[float] = []
    for seed in range(int(cell.settings["seeds"])):
        if is_planted(cell.graph):
            graph, truth = planted_graph(cell.graph, seed)
            wanted = [FINE, COARSE]
        else:
            graph = load_graph(cell.graph)
            assert graph.labels is not None
            assert graph.labels.codes is not None
            truth = [graph.labels.codes, graph.labels.codes]
            wanted = [4 * len(graph.labels.classes), len(graph.labels.classes)]
        with one_thread():
            began = _processor_seconds()
            levels = find(cell.method, graph, wanted if cell.protocol == GIVEN else [], seed)
            seconds.append(_processor_seconds() - began)
        kept.append(levels)
        scores.append(level_scores(levels, truth))
    names = scores[0].keys()
    metrics: Record = {name: float(np.mean([score[name] for score in scores])) for name in names}
    metrics |= {f"{name}_by_seed": [score[name] for score in scores] for name in names}
    if not is_planted(cell.graph):
        agreement = level_agreement(kept)
        metrics |= {f"stability_{level}": value for level, value in enumerate(agreement, 1)}
    return {"metrics": metrics, "cost": {"cpu_seconds": float(np.mean(seconds))}}


def level_scores(levels: Sequence[Codes], truth: Sequence[Codes]) -> Record:
    """Return agreement with the truth and the groups in use (a hundredth of the nodes), by level.

    A single level that was found stands for both.
    """
    found: Record = {}
    for number, true in enumerate(truth, 1):
        codes = levels[min(number, len(levels)) - 1]
        known = true >= 0
        found[f"ami_{number}"] = float(adjusted_mutual_info_score(true[known], codes[known]))
        found[f"nmi_{number}"] = float(normalized_mutual_info_score(true[known], codes[known]))
        found[f"groups_{number}"] = len(np.unique(codes))
        sizes = np.bincount(np.unique(codes, return_inverse=True)[1])
        found[f"used_{number}"] = int((sizes >= 0.01 * len(codes)).sum())
    return found


def level_agreement(seeds: Sequence[Sequence[Codes]]) -> list[float]:
    """Return per level the mean agreement of the groups of any two seeds."""
    depth = min(len(levels) for levels in seeds)
    return [
        float(
            np.mean(
                [
                    adjusted_mutual_info_score(one[level], two[level])
                    for one, two in itertools.combinations(seeds, 2)
                ]
                or [1.0]
            )
        )
        for level in range(depth)
    ]


def _processor_seconds() -> float:
    """Return the seconds that this process and those it has waited for have computed."""
    there = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + there.ru_utime + there.ru_stime


def study_cells(
    graphs: Sequence[str] = GRAPHS,
    methods: Sequence[str] = METHODS,
    seeds: int = SEEDS,
) -> list[Cell]:
    """Return the cells of the study, graph by graph."""
    return [
        Cell("hierarchy", graph, protocol, method, settings={"seeds": seeds})
        for graph in graphs
        for protocol in (GIVEN, OWN)
        for method in methods
        if protocol == GIVEN or method not in PEERS or method in CHOOSERS
    ]


def tables(records: Mapping[str, Record], cells: Sequence[Cell]) -> list[Table]:
    """Return the study as tables: at our numbers of groups, at their own, agreement, and cost."""
    found = {
        (cell.protocol, cell.graph, cell.method): records[cell.key]
        for cell in cells
        if cell.key in records
    }
    graphs = list(dict.fromkeys(cell.graph for cell in cells))
    methods = list(dict.fromkeys(cell.method for cell in cells))
    skipped = {
        method: record["reason"]
        for (_, _, method), record in found.items()
        if record["status"] != "done"
    }
    notes = tuple(f"{method} is skipped: {reason}." for method, reason in skipped.items())

    def cell_text(protocol: str, graph: str, method: str) -> str | None:
        record = found.get((protocol, graph, method))
        if record is None or record["status"] != "done":
            return None
        m = record["metrics"]
        text = f"{m['ami_1']:.3f} / {m['ami_2']:.3f}"
        return f"{text} ({m['groups_1']:.0f} > {m['groups_2']:.0f})" if protocol == OWN else text

    def rows(shown: Callable[[str, str], str | None]) -> tuple[dict[str, Any], ...]:
        made = [
            {"method": method, **{graph: shown(graph, method) for graph in graphs}}
            for method in methods
            if method not in skipped
        ]
        return tuple(row for row in made if any(row[graph] is not None for graph in graphs))

    def stable(graph: str, method: str) -> str | None:
        metrics = found.get((GIVEN, graph, method), {}).get("metrics", {})
        if "stability_1" not in metrics:
            return None
        return f"{metrics['stability_1']:.3f} / {metrics.get('stability_2', 1):.3f}"

    def spent(graph: str, method: str) -> str | None:
        cost = found.get((GIVEN, graph, method), {}).get("cost")
        return None if cost is None else f"{cost['cpu_seconds']:.1f}"

    columns = (Column("method", "method"), *(Column(graph, graph) for graph in graphs))
    given = (
        "Adjusted mutual information, fine / coarse, mean over seeds; the same numbers of groups."
    )
    own = "The same with the numbers of groups each method chooses (mean number found)."
    agree = "Mean agreement of two seeds (AMI), fine / coarse; the graph is the same."
    return [
        Table("Hierarchies at the same number of groups", columns,
              rows(functools.partial(cell_text, GIVEN)), (given, *notes), "given"),
        Table("Hierarchies at their own number of groups", columns,
              rows(functools.partial(cell_text, OWN)), (own,), "own"),
        Table("Agreement over seeds", columns, rows(stable), (agree,), "stability"),
        Table("Processor seconds a seed", columns, rows(spent), (), "cost"),
        _lead_table(found, graphs, methods),
    ]  # fmt: skip


def _lead_table(
    found: Mapping[tuple[str, str, str], Record], graphs: Sequence[str], methods: Sequence[str]
) -> Table:
    """Return how far ours is ahead of each peer, on the graphs that both have."""
    families = {
        "real": [graph for graph in graphs if not is_planted(graph)],
        "planted": [graph for graph in graphs if is_planted(graph)],
    }
    rows = []
    for method in methods:
        row: dict[str, Any] = {"method": method}
        for family, members in families.items():
            for level in (1, 2):
                gaps = []
                for graph in members:
                    ours = found.get((GIVEN, graph, OURS), {}).get("metrics")
                    theirs = found.get((GIVEN, graph, method), {}).get("metrics")
                    if ours and theirs:
                        gaps.append(ours[f"ami_{level}"] - theirs[f"ami_{level}"])
                if gaps and method != OURS:
                    behind = sum(gap <= 0 for gap in gaps)
                    row[f"{family}_{level}"] = f"{np.mean(gaps):+.3f} ({behind} of {len(gaps)})"
        if len(row) > 1:
            rows.append(row)
    columns = (
        Column("method", "peer"),
        *(
            Column(f"{family}_{level}", f"{family}, {name}")
            for family in families
            for level, name in ((1, "fine"), (2, "coarse"))
        ),
    )
    note = "Our AMI minus theirs, mean over graphs (on how many of them ours is not above)."
    return Table("How far ours is ahead", columns, tuple(rows), (note,), "lead")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing and print the tables."""
    parser = command("hierarchy_study", __doc__, FILE)
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS), metavar="GRAPH")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), metavar="METHOD")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    given = parser.parse_args(arguments)

    def plan() -> Plan:
        cells = study_cells(given.graphs, given.methods, given.seeds)
        if not given.show:
            _warm_up(given.methods)
        return cells, lambda records: tables(records, cells)

    return follow(given, measure_cell, plan)


def _warm_up(methods: Sequence[str]) -> None:
    """Compile what is compiled on first use, so that it is not part of anybody's seconds."""
    from graphham.graph.planted import planted_hierarchy

    graph = planted_hierarchy((2, 3), 200, seed=0).graph
    for method in methods:
        if method not in PEERS:
            find_levels(method, graph, (6, 2), 0)
            find_levels(method, graph, (), 0)


if __name__ == "__main__":
    sys.exit(main())
