"""Read the stored cells of few and many labels as rows: a method with its settings, in words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphham.errors import InputError
from graphham.evaluate.cells import Record
from graphham.evaluate.significance import Comparison, compare
from graphham.methods.registry import method_class

OURS = "graphham"
FEWEST = 3  # draws below which a case is not shown
SURE = 10  # draws from which on a p-value is shown
Condition = tuple[str, str]  # graph, protocol
# Behind the name of a rival that is told how frequent classes are.
WEIGHED = ", classes weighed"
# What our method is without a part of it, by method and settings.
PARTS = {
    ("graphham", '{"groups": [1, 1], "settings": {"loss.teacher_weight": 0}}'): "groups",
    ("graphham", '{"settings": {"model.group_links": false}}'): "the link table",
    ("graphham-no-lambda", "{}"): "group attention",
    ("graphham-no-reg", "{}"): "nesting",
    (
        "graphham",
        '{"settings": {"loss.cannot_link_weight": 0, "loss.must_link_weight": 0}}',
    ): "nesting",
    ("graphham-no-q", "{}"): "contexts by group",
}
# A network that hears of groups by their attention alone, and the same without that.
LAMBDA = "group attention, nothing else"
MEAN = "the mean of neighbours"
ALONE = {
    (
        "graphham",
        '{"settings": {"loss.context_weight": 0, "loss.teacher_weight": 0}}',
    ): LAMBDA,
    (
        "graphham",
        '{"settings": {"loss.context_weight": 0, "loss.teacher_weight": 0, '
        '"model.group_score": "none"}}',
    ): MEAN,
}


@dataclass(frozen=True)
class Scores:
    """Scores of all rows: by row and condition, the score of each draw.

    Args:
        methods: Ours and its rivals.
        parts: Ours without a part, by the name of the part.
        seconds: Mean processor seconds of each method.
    """

    methods: Mapping[str, Mapping[Condition, Mapping[tuple[int, int], float]]]
    parts: Mapping[str, Mapping[Condition, Mapping[tuple[int, int], float]]]
    seconds: Mapping[str, float]

    def conditions(self) -> list[Condition]:
        """Return the graphs and protocols that ours has enough draws of."""
        ours = self.methods.get(OURS, {})
        return sorted(c for c, draws in ours.items() if len(draws) >= FEWEST)

    def against(self, row: str, condition: Condition, part: bool = False) -> Comparison | None:
        """Compare a row with ours on the draws both have: positive where the row is ahead.

        :data:`LAMBDA`, a network of its own, is compared with the same without it.
        """
        theirs = (self.parts if part else self.methods).get(row, {}).get(condition, {})
        ours = self.methods[OURS].get(condition, {})
        if part and row == LAMBDA:
            ours, theirs = theirs, self.parts.get(MEAN, {}).get(condition, {})
        common = sorted(ours.keys() & theirs.keys())
        if len(common) < FEWEST:
            return None
        return compare([theirs[d] for d in common], [ours[d] for d in common])


def read_scores(records: Iterable[Record]) -> Scores:
    """Sort finished cells into rows; settings nobody has a word for are left out."""
    methods: dict[str, dict[Condition, dict[tuple[int, int], float]]] = {}
    parts: dict[str, dict[Condition, dict[tuple[int, int], float]]] = {}
    seconds: dict[str, list[float]] = {}
    for record in records:
        if record.get("status") != "done":
            continue
        cell, metrics = record["cell"], record["metrics"]
        score = metrics.get("micro_f1", metrics.get("accuracy", metrics.get("auc")))
        name = _row_name(cell)
        part = {**PARTS, **ALONE}.get(
            (cell["method"], json.dumps(cell["settings"], sort_keys=True))
        )
        if score is None or (name is None and part is None):
            continue
        home = parts.setdefault(part, {}) if part else methods.setdefault(str(name), {})
        where = home.setdefault((cell["graph"], cell["protocol"]), {})
        where[cell["seed"], cell["fold"]] = float(score)
        spent = record.get("cost", {}).get("cpu_seconds")
        if not part and spent is not None:
            seconds.setdefault(str(name), []).append(float(spent))
    means = {name: float(np.mean(values)) for name, values in seconds.items()}
    return Scores(methods, parts, means)


def _row_name(cell: Mapping[str, Any]) -> str | None:
    """Return what a method with its settings is called; ``None`` for settings of an experiment."""
    name = str(cell["method"])
    try:
        published = dict(method_class(name).published)
    except InputError:
        return None
    if cell["budget"] != 1:
        return f"{name}, tuned"
    settings = dict(cell["settings"])
    told = WEIGHED if settings.pop("weigh_classes", False) else ""
    if not settings:
        return None if name.startswith("graphham-") else name + told
    return f"{name}, as published{told}" if settings == published else None
