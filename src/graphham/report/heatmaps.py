"""Which fine groups sit in which coarse ones, and labels in which groups (Figure 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.report.canvas import AnyRun, blank_figure, go
from graphham.report.safe_text import plot_text
from graphham.report.view import RunView
from graphham.results.agreement import confusion

if TYPE_CHECKING:
    from graphham.report.canvas import Figure


def level_heatmap(run: AnyRun, lower: int = 1, upper: int = 2) -> Figure:
    """Draw which fine groups share nodes with which coarse ones (Figure 4, left)."""
    view = RunView.of(run)
    if view.num_levels < 2:
        raise InputError("the run has one level of groups, so there is nothing to compare")
    counts = view.tree.flows(lower, upper)
    names = view.tree.names
    # Fine groups in the order of their parents: a good nesting shows as blocks on a staircase.
    order = np.lexsort((np.arange(len(counts)), counts.argmax(axis=1)))
    rows = [names[lower - 1][g] for g in order]
    return _heatmap(counts[order], rows, names[upper - 1], "group", f"level {upper}")


def label_heatmap(run: AnyRun, level: int = 2) -> Figure:
    """Draw how the labels spread over the groups of a level (Figure 4, right)."""
    view = RunView.of(run)
    level = min(level, view.num_levels)
    if not view.label_names:
        raise InputError("the run's graph has no labels to compare with groups")
    codes = view.label_codes
    known = codes >= 0
    shape = (len(view.label_names), view.tree.group_counts[level - 1])
    counts = np.zeros(shape, dtype=np.int64)
    np.add.at(counts, (codes[known], view.result.groups[level - 1][known]), 1)
    used = np.flatnonzero(counts.sum(axis=1) > 0)
    order = used[np.lexsort((used, counts[used].argmax(axis=1)))]
    rows = [view.label_names[i] for i in order]
    return _heatmap(counts[order], rows, view.tree.names[level - 1], "label", f"level {level}")


def confusion_heatmap(run: AnyRun) -> Figure:
    """Draw which labels are taken for which, over all nodes with a known label."""
    view = RunView.of(run)
    labels, prediction = view.result.labels, view.result.prediction
    if labels is None or prediction is None:
        raise InputError("the run predicts no labels; fit with --task classify")
    names = [str(c) for c in labels.classes]
    counts = confusion(labels, prediction)
    # A square, also where a class is never predicted: the diagonal is what is right.
    return _heatmap(counts, names, names, "label", "predicted", every_column=True)


def _heatmap(
    counts: npt.NDArray[Any],
    rows: Sequence[str],
    columns: Sequence[str],
    what: str,
    across: str,
    every_column: bool = False,
) -> Figure:
    total = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    used = np.flatnonzero((counts.sum(axis=0) > 0) | every_column)
    text = [plot_text(r, 28) for r in rows]
    top = [plot_text(columns[int(c)], 28) for c in used]
    trace = go.Heatmap(
        z=counts[:, used] / total,
        # Positions instead of names: two labels cut to the same text must stay two rows.
        x=list(range(len(used))),
        y=list(range(len(rows))),
        customdata=np.asarray(counts[:, used]),
        text=[[f"{r} → {c}" for c in top] for r in text],
        zmin=0,
        zmax=1,
        colorscale="Cividis",
        xgap=1,
        ygap=1,
        colorbar={"title": {"text": f"share of {what}"}, "tickformat": ".0%", "thickness": 12},
        hovertemplate="%{text}<br>%{customdata:,} nodes, %{z:.0%} of the "
        + f"{what}<extra></extra>",
    )
    figure = blank_figure([trace], height=max(340, 26 * len(rows) + 150))
    ticks = {"tickfont": {"size": 11}, "automargin": True, "showgrid": False}
    figure.update_xaxes(
        tickvals=list(range(len(used))), ticktext=top, tickangle=40, title_text=across, **ticks
    )
    figure.update_yaxes(
        tickvals=list(range(len(rows))), ticktext=text, autorange="reversed", **ticks
    )
    return figure
