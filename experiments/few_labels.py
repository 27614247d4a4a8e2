"""Few labels and many: methods side by side on the same splits, with paired tests.

    python -m experiments.few_labels --methods graphham gcn gat:published 'wide=gcn{"dim": 64}'

measures what is missing and prints tables. Every cell is one method on one draw: N labels per
class, 200 validation nodes, all others tested; ``--labels folds`` instead trains on four of five
folds of all labels, draw d testing fold d mod 5, and ``--labels links`` ranks held-out links by the
cosine of the first layer (AUC). Labels, random links and planted graphs are drawn from the number
of the draw, so that all methods see the same. Finished cells are lines of one file,
which another run goes on with; several processes may share it.

A method is ``NAME``, ``NAME:published`` (the settings of its paper), ``NAME:tuned`` (the better on
validation of the settings every method may try), or ``LABEL=NAME{JSON}`` with settings of its own.
A graph is a dataset, a planted case (without features: ``homophilous-bare``), or either with random
links added: ``cora+100`` has twice as many. Graphs with several labels a node (``interests``,
``interests-partners``) take folds and are scored by micro-F1.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cell_file import Plan, command, follow
from experiments.measuring import load_graph
from graphham.errors import InputError
from graphham.evaluate.cells import Cell, Record
from graphham.evaluate.classify import measure_classification
from graphham.evaluate.links import measure_links
from graphham.evaluate.running import one_thread
from graphham.evaluate.significance import Comparison, compare, holm
from graphham.evaluate.tables import Column, Spread, Table
from graphham.graph.graph import Graph, build_graph
from graphham.methods.base import SEARCH_BUDGET
from graphham.methods.registry import method_class
from graphham.sampling.keys import derive_key, numpy_generator

FILE = Path(__file__).parent / "results" / "few_labels.jsonl"
GRAPHS = ("cora", "citeseer", "partners")
LABELS = ("5", "20")
DRAWS = 10
REFERENCE = "graphham"
_FOLDS = 5
_KEPT = ("metrics", "hierarchy", "validation", "chosen", "split", "cost")

Condition = tuple[str, str]  # graph, protocol


@dataclass(frozen=True)
class Entry:
    """A row of the table: a method with the settings it is given.

    Args:
        label: What the row is called.
        method: Name in the registry.
        settings: Settings that differ from the method's defaults.
        budget: Settings to choose among on validation data.
    """

    label: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    budget: int = 1

    @classmethod
    def parse(cls, text: str) -> Entry:
        """Read an entry as a user writes it; see the module.

        Raises:
            InputError: There is no such method or form, or the settings are no JSON object.
        """
        head, brace, rest = text.partition("{")
        label, equals, name = head.rpartition("=")
        name, _, form = name.partition(":")
        found = method_class(name)
        if "classify" not in found.tasks:
            raise InputError(f"the method {name} does not classify; see 'graphham methods'")
        if form not in ("", "published", "tuned"):
            raise InputError(f"{text!r} asks for {form!r}; a method is plain, published or tuned")
        settings = dict(found.published) if form == "published" else {}
        if brace:
            try:
                settings |= json.loads(brace + rest)
            except ValueError as error:
                raise InputError(f"the settings of {text!r} are no JSON: {error}") from error
        found.make(**settings)
        budget = SEARCH_BUDGET if form == "tuned" else 1
        return cls(label if equals else text, name, settings, budget)

    def cell(self, graph: str, labels: str, draw: int) -> Cell:
        """Return the cell of one draw; ``labels`` is a number per class, or folds, or links."""
        is_few = labels.isdecimal()
        return Cell(
            "links" if labels == "links" else "classify",
            graph,
            f"few{labels}" if is_few else labels,
            self.method,
            seed=draw if is_few else draw // _FOLDS,
            fold=0 if is_few else draw % _FOLDS,
            budget=self.budget,
            settings=self.settings,
        )


def with_random_links(graph: Graph, percent: int, seed: int) -> Graph:
    """Return a graph with random links added, none of them there before.

    Args:
        graph: The graph; weights, if any, are dropped.
        percent: How many links to add, in per cent of those there are.
        seed: Draws them.
    """
    if percent < 0:
        raise InputError(f"{percent}% of the links cannot be added; give 0 or more")
    n, old = graph.num_nodes, graph.edge_list()
    wanted = round(len(old) * percent / 100)
    if wanted > n * (n - 1) // (1 if graph.directed else 2) - len(old):
        raise InputError(f"{graph.name} has no room for {wanted:,} further links; add fewer")
    draw = numpy_generator(derive_key(seed, "random links", percent))
    keys = set((old[:, 0] * n + old[:, 1]).tolist())
    new: list[tuple[int, int]] = []
    while len(new) < wanted:
        for a, b in draw.integers(n, size=(wanted - len(new), 2)).tolist():
            a, b = (a, b) if graph.directed else (min(a, b), max(a, b))
            if a != b and a * n + b not in keys:
                keys.add(a * n + b)
                new.append((a, b))
    joined = np.concatenate([old, np.array(new, dtype=np.int64).reshape(-1, 2)])
    made = build_graph(joined[:, 0], joined[:, 1], n, ids=graph.ids, directed=graph.directed)
    return replace(
        graph,
        indptr=made.indptr,
        indices=made.indices,
        weights=None,
        name=f"{graph.name}+{percent}",
    )


@functools.lru_cache(maxsize=2)
def find_graph(name: str, draw: int) -> Graph:
    """Return the graph of a draw; ``NAME+P`` is NAME with P per cent of random links added."""
    base, plus, percent = name.partition("+")
    # A dataset is the same in every draw; keep it once.
    graph = load_graph(base, draw)
    if not plus:
        return graph
    if not percent.isdecimal():
        raise InputError(f"{name!r} does not say how many per cent of links to add, as in cora+100")
    return with_random_links(graph, int(percent), draw)


def score(record: Record) -> float:
    """Return what a finished cell is compared by: AUC, accuracy, or micro-F1 of several labels."""
    metrics = record["metrics"]
    name = next(name for name in ("auc", "micro_f1", "accuracy") if name in metrics)
    return float(metrics[name])


def measure_cell(cell: Cell) -> Record:
    """Fit the cell's method on its draw and score it on the test nodes."""
    graph = find_graph(cell.graph, cell.seed)
    with one_thread():
        began = time.process_time()
        measure = measure_links if cell.kind == "links" else measure_classification
        record, _ = measure(graph, cell)
        spent = time.process_time() - began
    kept: Record = {name: record[name] for name in _KEPT if name in record}
    kept["cost"] = {**kept["cost"], "cpu_seconds": spent}
    return kept


def tables(
    records: Mapping[str, Record],
    entries: Sequence[Entry],
    graphs: Sequence[str],
    labels: Sequence[str],
    draws: Sequence[int],
    reference: str = REFERENCE,
) -> list[Table]:
    """Return the means of all entries, then each one's paired differences to the reference.

    Args:
        records: Finished cells by key.
        entries: Rows, in order.
        graphs: Graphs, in order.
        labels: Labels per class, ``folds`` or ``links``.
        draws: Numbers of the draws.
        reference: Label of the row the others are compared with; differences are left out where
            it is not among the entries or has no cells.
    """
    conditions = [(graph, count) for graph in graphs for count in labels]
    scores: dict[tuple[str, str, str], dict[int, float]] = {}
    seconds: dict[str, list[float]] = {}
    for entry in entries:
        for graph, count in conditions:
            found = scores.setdefault((entry.label, graph, count), {})
            for draw in draws:
                cell = entry.cell(graph, count, draw)
                record = records.get(cell.key, {})
                if record.get("status") == "done":
                    found[draw] = score(record)
                    seconds.setdefault(entry.label, []).append(float(record["cost"]["cpu_seconds"]))
    heads = {(g, c): Column(f"{g}-{c}", f"{g}, {c}", "score") for g, c in conditions}
    rows = tuple(
        {
            "method": entry.label,
            **{heads[c].key: _mean_error(scores[entry.label, *c]) for c in conditions},
            "seconds": float(np.mean(seconds[entry.label])) if entry.label in seconds else None,
        }
        for entry in entries
    )
    columns = (Column("method", "method"), *heads.values(), Column("seconds", "CPU-s", "seconds"))
    counts = sorted({len(found) for found in scores.values() if found})
    finished = " to ".join(str(n) for n in dict.fromkeys(counts[:1] + counts[-1:])) or "0"
    note = (
        f"Accuracy, mean and standard error over the draws that are finished, {finished} of "
        f"{len(draws)} in a column; a mean without an error is one draw."
    )
    first = Table(
        "Accuracy, micro-F1 of several labels, or AUC of links", columns, rows, (note,), "means"
    )
    second = _differences(scores, entries, conditions, heads, reference)
    return [first] if second is None else [first, second]


def _differences(
    scores: Mapping[tuple[str, str, str], dict[int, float]],
    entries: Sequence[Entry],
    conditions: Sequence[tuple[str, str]],
    heads: Mapping[tuple[str, str], Column],
    reference: str,
) -> Table | None:
    """Return the paired differences to the reference, Holm over all of them."""
    found: dict[tuple[str, str, str], Comparison] = {}
    for entry in entries:
        for graph, count in conditions:
            ours = scores.get((reference, graph, count), {})
            theirs = scores[entry.label, graph, count]
            common = sorted(ours.keys() & theirs.keys())
            if entry.label != reference and common:
                found[entry.label, graph, count] = compare(
                    [theirs[draw] for draw in common], [ours[draw] for draw in common]
                )
    if not found:
        return None
    adjusted = dict(zip(found, holm([one.p for one in found.values()]), strict=True))
    rows = tuple(
        {
            "method": entry.label,
            **{
                heads[c].key: _difference_text(found[entry.label, *c], adjusted[entry.label, *c])
                for c in conditions
                if (entry.label, *c) in found
            },
        }
        for entry in entries
        if entry.label != reference
    )
    columns = (Column("method", "method"), *(replace(head, kind="text") for head in heads.values()))
    notes = (
        f"Points of accuracy above {reference} on the same draws (draws in which it is ahead); p "
        f"of the paired t-test after Holm over all {len(found)} differences of this table. Draws "
        f"of labels on one graph share their test nodes, which makes p optimistic.",
    )
    return Table(f"Differences to {reference}", columns, rows, notes, "differences")


def _mean_error(values: Mapping[int, float]) -> Spread | float | None:
    if not values:
        return None
    held = np.array(list(values.values()))
    if len(held) == 1:
        return float(held[0])
    return Spread(float(held.mean()), float(held.std(ddof=1) / np.sqrt(len(held))))


def _difference_text(one: Comparison, p: float | None) -> str:
    shown = "-" if p is None else f"{p:.1g}"
    return f"{100 * one.difference:+.1f} ({one.wins}/{one.count}), p {shown}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing and print the tables."""
    parser = command("few_labels", __doc__, FILE)
    parser.add_argument("--methods", nargs="+", default=[REFERENCE], metavar="METHOD")
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS), metavar="GRAPH")
    parser.add_argument("--labels", nargs="+", default=list(LABELS), metavar="N")
    parser.add_argument(
        "--noise", nargs="+", type=int, default=[0], metavar="P", help="per cent of links to add"
    )
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--first-draw", type=int, default=0)
    parser.add_argument("--reference", default=REFERENCE, metavar="LABEL")
    given = parser.parse_args(arguments)

    def plan() -> Plan:
        for text in given.labels:
            if not (text.isdecimal() and int(text)) and text not in ("folds", "links"):
                raise InputError(f"--labels {text!r}: give a number per class, folds or links")
        entries = [Entry.parse(text) for text in given.methods]
        graphs = [f"{g}+{p}" if p else g for p in given.noise for g in given.graphs]
        draws = range(given.first_draw, given.first_draw + given.draws)
        # Draw by draw, all methods: what is finished can be compared at any time.
        cells = [
            entry.cell(graph, count, draw)
            for draw in draws
            for graph in graphs
            for count in given.labels
            for entry in entries
        ]
        return cells, lambda records: tables(
            records, entries, graphs, given.labels, draws, given.reference
        )

    return follow(given, measure_cell, plan)


if __name__ == "__main__":
    sys.exit(main())
