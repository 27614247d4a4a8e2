"""Do the groups help? Every case on one page, and a count instead of an opinion."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.label_rows import SURE
from graphham.evaluate.cells import Record
from graphham.evaluate.reporting import Groups, compare_groups, group_records
from graphham.evaluate.significance import Comparison, holm
from graphham.evaluate.tables import Column, Table, text_columns

# What is taken away, or put in the place of the network: the column, and the words for it.
_PARTS = {
    "graphham-no-lambda": ("attention", "group attention"),
    "graphham-no-q": ("context", "context by group"),
    "graphham-no-reg": ("constraints", "the constraints"),
    "gat": ("gat", "instead of GAT"),
    "graphsage": ("graphsage", "instead of GraphSAGE"),
}
_LEVEL = 0.05


def verdict_section(records: Mapping[str, Record]) -> str:
    """Return what every part gains in every classified case."""
    groups = group_records(r for r in records.values() if r["cell"]["kind"] == "classify")
    cases = [
        (graph, protocol)
        for graph, protocol, method in groups
        if method == "graphham" and (graph, protocol, "graphham-no-lambda") in groups
    ]
    if not cases:
        return ""
    intro = (
        "Accuracy with a part minus accuracy without it, on the same folds. `*`: p < 0.05 by the "
        "paired test (corrected for overlapping training sets where they overlap) over at least "
        f"{SURE} folds; `**`: also after Holm's adjustment for the number of cases in the column."
    )
    table, sentences = _table(groups, cases)
    parts = ["## Do the groups help? In one table", intro, table.markdown().rstrip(), sentences]
    return "\n\n".join(parts) + "\n"


def _table(groups: Groups, cases: list[tuple[str, str]]) -> tuple[Table, str]:
    found: dict[str, list[Comparison | None]] = {}
    for method in _PARTS:
        found[method] = [
            compare_groups(groups[*case, "graphham"], groups[*case, method], "accuracy", SURE)
            if (*case, method) in groups
            else None
            for case in cases
        ]
    adjusted = {
        method: holm([None if one is None else one.p for one in gains])
        for method, gains in found.items()
    }
    rows = []
    for at, (graph, protocol) in enumerate(cases):
        row: dict[str, object] = {"graph": graph, "protocol": protocol}
        for method, (name, _) in _PARTS.items():
            row[name] = _shown(found[method][at], adjusted[method][at])
        row["count"] = len(groups[graph, protocol, "graphham"].values("accuracy"))
        rows.append(row)
    columns = (
        *text_columns("graph", "protocol"),
        *(Column(name, words) for name, words in _PARTS.values()),
        Column("count", "n", "count"),
    )
    lines = [
        _sentence(words, found[method], adjusted[method]) for method, (_, words) in _PARTS.items()
    ]
    return Table("", columns, tuple(rows)), "\n".join(f"- {line}" for line in lines if line)


def _shown(gain: Comparison | None, adjusted: float | None) -> str:
    if gain is None:
        return "-"
    stars = "**" if _is_sure(adjusted) else "*" if _is_sure(gain.p) else ""
    return f"{gain.difference:+.3f}".replace("-", "−") + stars.replace("*", "\\*")


def _is_sure(p: float | None) -> bool:
    return p is not None and p < _LEVEL


def _sentence(
    words: str, gains: list[Comparison | None], adjusted: list[float | None]
) -> str | None:
    """Count the cases in which a part helps or harms for sure."""
    pairs = [(g, p) for g, p in zip(gains, adjusted, strict=True) if g is not None]
    if not pairs:
        return None
    helps = sum(g.difference > 0 and _is_sure(p) for g, p in pairs)
    harms = sum(g.difference < 0 and _is_sure(p) for g, p in pairs)
    mean = sum(g.difference for g, _ in pairs) / len(pairs)
    low, high = min(g.difference for g, _ in pairs), max(g.difference for g, _ in pairs)
    text = (
        f"{words}: helps for sure in {helps} of {len(pairs)} cases and harms for sure in {harms} "
        f"(after Holm); mean gain {mean:+.3f}, from {low:+.3f} to {high:+.3f}."
    )
    return text[0].upper() + text[1:].replace("-0.", "−0.")
