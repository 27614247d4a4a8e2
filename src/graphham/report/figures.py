"""Every picture of a run as a plain function that returns a plotly figure.

Each function takes a run, its folder or a :class:`RunView`, so that a notebook, the report and
other programs draw the same thing. Group numbers never appear without the group's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.report.palette import BASE, FIRMNESS, UNKNOWN, spread
from graphham.report.text import need, plot_text
from graphham.report.view import RunView
from graphham.saved import Run

need("plotly", "drawing figures")

import plotly.graph_objects as go  # noqa: E402

if TYPE_CHECKING:
    from graphham.compare import Comparison

    Figure: TypeAlias = Any

AnyRun: TypeAlias = RunView | Run | str | Path
ColorBy: TypeAlias = int | Literal["label", "concentration"]

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"
# Points drawn on one map; a browser stays quick and the report stays a few megabytes.
MAX_POINTS = 12_000
_SHORT = 34
_PART_NAMES = {"nesting_loss": "nesting", "self_training": "self-training", "class": "labels"}
_NOT_LOSSES = ("epoch", "seconds", "used_", "validation", "lr", "tau")


def node_map(run: AnyRun, color: ColorBy = 1, boundary: bool = True) -> Figure:
    """Draw the map, coloured by the groups of a level, by label or by concentration.

    Args:
        run: The run.
        color: A level (1 is the finest), ``"label"`` or ``"concentration"``.
        boundary: Mark the nodes that commit least, in a trace of their own.
    """
    view = RunView.of(run)
    rows = view.sample(MAX_POINTS)
    xy, text = view.layout.xy[rows], hover_texts(view, rows)
    if color == "concentration":
        traces = [_firm_trace(view, rows, xy, text)]
    else:
        traces = list(_class_traces(view, rows, xy, text, color))
    if boundary:
        edge = np.flatnonzero(view.result.concentration[rows] <= view.boundary_bar)
        size = _point_size(len(rows)) + 2
        line = {"width": 1.2 if len(rows) < 4_000 else 0.8, "color": "#222222"}
        ring = {"size": size, "color": "rgba(0,0,0,0)", "line": line}
        marked = _points("boundary nodes", xy[edge], [text[int(i)] for i in edge], ring)
        marked.meta = {"role": "boundary"}
        traces.append(marked)
    figure = _figure(traces, height=520)
    hidden = {"visible": False, "constrain": "domain"}
    figure.update_xaxes(**hidden)
    figure.update_yaxes(**hidden, scaleanchor="x")
    figure.update_layout(
        margin={"l": 4, "r": 4, "t": 8, "b": 4},
        dragmode="pan",
        showlegend=color != "concentration",
        legend={"itemsizing": "constant", "font": {"size": 11}, "tracegroupgap": 0},
    )
    return figure


def merge_flow(run: AnyRun) -> Figure:
    """Draw how many nodes flow from each fine group into each coarser one (Sankey)."""
    view = RunView.of(run)
    tree = view.tree
    if tree.num_levels < 2:
        raise InputError("the run has one level of groups, so nothing flows between levels")
    flows = [tree.flows(level, level + 1) for level in range(1, tree.num_levels)]
    return _sankey(flows, tree.names, view.colors)


def comparison_flow(found: Comparison) -> Figure:
    """Draw how the groups of one run map onto those of another (Sankey)."""
    names = [found.first.hierarchy.names, found.second.hierarchy.names]
    count_a, count_b = found.counts.shape
    right = spread(count_b)
    partner = found.partner.tolist()
    left = [right[p] if p >= 0 else UNKNOWN for p in partner] + [UNKNOWN] * (count_a - len(partner))
    sides = [names[0][found.level - 1], names[1][found.level - 1]]
    return _sankey([found.counts], sides, [left, right])


def _sankey(
    flows: Sequence[npt.NDArray[Any]],
    names: Sequence[Sequence[str]],
    colors: Sequence[Sequence[str]],
) -> Figure:
    start = np.concatenate([[0], np.cumsum([len(n) for n in names])])
    links: dict[str, list[Any]] = {"source": [], "target": [], "value": [], "color": []}
    for side, flow in enumerate(flows):
        for low, high in np.argwhere(flow > 0).tolist():
            links["source"].append(int(start[side]) + low)
            links["target"].append(int(start[side + 1]) + high)
            links["value"].append(int(flow[low, high]))
            links["color"].append(_faint(colors[side + 1][high]))
    sankey = go.Sankey(
        node={
            "label": [plot_text(name, _SHORT) for level in names for name in level],
            "color": [c for level in colors for c in level],
            "pad": 10,
            "thickness": 14,
            "line": {"width": 0},
            "hovertemplate": "%{label}: %{value:,} nodes<extra></extra>",
        },
        link={
            **links,
            "hovertemplate": "%{source.label} → %{target.label}: %{value:,} nodes<extra></extra>",
        },
        valueformat=",",
        textfont={"size": 11},
    )
    figure = _figure([sankey], height=max(380, 26 * max(len(n) for n in names)))
    figure.update_layout(margin={"l": 8, "r": 8, "t": 12, "b": 12})
    return figure


def group_tree(run: AnyRun, kind: Literal["treemap", "sunburst", "icicle"] = "treemap") -> Figure:
    """Draw the tree of groups with areas that follow the number of nodes."""
    view = RunView.of(run)
    shapes = {"treemap": go.Treemap, "sunburst": go.Sunburst, "icicle": go.Icicle}
    if kind not in shapes:
        raise InputError(f"there is no tree of kind {kind!r}; choose one of {', '.join(shapes)}")
    tree = view.tree
    # A parent's area is the sum of its children here, because a few nodes of a group that the
    # model put elsewhere would make the areas disagree.
    size = {(1, g): int(n) for g, n in enumerate(tree.sizes[0])}
    for level in range(2, tree.num_levels + 1):
        for group in range(tree.group_counts[level - 1]):
            size[level, group] = sum(size[level - 1, c] for c in tree.children(level, group))
    records = {(g["level"], g["group"]): g for g in view.groups}
    ids, parents, values, labels, colors, hover = ["all"], [""], [view.num_nodes], [""], [""], [""]
    labels[0], colors[0] = plot_text(view.name, _SHORT), "rgba(128,128,128,0.15)"
    hover[0] = f"all {view.num_nodes:,} nodes"
    for level in range(tree.num_levels, 0, -1):
        for group in range(tree.group_counts[level - 1]):
            above = "all"
            if level < tree.num_levels:
                above = f"{level + 1}-{int(tree.parents[level - 1][group])}"
            ids.append(f"{level}-{group}")
            parents.append(above)
            values.append(size[level, group])
            labels.append(plot_text(tree.names[level - 1][group], _SHORT))
            colors.append(view.colors[level - 1][group])
            hover.append(group_hover(records[level, group]))
    values[0] = sum(v for v, p in zip(values, parents, strict=True) if p == "all")
    trace = shapes[kind](
        ids=ids,
        parents=parents,
        values=values,
        labels=labels,
        customdata=hover,
        branchvalues="total",
        marker={"colors": colors, "line": {"width": 1}},
        hovertemplate="%{customdata}<extra></extra>",
        sort=False,
    )
    figure = _figure([trace], height=460)
    figure.update_layout(margin={"l": 4, "r": 4, "t": 4, "b": 4})
    return figure


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
    figure = _figure(traces, height=320)
    figure.update_layout(legend=_top_legend())
    figure.update_xaxes(title_text="KL divergence of node from group attention", rangemode="tozero")
    figure.update_yaxes(title_text="share of nodes", tickformat=".0%", rangemode="tozero")
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
    figure = _figure(traces, height=340)
    figure.update_layout(legend=_top_legend(), hovermode="x unified")
    figure.update_xaxes(title_text="epoch")
    figure.update_yaxes(title_text="loss", rangemode="tozero")
    if "validation" in names:
        beside = {"title": {"text": "validation"}, "overlaying": "y", "side": "right"}
        figure.update_layout(yaxis2={**beside, "showgrid": False})
    return figure


def hover_texts(view: RunView, rows: npt.NDArray[Any]) -> list[str]:
    """Return what the pointer shows for each row: id, title, groups, concentration, label."""
    ids, titles = view.node_texts(rows)
    heads = [
        f"<b>{plot_text(i, 60)}</b>" + (f"<br>{plot_text(t, 70)}" if t else "")
        for i, t in zip(ids, titles, strict=True)
    ]
    names = [[plot_text(n, _SHORT) for n in level] for level in view.tree.names]
    codes = [g[rows].tolist() for g in view.result.groups]
    firm = view.result.concentration[rows].tolist()
    labels = [plot_text(n, _SHORT) for n in view.label_names]
    known = view.label_codes[rows].tolist()
    texts = []
    for i, head in enumerate(heads):
        groups = "".join(
            f"<br>level {level + 1}: {names[level][codes[level][i]]}" for level in range(len(codes))
        )
        label = f"<br>label: {labels[known[i]]}" if labels and known[i] >= 0 else ""
        texts.append(f"{head}{groups}{label}<br>concentration {firm[i]:.3f}")
    return texts


def group_hover(group: dict[str, Any]) -> str:
    """Return what the pointer shows for a group."""
    lines = [f"<b>{plot_text(group['name'])}</b>", f"{group['size']:,} nodes"]
    features = [plot_text(f["feature"], 30) for f in group["typical_features"] or []][:4]
    if features:
        lines.append("typical: " + ", ".join(features))
    if group["dominant_label"] is not None:
        lines.append(f"{group['purity']:.0%} {plot_text(group['dominant_label'], 40)}")
    return "<br>".join(lines)


def _class_traces(
    view: RunView, rows: npt.NDArray[Any], xy: Any, text: Sequence[str], color: ColorBy
) -> Iterator[Any]:
    if color == "label":
        if not view.label_names:
            raise InputError("the run's graph has no labels to colour by")
        codes, names, colors = view.label_codes[rows], view.label_names, view.label_colors
    else:
        if color not in range(1, view.num_levels + 1):
            raise InputError(
                f"cannot colour by {color!r}; give a level from 1 to {view.num_levels}, "
                f"'label' or 'concentration'"
            )
        codes = view.result.groups[int(color) - 1][rows]
        names, colors = list(view.tree.names[int(color) - 1]), view.colors[int(color) - 1]
    if (codes < 0).any():
        unknown = np.flatnonzero(codes < 0)
        style = {"size": 4, "color": UNKNOWN, "opacity": 0.5}
        yield _points("no label", xy[unknown], [text[int(i)] for i in unknown], style)
    for code, name in enumerate(names):
        members = np.flatnonzero(codes == code)
        if len(members):
            style = {"size": _point_size(len(rows)), "color": colors[code], "opacity": 0.85}
            shown = plot_text(name, _SHORT)
            yield _points(shown, xy[members], [text[int(i)] for i in members], style)


def _firm_trace(view: RunView, rows: npt.NDArray[Any], xy: Any, text: Sequence[str]) -> Any:
    firm = view.result.concentration[rows]
    style = {
        "size": _point_size(len(rows)),
        "color": firm,
        "colorscale": FIRMNESS,
        "cmin": float(np.quantile(firm, 0.01)),
        "cmax": float(np.quantile(firm, 0.99)) + 1e-9,
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


def _heatmap(
    counts: npt.NDArray[Any], rows: Sequence[str], columns: Sequence[str], what: str, across: str
) -> Figure:
    total = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    used = np.flatnonzero(counts.sum(axis=0) > 0)
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
    figure = _figure([trace], height=max(340, 24 * len(rows) + 150))
    ticks = {"tickfont": {"size": 11}, "automargin": True, "showgrid": False}
    figure.update_xaxes(
        tickvals=list(range(len(used))), ticktext=top, tickangle=40, title_text=across, **ticks
    )
    figure.update_yaxes(
        tickvals=list(range(len(rows))), ticktext=text, autorange="reversed", **ticks
    )
    return figure


def _curve(records: Sequence[dict[str, Any]], name: str, number: int, width: float) -> Any:
    seen = [(r["epoch"], r[name]) for r in records if r.get(name) is not None]
    dash = ("solid", "solid", "dash", "dot", "dashdot")[number % 5]
    return go.Scatter(
        name=_PART_NAMES.get(name, name.replace("_", " ")),
        x=[e for e, _ in seen],
        y=[v for _, v in seen],
        mode="lines",
        line={"width": width, "dash": dash},
        hovertemplate="%{y:.3f}",
    )


def _figure(traces: Sequence[Any], height: int) -> Figure:
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


def _top_legend() -> dict[str, Any]:
    return {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}


def _faint(color: str) -> str:
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.35)"
