"""What all figures share: the plotly module, the look, and what names a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from graphham.report.palette import BASE
from graphham.report.safe_text import need
from graphham.report.view import RunView
from graphham.results.run_folder import Run

need("plotly", "drawing figures")

import plotly.graph_objects as go  # noqa: E402

if TYPE_CHECKING:
    Figure: TypeAlias = Any

__all__ = ["FONT", "AnyRun", "blank_figure", "faint", "go", "top_legend"]

AnyRun: TypeAlias = RunView | Run | str | Path

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"


def blank_figure(traces: Sequence[Any], height: int) -> Figure:
    """Return a figure of the traces in the look that all figures share."""
    figure = go.Figure(list(traces))
    figure.update_layout(
        template="none",
        colorway=list(BASE),
        height=height,
        font={"family": FONT, "size": 13},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 60, "r": 12, "t": 36, "b": 48},
        hoverlabel={"align": "left"},
    )
    soft = "rgba(128,128,128,0.25)"
    figure.update_xaxes(gridcolor=soft, zerolinecolor=soft, automargin=True)
    figure.update_yaxes(gridcolor=soft, zerolinecolor=soft, automargin=True)
    return figure


def top_legend() -> dict[str, Any]:
    """Return a legend in one line above the plot."""
    return {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}


def faint(color: str) -> str:
    """Return a colour that lets others shine through."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.35)"
