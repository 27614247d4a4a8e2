"""Tables that set our cells beside the paper's: Tables 2 and 3 with its columns, and Table 4."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from experiments.published import ABLATION, CLASSIFICATION, LINKS, Printed
from graphham.evaluate.cells import Record
from graphham.evaluate.reporting import (
    FOLDED,
    PAIRED_TEST,
    TITLES,
    compare_groups,
    comparison_tables,
    group_records,
    paired_columns,
)
from graphham.evaluate.significance import Comparison, holm
from graphham.evaluate.tables import Column, Spread, Table, text_columns

ABLATIONS = ("graphham-no-lambda", "graphham-no-q", "graphham-no-reg")
# What the paper may have done; the others are protocols of ours.
_PAPERS = ("public_split", "folds", "folds_sigmoid", "links")


def tables_beside_paper(
    records: Sequence[Record], kind: str, reference: str | None = None
) -> list[Table]:
    """Return :func:`comparison_tables` of the same arguments, ours beside the printed numbers."""
    pairs = dict.fromkeys((graph, protocol) for graph, protocol, _ in group_records(records))
    printed = CLASSIFICATION if kind == "classify" else LINKS
    return [
        _beside(table, graph, printed) if protocol in _PAPERS else table
        for table, (graph, protocol) in zip(
            comparison_tables(records, kind, reference), pairs, strict=True
        )
    ]


def _beside(table: Table, graph: str, printed: Mapping[tuple[str, str, str], Printed]) -> Table:
    """Add the paper's columns to a table, where the paper has any of its methods."""
    metrics = [column.key for column in table.columns if column.key in TITLES]
    methods = [row["method"] for row in table.rows]
    if not any((graph, metric, method) in printed for metric in metrics for method in methods):
        return table
    # One prediction per node has one number for both; the paper prints two, so both are shown.
    has_micro = "accuracy" in metrics and "micro_f1" not in metrics
    columns: list[Column] = []
    for column in table.columns:
        if column.key not in metrics:
            columns.append(column)
            continue
        columns.append(Column(f"paper_{column.key}", f"paper {column.title}", "score"))
        if has_micro and column.key == "accuracy":
            columns.append(Column("paper_micro_f1", "paper micro-F1", "score"))
        columns += [column, Column(f"gap_{column.key}", "ours − paper", "change")]
    shown = [*metrics, "micro_f1"] if has_micro else metrics
    rows = [{**row, **_paper_cells(row, graph, shown, printed)} for row in table.rows]
    return replace(table, columns=tuple(columns), rows=tuple(rows))


def _paper_cells(
    row: Mapping[str, Any],
    graph: str,
    metrics: Sequence[str],
    printed: Mapping[tuple[str, str, str], Printed],
) -> dict[str, float]:
    cells: dict[str, float] = {}
    for metric in metrics:
        paper = printed.get((graph, metric, row["method"]))
        if paper is not None:
            cells[f"paper_{metric}"] = paper.value
            spread = row.get(metric)
            if isinstance(spread, Spread):
                cells[f"gap_{metric}"] = spread.mean - paper.value
    return cells


def ablation_table(records: Iterable[Record]) -> Table:
    """Return Table 4: the change when a part is removed, the paper's and ours, with stars.

    A star is p < 0.05 by the plain paired test, as in the paper; two stars also survive the
    correction for overlapping training sets and Holm's for the three ablations.
    """
    groups = group_records(records)
    rows = []
    for graph, protocol in dict.fromkeys((g, p) for g, p, _ in groups):
        full = groups.get((graph, protocol, "graphham"))
        if full is None or not len(full):
            continue
        for metric in ("accuracy", "macro_f1"):
            found = {
                name: compare_groups(groups[graph, protocol, name], full, metric)
                for name in ABLATIONS
                if (graph, protocol, name) in groups
            }
            adjusted = holm([None if c is None else c.p for c in found.values()])
            for (name, result), p_holm in zip(found.items(), adjusted, strict=True):
                if result is None:
                    continue
                paper = ABLATION.get((graph, metric, name)) if protocol in FOLDED else None
                rows.append(
                    {
                        "graph": graph,
                        "metric": TITLES[metric],
                        "without": name.removeprefix("graphham-no-"),
                        "paper": _starred(paper),
                        **paired_columns(result, p_holm),
                        "stars": _stars(result, p_holm),
                        "wins": f"{result.wins}/{result.count}",
                    }
                )
    columns = (
        *text_columns("graph", "metric", "without", "paper"),
        Column("change", "ours", "change"),
        Column("stars", "stars"),
        *PAIRED_TEST,
        Column("wins", "better without"),
    )
    note = (
        "Change against the full model (negative: the part helped). * p < .05 by the plain paired "
        "test, as in the paper; ** also after Nadeau-Bengio and Holm."
    )
    return Table("Table 4: ablations", columns, tuple(rows), (note,))


def _starred(paper: Printed | None) -> str | None:
    if paper is None:
        return None
    return f"{paper.value:+.3f}".replace("-", "−") + ("*" if paper.starred else "")


def _stars(result: Comparison, p_holm: float | None) -> str:
    if p_holm is not None and p_holm < 0.05:
        return "**"
    return "*" if result.p_plain is not None and result.p_plain < 0.05 else ""
