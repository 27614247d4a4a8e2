"""Say in words what the paper's figures show here, whether the paper agrees, and what collapses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.paper_figures import Surface
from graphham.evaluate.cells import Record
from graphham.evaluate.reporting import row_name

PRINTED = "graphham-paper"
_UNREGULATED = "graphham-no-reg (paper)"
# The width of the paper's bars: nodes beyond the first differ visibly.
_BAR = 0.05
# Accuracies of one fold that differ by less than this are the same surface.
_FLAT = 0.01


def gap_scores(arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, float]:
    """Return what a record keeps of Figure 6: medians, and shares of nodes beyond the first bar.

    Args:
        arrays: Of a portrait; ``gap_1`` and so on are ``(nodes,)`` distances of two attentions.
    """
    found: dict[str, float] = {}
    for layer in (1, 2):
        if f"gap_{layer}" in arrays:
            gap = arrays[f"gap_{layer}"]
            found[f"median_{layer}"] = float(np.median(gap))
            found[f"share_{layer}"] = float((gap >= _BAR).mean())
    return found


def gap_sentences(records: Iterable[Record]) -> list[str]:
    """Return one sentence per portrait about how far node and group attention differ."""
    lines = []
    for record in records:
        scores, cell = record.get("gaps"), record["cell"]
        if not scores or "share_1" not in scores:
            if record.get("status") == "done":
                lines.append(
                    f"{cell['graph']}, {row_name(cell)}: how far the two attentions differ was not "
                    f"kept; 'graphham reproduce figure6 --renew' measures it again."
                )
            continue
        shares = [(layer, scores[f"share_{layer}"]) for layer in (1, 2)]
        shown = " and ".join(
            f"{share:.0%} in layer {layer} (median {_small(scores[f'median_{layer}'])})"
            for layer, share in shares
        )
        agrees = [layer for layer, share in shares if share >= 0.5]
        claim = "what the paper says, that many nodes differ much"
        if len(agrees) == 2:
            verdict = f"this is {claim}"
        elif agrees:
            verdict = f"{claim}, holds in layer {agrees[0]} only"
        else:
            verdict = "the paper says the opposite, that many nodes differ much"
        lines.append(
            f"{cell['graph']}, {row_name(cell)}: the two attentions differ by {_BAR} or more at "
            f"{shown}; {verdict}."
        )
    return lines


def surface_sentences(surfaces: Sequence[Surface]) -> list[str]:
    """Return one sentence per surface: its range, its best point, and the paper's claim."""
    lines = []
    for surface in surfaces:
        points = {
            (row, column): value
            for row, line in zip(surface.rows, surface.values, strict=True)
            for column, value in zip(surface.columns, line, strict=True)
            if value is not None
        }
        if len(points) < 2:
            continue
        low, high = min(points.values()), max(points.values())
        best = next(point for point, value in points.items() if value == high)
        if high - low < _FLAT:
            claim = "the paper's peak is not seen: the surface is flat"
        elif surface.row_name == "K1":
            claim = _groups_claim(surface, best)
        else:
            claim = _weights_claim(points, best)
        luck = (
            "One seed and one fold: differences of a point are luck."
            if surface.fits == 1
            else f"Means of {surface.fits} folds: differences of half a point are luck."
        )
        lines.append(
            f"{surface.graph}: accuracy lies between {low:.3f} and {high:.3f} over "
            f"{len(points)} points, best at {surface.row_name} {best[0]:g} and "
            f"{surface.column_name} {best[1]:g}; {claim}. {luck}"
        )
    return lines


def _groups_claim(surface: Surface, best: tuple[float, float]) -> str:
    inside = best[0] not in _ends(surface.rows) and best[1] not in _ends(surface.columns)
    return (
        "as the paper says, too few and too many groups cost accuracy"
        if inside
        else "the paper's peak inside the grid (12 and 5 on Facebook) is not seen: the best point "
        "is at the edge"
    )


def _weights_claim(points: Mapping[tuple[float, float], float], best: tuple[float, float]) -> str:
    without = points.get((0.0, 0.0))
    if without is not None and without >= max(points.values()) - _FLAT:
        return "the paper says that constraints help; without any it is as good here"
    if best[0] > best[1]:
        return "as the paper says, must-links should weigh more than cannot-links"
    return "the paper says that must-links should weigh more than cannot-links; not here"


def collapse_sentence(records: Iterable[Record]) -> str:
    """Return what becomes of the upper groups of the method as printed, and why.

    The reason is its ablation: the same fits without L_reg. Nothing is said of what was not fitted.
    """
    used: dict[str, list[tuple[float, float]]] = {}
    for record in records:
        scores = record.get("hierarchy") or {}
        if "used_2" in scores:
            pair = (float(scores["used_2"]), float(scores["groups_2"]))
            used.setdefault(row_name(record["cell"]), []).append(pair)
    if PRINTED not in used:
        return ""
    here, wanted = np.mean(used[PRINTED], axis=0)
    text = (
        f"{PRINTED} as printed puts 1% of the nodes or more into {here:.1f} of {wanted:.1f} upper "
        f"groups (mean of {len(used[PRINTED])} fits)"
    )
    if here >= 0.5 * wanted:
        return f"{text}."
    text += ": its upper level collapses"
    if _UNREGULATED in used:
        freed, _ = np.mean(used[_UNREGULATED], axis=0)
        text += f"; without L_reg into {freed:.1f}"
        text += (
            ", so L_reg drives it: a single upper group breaks no must-link, and those weigh ten "
            "times what cannot-links do"
            if freed > here + 0.5
            else ", so L_reg alone does not explain it"
        )
    return f"{text}."


def ablation_sentence(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return in how many cases taking a part of ours away costs accuracy, beside the paper's.

    Args:
        rows: Of Table 4.
    """
    ours = [r for r in rows if r["whole"] == "graphham" and r["metric"] == "accuracy"]
    if not ours:
        return ""
    worse = sum(row["change"] < 0 for row in ours)
    sure = sum(row["change"] < 0 and row["stars"] == "**" for row in ours)
    printed = [row["paper"] for row in ours if row["paper"]]
    text = (
        f"Without a part graphham is less accurate in {worse} of {len(ours)} cases, for sure "
        f"(**) in {sure}"
    )
    if printed:
        lower = sum(value.startswith("−") for value in printed)
        text += f"; the paper has it lower in {lower} of {len(printed)}"
    return f"{text}."


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def _small(value: float) -> str:
    return f"{value:.1e}" if 0 < value < 1e-3 else f"{value:.3f}"
