"""The two attentions compared (Figure 6), and how training went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphham.errors import InputError
from graphham.report.canvas import AnyRun, blank_figure, go, top_legend
from graphham.report.view import RunView

if TYPE_CHECKING:
    from graphham.report.canvas import Figure

_PART_NAMES = {"nesting_loss": "nesting", "class": "labels"}
_NOT_LOSSES = ("epoch", "seconds", "used_", "validation", "lr", "tau")


def attention_histogram(run: AnyRun) -> Figure:
    """Draw how far group attention departs from node attention, per layer (Figure 6)."""
    view = RunView.of(run)
    gaps = view.result.attention_gap
    if not gaps:
        raise InputError("the run did not measure its attentions; fit it again")
    top = max(float(np.quantile(g, 0.995)) for g in gaps) or 1.0
    edges = np.linspace(0, top, 41)
    traces = []
    for layer, gap in enumerate(gaps, 1):
        counts, _ = np.histogram(np.clip(gap, 0, top), edges)
        traces.append(
            go.Scatter(
                name=f"layer {layer}",
                x=(edges[:-1] + edges[1:]) / 2,
                y=counts / max(len(gap), 1),
                mode="lines",
                line={"shape": "hvh", "width": 2, "dash": ("solid", "dash", "dot")[layer % 3 - 1]},
                fill="tozeroy",
                hovertemplate="KL about %{x:.3f}: %{y:.1%} of the nodes<extra></extra>",
            )
        )
    figure = blank_figure(traces, height=270)
    figure.update_layout(legend=top_legend())
    figure.update_xaxes(title_text="KL divergence of node from group attention", rangemode="tozero")
    figure.update_yaxes(title_text="share of nodes", tickformat=".2~%", rangemode="tozero")
    return figure


def training_curves(run: AnyRun) -> Figure:
    """Draw the loss and its parts over the epochs; validation on its own axis if there is any."""
    view = RunView.of(run)
    records = [r for r in view.run.metrics if isinstance(r.get("epoch"), int)]
    if not records:
        raise InputError("the run's training log is empty")
    names: dict[str, None] = {}
    for record in records:
        names |= {k: None for k, v in record.items() if isinstance(v, int | float)}
    parts = [n for n in names if not n.startswith(_NOT_LOSSES) and n != "loss"]
    traces = []
    for number, name in enumerate((["loss"] if "loss" in names else []) + parts):
        traces.append(_curve(records, name, number, width=2.5 if name == "loss" else 1.5))
    if "validation" in names:
        curve = _curve(records, "validation", len(traces), width=1.5)
        curve.update(yaxis="y2", line={"dash": "dot"})
        traces.append(curve)
    figure = blank_figure(traces, height=270)
    figure.update_layout(legend=top_legend(), hovermode="x unified")
    figure.update_xaxes(title_text="epoch")
    figure.update_yaxes(title_text="loss")
    if "validation" in names:
        beside = {"title": {"text": "validation"}, "overlaying": "y", "side": "right"}
        figure.update_layout(yaxis2={**beside, "showgrid": False})
    return figure


def _curve(records: Sequence[dict[str, Any]], name: str, number: int, width: float) -> Any:
    points = [(r["epoch"], r[name]) for r in records if r.get(name) is not None]
    dash = ("solid", "solid", "dash", "dot", "dashdot")[number % 5]
    return go.Scatter(
        name=_PART_NAMES.get(name, name.replace("_", " ")),
        x=[e for e, _ in points],
        y=[v for _, v in points],
        mode="lines",
        line={"width": width, "dash": dash},
        hovertemplate="%{y:.3f}",
    )
