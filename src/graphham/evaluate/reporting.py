"""From finished cells to tables: means, deviations, paired tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from graphham.evaluate.cells import Cell, Record
from graphham.evaluate.significance import Comparison, compare, holm
from graphham.evaluate.tables import Column, Spread, Table, text_columns

TITLES = {
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
    "micro_f1": "micro-F1",
    "label_accuracy": "per-label accuracy",
    "auc": "AUC",
    "auc_query": "AUC per query",
    "mrr": "MRR",
    "scaled_mrr": "scaled MRR",
    "hits_1": "hits@1",
}
# How a paired test is shown, beside the change it is about.
PAIRED_TEST = (
    Column("p_plain", "p", "p"),
    Column("p_corrected", "p corr.", "p"),
    Column("p_holm", "p Holm", "p"),
    Column("effect", "d", "effect"),
)
MAIN_METRICS = {"classify": ("accuracy", "macro_f1"), "links": ("auc", "mrr")}
PROTOCOL_TITLES = {
    "public_split": "public split",
    "folds": "folds",
    "folds_sigmoid": "folds, sigmoids",
    "links": "links, uniform negatives",
    "hard": "links, hard negatives",
    "links+learned": "links, uniform negatives, learned scorer",
    "hard+learned": "links, hard negatives, learned scorer",
}
# Protocols whose training sets overlap from fold to fold.
FOLDED = ("folds", "folds_sigmoid", "links", "hard", "links+learned", "hard+learned")

Fold = tuple[int, int]


class Group:
    """The finished cells of one method under one protocol on one graph.

    Args:
        records: Their records.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        done = [r for r in records if r.get("status") == "done"]
        self.records: dict[Fold, Record] = {(r["cell"]["seed"], r["cell"]["fold"]): r for r in done}
        refused = [r.get("reason", "") for r in records if r.get("status") == "refused"]
        self.reason = refused[0] if refused and not done else None

    def __len__(self) -> int:
        return len(self.records)

    def values(self, name: str, part: str = "metrics") -> dict[Fold, float]:
        """Return one number of every cell that has it."""
        found = {fold: r.get(part, {}).get(name) for fold, r in self.records.items()}
        return {fold: float(value) for fold, value in found.items() if value is not None}

    def spread(self, name: str, part: str = "metrics") -> Spread | None:
        """Return mean and population deviation over cells."""
        values = list(self.values(name, part).values())
        return Spread(float(np.mean(values)), float(np.std(values))) if values else None

    def test_to_train(self) -> float | None:
        """Return the ratio of test to training examples, where training sets overlap."""
        cells = list(self.records.values())
        if not cells or cells[0]["cell"]["protocol"] not in FOLDED:
            return None
        sizes = [(r["split"]["test"], r["split"]["train"]) for r in cells]
        return float(np.mean([test / train for test, train in sizes]))


Groups = dict[tuple[str, str, str], Group]


def group_records(records: Iterable[Record]) -> Groups:
    """Gather records by graph, protocol and method, keeping the order in which they come."""
    gathered: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        cell = record["cell"]
        gathered.setdefault((cell["graph"], cell["protocol"], row_name(cell)), []).append(record)
    return {key: Group(found) for key, found in gathered.items()}


def row_name(cell: Mapping[str, Any]) -> str:
    """Return what a cell's method is called in tables; another preset makes it another row."""
    preset = cell.get("settings", {}).get("preset")
    return f"{cell['method']} ({preset})" if preset else str(cell["method"])


def compare_groups(first: Group, second: Group, metric: str, fewest: int = 2) -> Comparison | None:
    """Compare two methods on the folds both have.

    Args:
        first: Cells of one method.
        second: Cells of the other.
        metric: What is compared.
        fewest: Folds from which on the difference is tested; below, it is only told.
    """
    a, b = first.values(metric), second.values(metric)
    common = sorted(a.keys() & b.keys())
    if not common:
        return None
    found = compare(
        [a[fold] for fold in common], [b[fold] for fold in common], first.test_to_train()
    )
    return found if found.count >= fewest else replace(found, p_plain=None, p_corrected=None)


def comparison_tables(
    records: Iterable[Record], kind: str, reference: str | None = None, fewest: int = 2
) -> list[Table]:
    """Return one table per graph and protocol: every method, and how it differs from one of them.

    Args:
        records: Cells of kind ``classify`` or ``links``.
        kind: Which of the two.
        reference: Method to test against; the first one when not given or not there.
        fewest: Splits two methods must share for their difference to be tested.
    """
    groups = group_records(records)
    pairs = list(dict.fromkeys((graph, protocol) for graph, protocol, _ in groups))
    return [
        _comparison_table(groups, graph, protocol, kind, reference, fewest)
        for graph, protocol in pairs
    ]


def _comparison_table(
    groups: Groups, graph: str, protocol: str, kind: str, reference: str | None, fewest: int
) -> Table:
    mine = {m: group for (g, p, m), group in groups.items() if (g, p) == (graph, protocol)}
    base = reference if reference in mine else next(iter(mine))
    metrics = _metrics_of(mine.values(), kind)
    main = metrics[0]
    columns = (
        Column("method", "method"),
        *(Column(metric, TITLES[metric], "score") for metric in metrics),
        Column("change", f"{TITLES[main]} − {base}", "change"),
        *PAIRED_TEST,
        Column("count", "n", "count"),
        Column("seconds", "s / fit", "seconds"),
    )
    rivals = [m for m in mine if m != base]
    found = {m: compare_groups(mine[m], mine[base], main, fewest=fewest) for m in rivals}
    adjusted = dict(
        zip(rivals, holm([None if c is None else c.p for c in found.values()]), strict=True)
    )
    rows = [
        {
            "method": method,
            "count": len(group) or None,
            **{metric: group.spread(metric) for metric in metrics},
            **paired_columns(found.get(method), adjusted.get(method)),
            "seconds": group.spread("seconds", "cost"),
        }
        for method, group in mine.items()
    ]
    notes = _notes(mine, protocol, kind, base)
    title = f"{graph}: {PROTOCOL_TITLES.get(protocol, protocol)}"
    name = f"{graph}-{protocol}"
    return Table(title, columns, tuple(rows), tuple(notes), name)


def paired_columns(found: Comparison | None, adjusted: float | None) -> dict[str, Any]:
    """Return the columns of a paired test; none where nothing was compared."""
    if found is None:
        return {}
    return {
        "change": found.difference,
        "p_plain": found.p_plain,
        "p_corrected": found.p_corrected,
        "p_holm": adjusted,
        "effect": found.effect,
    }


def _metrics_of(groups: Iterable[Group], kind: str) -> list[str]:
    names = list(MAIN_METRICS[kind])
    # Several labels per node: micro-F1 is then a number of its own.
    if kind == "classify" and any(g.values("micro_f1") for g in groups):
        names.insert(1, "micro_f1")
    return names


def _notes(mine: Mapping[str, Group], protocol: str, kind: str, base: str) -> list[str]:
    kind_of_p = "corrected" if protocol in FOLDED else "plain"
    notes = [
        f"p: paired t-test against {base} on the same folds; corr.: corrected for overlapping "
        f"training sets (Nadeau-Bengio); Holm: the {kind_of_p} p, "
        f"adjusted for the number of methods; d: Cohen's d of the differences."
    ]
    if kind == "links":
        first = next((r for g in mine.values() for r in g.records.values()), None)
        if first is not None:
            notes.append(
                f"1 positive against {first['split']['negatives']} negatives; AUC is pooled over "
                f"queries."
            )
    for method, group in mine.items():
        if group.reason:
            notes.append(f"{method}: {group.reason}.")
    return notes


def link_detail_table(records: Iterable[Record]) -> Table:
    """Return the further link metrics: per-query AUC, scaled MRR with its scale, hits."""
    names = ("auc_query", "scaled_mrr", "hits_1")
    rows = []
    for (graph, protocol, method), group in group_records(records).items():
        if len(group):
            first = next(iter(group.records.values()))
            rows.append(
                {
                    "graph": graph,
                    "negatives": "hard" if protocol == "hard" else "uniform",
                    "method": method,
                    **{name: group.spread(name) for name in names},
                    "scale": first["metrics"]["scale"],
                }
            )
    columns = (
        *text_columns("graph", "negatives", "method"),
        *(Column(name, TITLES[name], "score") for name in names),
        Column("scale", "scale", "count"),
    )
    notes = ("Scaled MRR counts rank r as 1 / ceil(r / scale).",)
    return Table("Further link metrics", columns, tuple(rows), notes, "metrics")


def hierarchy_table(records: Iterable[Record], part: str, title: str) -> Table:
    """Return hierarchy quality per graph, protocol and method.

    Args:
        records: Cells whose ``part`` holds hierarchy scores.
        part: ``hierarchy`` for classify and links cells, ``metrics`` for hierarchy cells.
        title: Of the table.
    """
    names: tuple[tuple[str, str], ...] = (
        ("nesting", "nesting"),
        ("used_share", "groups ≥ 1%"),
        ("effective_1", "effective 1"),
        ("effective_2", "effective 2"),
        ("nmi_1", "NMI 1"),
        ("nmi_2", "NMI 2"),
        ("nmi_test_2", "NMI 2 test"),
        ("ari_1", "ARI 1"),
        ("ari_2", "ARI 2"),
        ("truth_nmi_1", "true NMI 1"),
        ("truth_nmi_2", "true NMI 2"),
        ("purity", "tree purity"),
        ("dendrogram_purity", "dendrogram purity"),
    )
    rows = []
    for (graph, protocol, method), group in group_records(records).items():
        spreads = {name: group.spread(name, part) for name, _ in names}
        if not any(spreads.values()):
            continue
        rows.append(
            {
                "graph": graph,
                "protocol": protocol,
                "method": method,
                **{name: None if s is None else s.mean for name, s in spreads.items()},
                "count": len(group),
            }
        )
    used = [(n, t) for n, t in names if any(row.get(n) is not None for row in rows)]
    columns = (
        *text_columns("graph", "protocol", "method"),
        *(Column(name, text, "score") for name, text in used),
        Column("count", "n", "count"),
    )
    note = (
        "Level 1 is the finest. Groups ≥ 1%: share of the groups that hold at least 1% of the "
        "nodes, worst level; less than the groups in use, which one node is enough for."
    )
    return Table(title, columns, tuple(rows), (note,), "hierarchy")


def select(records: Mapping[str, Record], cells: Iterable[Cell]) -> list[Record]:
    """Return the records of cells that are finished, in the order of the cells."""
    return [records[cell.key] for cell in cells if cell.key in records]


def having(records: Iterable[Record], wanted: Callable[[Record], bool]) -> list[Record]:
    """Return the records whose cell is wanted."""
    return [record for record in records if wanted(record["cell"])]
