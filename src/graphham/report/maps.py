"""The map of the nodes, coloured in four ways (Figure 3 of the paper)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.report.canvas import AnyRun, blank_figure, go
from graphham.report.palette import BASE, CONCENTRATION_SCALE, UNKNOWN
from graphham.report.safe_text import plot_text
from graphham.report.view import RunView

if TYPE_CHECKING:
    from graphham.report.canvas import Figure

ColorBy: TypeAlias = int | Literal["label", "concentration", "nothing"]

_LEGEND_COLUMNS, _LEGEND_LINE = 3, 19
# A column of the legend holds this many signs; the pointer shows all of them.
_LEGEND_TEXT = 27
# Names on the map: signs of one, how many there are, and the size in pixels a map has on the page.
_NAME_TEXT, _MOST_NAMES, _MAP_WIDTH, _MAP_HEIGHT = 26, 16, 560, 440
_SIGN_WIDTH, _LINE_HEIGHT = 6.4, 17
_CELLS, _AROUND = 24, 2


def node_map(run: AnyRun, color: ColorBy = 1, boundary: bool = True, legend: bool = True) -> Figure:
    """Draw the map, coloured by the groups of a level, by label or by concentration.

    Args:
        run: The run.
        color: A level (1 is the finest), ``"label"``, ``"concentration"`` or ``"nothing"``.
        boundary: Mark the nodes between two groups, in a trace of their own, where the method says
            how firmly nodes belong to groups.
        legend: List all names and their colours below; the largest stand on the map in any case.
    """
    view = RunView.of(run)
    rows, text = view.drawn_rows, view.hover_texts
    xy = view.layout.xy[rows]
    if color == "concentration":
        traces = [_concentration_trace(view, rows, xy, text)]
    elif color == "nothing":
        style = {"size": _point_size(len(rows)), "color": BASE[0], "opacity": 0.85}
        traces = [_points("nodes", xy, text, style)]
    else:
        traces = list(_class_traces(view, rows, xy, text, color))
    if boundary and view.result.memberships:
        edge = np.flatnonzero(view.is_boundary[rows])
        size = _point_size(len(rows)) + 2
        # Where thousands of points crowd, full rings would hide what they mark.
        is_crowded = len(rows) >= 4_000
        line = {"width": 0.7 if is_crowded else 1.2, "color": "#222222"}
        ring = {"size": size, "color": "rgba(0,0,0,0)", "line": line}
        ring["opacity"] = 0.45 if is_crowded else 1.0
        marked = _points("boundary nodes", xy[edge], [text[int(i)] for i in edge], ring)
        marked.meta = {"role": "boundary"}
        traces.append(marked)
    # The legend stands below in columns, whole: an entry that must be scrolled to is lost on paper.
    is_named = color not in ("concentration", "nothing")
    has_legend = legend and is_named
    lines = -(-len(traces) // _LEGEND_COLUMNS) if has_legend else 0
    figure = blank_figure(traces, height=_MAP_HEIGHT + _LEGEND_LINE * lines)
    hidden = {"visible": False, "constrain": "domain"}
    figure.update_xaxes(**hidden)
    figure.update_yaxes(**hidden, scaleanchor="x")
    figure.update_layout(
        margin={"l": 4, "r": 4, "t": 8, "b": 12 + _LEGEND_LINE * lines},
        dragmode="pan",
        showlegend=has_legend,
        legend={
            "itemsizing": "constant",
            "font": {"size": 10},
            "orientation": "h",
            "x": 0,
            "y": 0,
            "yanchor": "top",
            "entrywidth": 148,
        },
        annotations=_names(view, rows, xy, color) if is_named else [],
    )
    return figure


def _names(
    view: RunView, rows: npt.NDArray[Any], xy: npt.NDArray[Any], color: ColorBy
) -> list[dict[str, Any]]:
    """Return names of the largest groups or labels where they are densest, none over another."""
    codes, names, _ = _classes(view, rows, color)
    spots = densest_spots(xy, codes)
    span = np.maximum(np.ptp(xy, axis=0), 1e-9) if len(xy) else np.ones(2)
    scale = min(_MAP_WIDTH / span[0], _MAP_HEIGHT / span[1])
    taken: list[tuple[float, float, float]] = []
    placed: list[dict[str, Any]] = []
    for code in sorted(spots, key=lambda c: -int((codes == c).sum())):
        if len(placed) == _MOST_NAMES:
            break
        text = plot_text(names[code], _NAME_TEXT)
        half = _SIGN_WIDTH * len(text) / 2
        x, y = (scale * v for v in spots[code])
        # Where the spot is taken, a line or two above or below will do.
        for shift in (0, 1, -1, 2, -2):
            at = y + shift * _LINE_HEIGHT
            if all(abs(x - a) >= half + c or abs(at - b) >= _LINE_HEIGHT for a, b, c in taken):
                taken.append((x, at, half))
                place = {"x": spots[code][0], "y": float(at / scale), "text": text}
                placed.append({**place, "showarrow": False, "font": {"size": 11}, "borderpad": 1})
                break
    return placed


def densest_spots(xy: npt.NDArray[Any], codes: npt.NDArray[Any]) -> dict[int, tuple[float, float]]:
    """Return per code the middle of its densest part: where its name stands on a map.

    Args:
        xy: ``(num_points, 2)`` places.
        codes: ``(num_points,)`` group or label of each, -1 for none.
    """
    spots = {}
    for code in np.unique(codes[codes >= 0]).tolist():
        points = np.asarray(xy[codes == code], dtype=np.float64)
        low = points.min(axis=0)
        width = np.maximum(points.max(axis=0) - low, 1e-9) / _CELLS
        place = np.minimum(((points - low) / width).astype(np.int64), _CELLS - 1)
        counts = np.zeros((_CELLS + 2 * _AROUND, _CELLS + 2 * _AROUND), dtype=np.int64)
        np.add.at(counts, tuple(place.T + _AROUND), 1)
        # A clump of copies fills one cell; a name belongs where many cells are full.
        wide = 2 * _AROUND + 1
        sums = np.lib.stride_tricks.sliding_window_view(counts, (wide, wide)).sum(axis=(2, 3))
        best = np.asarray(np.unravel_index(int(sums.argmax()), sums.shape))
        here = points[(np.abs(place - best) <= _AROUND).all(axis=1)].mean(axis=0)
        spots[code] = (float(here[0]), float(here[1]))
    return spots


def _classes(
    view: RunView, rows: npt.NDArray[Any], color: ColorBy
) -> tuple[npt.NDArray[Any], list[str], list[str]]:
    """Return the code of each row, and the name and colour of each code."""
    if color == "label":
        if not view.label_names:
            raise InputError("the run's graph has no labels to colour by")
        return view.label_codes[rows], view.label_names, view.label_colors
    if color not in range(1, view.num_levels + 1):
        raise InputError(
            f"cannot colour by {color!r}; give a level from 1 to {view.num_levels}, "
            f"'label' or 'concentration'"
        )
    level = int(color) - 1
    return view.result.groups[level][rows], list(view.tree.names[level]), view.colors[level]


def _class_traces(
    view: RunView, rows: npt.NDArray[Any], xy: Any, text: Sequence[str], color: ColorBy
) -> Iterator[Any]:
    codes, names, colors = _classes(view, rows, color)
    if (codes < 0).any():
        unknown = np.flatnonzero(codes < 0)
        style = {"size": 4, "color": UNKNOWN, "opacity": 0.5}
        yield _points("no label", xy[unknown], [text[int(i)] for i in unknown], style)
    for code in _legend_order(view, color, len(names)):
        members = np.flatnonzero(codes == code)
        if len(members):
            style = {"size": _point_size(len(rows)), "color": colors[code], "opacity": 0.85}
            name = plot_text(names[code], _LEGEND_TEXT)
            yield _points(name, xy[members], [text[int(i)] for i in members], style)


def _legend_order(view: RunView, color: ColorBy, count: int) -> list[int]:
    """Return classes in the order of the legend: groups of one parent stand together."""
    if isinstance(color, str) or color >= view.num_levels:
        return list(range(count))
    return [int(g) for g in np.argsort(view.tree.parents[color - 1], kind="stable")]


def _concentration_trace(
    view: RunView, rows: npt.NDArray[Any], xy: Any, text: Sequence[str]
) -> Any:
    if not view.result.memberships:
        raise InputError(f"the method {view.run.method} has no concentration to colour by")
    values = view.result.concentration[rows]
    style = {
        "size": _point_size(len(rows)),
        "color": values,
        "colorscale": [list(stop) for stop in CONCENTRATION_SCALE],
        # Most nodes are firm; colours are spent on the others.
        "cmin": float(np.quantile(values, 0.01)),
        "cmax": float(np.quantile(values, 0.75)) + 1e-9,
        "colorbar": {"title": {"text": "concentration"}, "thickness": 12, "len": 0.6},
    }
    return _points("nodes", xy, text, style)


def _points(name: str, xy: Any, text: Sequence[str], marker: dict[str, Any]) -> Any:
    return go.Scattergl(
        name=name,
        x=np.ascontiguousarray(xy[:, 0], dtype=np.float32),
        y=np.ascontiguousarray(xy[:, 1], dtype=np.float32),
        mode="markers",
        marker=marker,
        text=list(text),
        hovertemplate="%{text}<extra></extra>",
    )


def _point_size(count: int) -> float:
    return 5.0 if count < 4_000 else 4.0 if count < 10_000 else 3.2
