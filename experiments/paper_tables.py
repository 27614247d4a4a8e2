"""Tables that set our cells beside the paper's: Tables 2 and 3 with its columns, and Table 4."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from experiments.label_rows import SURE
from experiments.published import ABLATION, CLASSIFICATION, LINKS, Printed
from graphham.evaluate.cells import Cell, Record
from graphham.evaluate.reporting import (
    FOLDED,
    PAIRED_TEST,
    TITLES,
    compare_groups,
    comparison_tables,
    group_records,
    paired_columns,
    row_name,
)
from graphham.evaluate.significance import Comparison, holm
from graphham.evaluate.tables import Column, Spread, Table, text_columns

ABLATIONS = ("graphham-no-lambda", "graphham-no-q", "graphham-no-reg")
PRINTED = "graphham-paper"
# What the paper may have done; the others are protocols of ours.
_PAPERS = ("public_split", "folds", "folds_sigmoid", "links")


def best_on_validation(records: Iterable[Record]) -> list[Record]:
    """Return one record per row and split: of several settings, the best on validation data."""
    best: dict[tuple[Any, ...], Record] = {}
    for record in records:
        key = _split_of(record)
        if key not in best or _validation(record) > _validation(best[key]):
            best[key] = record
    return list(best.values())


def _split_of(record: Record) -> tuple[Any, ...]:
    cell = record["cell"]
    names = ("kind", "graph", "protocol", "seed", "fold")
    return (row_name(cell), *(cell[name] for name in names))


def _validation(record: Record) -> float:
    is_done = record.get("status") == "done"
    return float(record.get("validation", 0.0)) if is_done else float("-inf")


def tables_beside_paper(
    records: Sequence[Record],
    kind: str,
    reference: str | None = None,
    planned: Iterable[Cell] = (),
) -> list[Table]:
    """Return :func:`comparison_tables`, ours beside the printed numbers.

    Args:
        records: Cells of kind ``classify`` or ``links``; of a row with several settings the one
            that is best on validation data counts.
        kind: Which of the two.
        reference: Method to test against, where ten splits are shared.
        planned: Cells that the table will have when all are measured.
    """
    chosen = best_on_validation(records)
    pairs = dict.fromkeys((graph, protocol) for graph, protocol, _ in group_records(chosen))
    printed = CLASSIFICATION if kind == "classify" else LINKS
    cells = list(planned)
    tables = []
    for table, (graph, protocol) in zip(
        comparison_tables(chosen, kind, reference, SURE), pairs, strict=True
    ):
        here = [
            r for r in records if (r["cell"]["graph"], r["cell"]["protocol"]) == (graph, protocol)
        ]
        notes = [*_choice_notes(here), *_fewer_note(cells, graph, protocol)]
        whole = replace(table, notes=(*table.notes, *notes))
        tables.append(_beside(whole, graph, printed) if protocol in _PAPERS else whole)
    return tables


def _choice_notes(records: Iterable[Record]) -> list[str]:
    """Say of rows with several settings how the choice between them fell."""
    found: dict[str, dict[tuple[Any, ...], list[Record]]] = {}
    for record in records:
        splits = found.setdefault(row_name(record["cell"]), {})
        splits.setdefault(_split_of(record), []).append(record)
    notes = []
    for row, splits in found.items():
        if not any(record["cell"]["settings"] for held in splits.values() for record in held):
            continue
        if row != next(iter(splits.values()))[0]["cell"]["method"]:
            continue
        both = [held for held in splits.values() if len(held) > 1]
        theirs = sum(bool(best_on_validation(held)[0]["cell"]["settings"]) for held in both)
        notes.append(
            f"{row}: of our settings and its paper's, the better on validation data of each split; "
            f"both measured on {len(both)} of {len(splits)} splits, its paper's chosen on {theirs}."
        )
    return notes


def _fewer_note(cells: Sequence[Cell], graph: str, protocol: str) -> list[str]:
    """Name the methods that get fewer splits than others because they are slow."""
    splits: dict[str, set[tuple[int, int]]] = {}
    for cell in cells:
        if (cell.graph, cell.protocol) == (graph, protocol):
            splits.setdefault(row_name(cell.to_dict()), set()).add((cell.seed, cell.fold))
    most = max((len(held) for held in splits.values()), default=0)
    fewer = [f"{row} {len(held)}" for row, held in splits.items() if len(held) < most]
    if not fewer:
        return []
    return [
        f"Slow methods get fewer splits than the {most} of the others: {', '.join(fewer)}. "
        f"Differences are tested from {SURE} shared splits on."
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


def ablation_table(records: Iterable[Record], fewest: int = SURE) -> Table:
    """Return Table 4: the change when a part is removed, the paper's and ours, with stars.

    A star is p < 0.05 by the plain paired test, as in the paper; two stars also survive the
    correction for overlapping training sets and Holm's for the three ablations.

    Args:
        records: Cells of both presets, whole and without a part.
        fewest: Splits from which on a difference is tested.
    """
    groups = group_records(records)
    rows = []
    for graph, protocol in dict.fromkeys((g, p) for g, p, _ in groups):
        for whole, suffix in (("graphham", ""), (PRINTED, " (paper)")):
            full = groups.get((graph, protocol, whole))
            if full is None or not len(full):
                continue
            for metric in ("accuracy", "macro_f1"):
                found = {
                    name: compare_groups(groups[key], full, metric, fewest=fewest)
                    for name in ABLATIONS
                    if (key := (graph, protocol, f"{name}{suffix}")) in groups
                }
                adjusted = holm([None if c is None else c.p for c in found.values()])
                for (name, result), p_holm in zip(found.items(), adjusted, strict=True):
                    if result is None:
                        continue
                    paper = ABLATION.get((graph, metric, name)) if protocol in FOLDED else None
                    rows.append(
                        {
                            "graph": graph,
                            "whole": whole,
                            "metric": TITLES[metric],
                            "without": name.removeprefix("graphham-no-"),
                            "paper": _starred(paper),
                            **paired_columns(result, p_holm),
                            "stars": _stars(result, p_holm),
                            "wins": f"{result.wins}/{result.count}",
                        }
                    )
    columns = (
        *text_columns("graph", "whole", "metric", "without", "paper"),
        Column("change", "ours", "change"),
        Column("stars", "stars"),
        *PAIRED_TEST,
        Column("wins", "better without"),
    )
    note = (
        f"Change against the whole model, ours or as printed (negative: the part helped). * p < "
        f".05 by the plain paired test, as in the paper; ** also after Nadeau-Bengio and Holm; "
        f"tested from {fewest} splits on."
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
