"""Sentences about figures say what the numbers say, for and against the paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from experiments.paper_figures import Surface
from experiments.paper_sentences import (
    ablation_sentence,
    collapse_sentence,
    gap_scores,
    gap_sentences,
    surface_sentences,
)
from graphham.evaluate.cells import Cell


def fits(method: str, used: int, **settings: Any) -> dict[str, Any]:
    cell = Cell("classify", "cora", "folds", method, settings=settings)
    return {"cell": cell.to_dict(), "hierarchy": {"used_2": used, "groups_2": 7}}


def test_a_collapse_is_named_with_its_reason() -> None:
    printed = [fits("graphham-paper", 1), fits("graphham-paper", 2), fits("graphham", 7)]
    text = collapse_sentence(printed)
    assert "into 1.5 of 7.0 upper groups (mean of 2 fits): its upper level collapses." in text
    free = fits("graphham-no-reg", 4, preset="paper")
    assert "without L_reg into 4.0, so L_reg drives it" in collapse_sentence([*printed, free])
    same = fits("graphham-no-reg", 1, preset="paper")
    assert "L_reg alone does not explain it" in collapse_sentence([*printed, same])
    # Our own ablation is no reason for the paper's collapse.
    assert "L_reg" not in collapse_sentence([*printed, fits("graphham-no-reg", 7)])
    assert "collapses" not in collapse_sentence([fits("graphham-paper", 6)])
    assert collapse_sentence([fits("graphham", 7)]) == ""


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (0.3, 0.3, "this is what the paper says"),
        (0.3, 1e-4, "holds in layer 1 only"),
        (1e-4, 1e-4, "the paper says the opposite"),
    ],
)
def test_figure_6_is_held_against_the_paper(first: float, second: float, said: str) -> None:
    scores = gap_scores({"gap_1": np.full(9, first), "gap_2": np.full(9, second)})
    cell = Cell("portrait", "cora", "embed", "graphham")
    (line,) = gap_sentences([{"cell": cell.to_dict(), "gaps": scores}, {"cell": cell.to_dict()}])
    assert said in line
    assert f"{float(first >= 0.05):.0%} in layer 1" in line
    # A picture whose numbers were not kept says so.
    (line,) = gap_sentences([{"cell": cell.to_dict(), "status": "done"}])
    assert "was not kept" in line


def test_figure_5_names_range_and_best_point() -> None:
    peak: list[list[float | None]] = [[0.5, 0.6, 0.5], [0.6, 0.8, 0.6], [0.5, 0.6, None]]
    inside = Surface("g", "K1", "K2", (8, 12, 16), (3, 5, 7), peak)
    (line,) = surface_sentences([inside])
    assert "between 0.500 and 0.800 over 8 points, best at K1 12 and K2 5; as the paper" in line
    edge = Surface("g", "K1", "K2", (8, 12), (3, 5), [[0.5, 0.6], [0.6, 0.8]])
    assert "not seen: the best point is at the edge" in surface_sentences([edge])[0]
    flat = Surface("g", "K1", "K2", (8, 12), (3, 5), [[0.5, 0.501], [0.502, 0.5]])
    assert "flat" in surface_sentences([flat])[0]
    names = ("gamma (must-link)", "beta (cannot-link)")
    free = Surface("g", *names, (0, 1), (0, 1), [[0.8, 0.6], [0.7, 0.5]])
    assert "without any it is as good" in surface_sentences([free])[0]
    helped = Surface("g", *names, (0, 1), (0, 1), [[0.6, 0.6], [0.8, 0.5]])
    assert "as the paper says, must-links should weigh more" in surface_sentences([helped])[0]
    twice = Surface("g", "K1", "K2", (8, 12), (3, 5), [[0.5, 0.6], [0.6, 0.8]], 2)
    assert "Means of 2 folds" in surface_sentences([twice])[0]


def test_table_4_is_counted_beside_the_paper() -> None:
    def row(change: float, stars: str, paper: str | None, **more: str) -> dict[str, Any]:
        held = {"whole": "graphham", "metric": "accuracy", "change": change}
        return {**held, "stars": stars, "paper": paper, **more}

    rows = [row(-0.02, "**", "−0.017*"), row(-0.01, "*", None), row(0.01, "**", "−0.010")]
    rows += [
        row(-0.5, "**", None, whole="graphham-paper"),
        row(-0.5, "**", None, metric="macro-F1"),
    ]
    assert ablation_sentence(rows) == (
        "Without a part graphham is less accurate in 2 of 3 cases, for sure (**) in 1; the paper "
        "has it lower in 2 of 2."
    )
    assert ablation_sentence(rows[3:]) == ""
