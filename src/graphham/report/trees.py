"""The groups as a flow between levels and as areas; how two runs map onto each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.report.canvas import AnyRun, blank_figure, faint, go
from graphham.report.palette import UNKNOWN, group_colors
from graphham.report.safe_text import SHORT, plot_text
from graphham.report.view import RunView

if TYPE_CHECKING:
    from graphham.report.canvas import Figure
    from graphham.results.compare import Comparison

# Share of either group below which a comparison leaves a band out.
LEAST_BAND = 0.02


def merge_flow(run: AnyRun) -> Figure:
    """Draw how many nodes flow from each fine group into each coarser one (Sankey)."""
    view = RunView.of(run)
    tree = view.tree
    if tree.num_levels < 2:
        raise InputError("the run has one level of groups, so nothing flows between levels")
    flows = [tree.flows(level, level + 1) for level in range(1, tree.num_levels)]
    return _sankey(flows, tree.names, view.colors)


def comparison_flow(comparison: Comparison) -> Figure:
    """Draw how the groups of one run map onto those of another (Sankey)."""
    level = comparison.level - 1
    # The colours that the first run's own views have; partners share them.
    left = group_colors(comparison.first.hierarchy)[level]
    right = [UNKNOWN] * comparison.counts.shape[1]
    for group, partner in enumerate(comparison.partner.tolist()):
        if partner >= 0:
            right[partner] = left[group]
    sides = [run.hierarchy.names[level] for run in (comparison.first, comparison.second)]
    counts = comparison.counts
    # Hundreds of threads of a few nodes would hide the bands that matter.
    share = np.maximum(
        counts / np.maximum(counts.sum(axis=1, keepdims=True), 1),
        counts / np.maximum(counts.sum(axis=0, keepdims=True), 1),
    )
    return _sankey([np.where(share >= LEAST_BAND, counts, 0)], sides, [left, right])


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
            links["color"].append(faint(colors[side + 1][high]))
    sankey = go.Sankey(
        node={
            "label": [plot_text(name, SHORT) for level in names for name in level],
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
    figure = blank_figure([sankey], height=max(380, 26 * max(len(n) for n in names)))
    figure.update_layout(margin={"l": 8, "r": 8, "t": 22, "b": 16})
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
    ids, parents, values, labels, colors, hover = ["all"], [""], [view.num_nodes], [""], [""], [""]
    labels[0], colors[0] = plot_text(view.name, SHORT), "rgba(128,128,128,0.15)"
    hover[0] = f"all {view.num_nodes:,} nodes"
    for level in range(tree.num_levels, 0, -1):
        for group in range(tree.group_counts[level - 1]):
            above = "all"
            if level < tree.num_levels:
                above = f"{level + 1}-{int(tree.parents[level - 1][group])}"
            ids.append(f"{level}-{group}")
            parents.append(above)
            values.append(size[level, group])
            labels.append(plot_text(tree.names[level - 1][group], SHORT))
            colors.append(view.colors[level - 1][group])
            hover.append(group_hover(view.group_records[level, group]))
    values[0] = sum(v for v, p in zip(values, parents, strict=True) if p == "all")
    # A group that holds others has one line for its name, the innermost ones have an area.
    lines = [x if i in parents else _wrapped(x) for i, x in zip(ids, labels, strict=True)]
    trace = shapes[kind](
        ids=ids,
        parents=parents,
        values=values,
        labels=labels,
        text=lines,
        textinfo="text",
        customdata=hover,
        branchvalues="total",
        marker={"colors": colors, "line": {"width": 1}},
        hovertemplate="%{customdata}<extra></extra>",
        sort=False,
    )
    figure = blank_figure([trace], height=440)
    figure.update_layout(margin={"l": 4, "r": 4, "t": 4, "b": 4})
    return figure


def _wrapped(text: str, width: int = 15) -> str:
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) + 1 > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return "<br>".join(lines)


def group_hover(group: dict[str, Any]) -> str:
    """Return what the pointer shows for a group."""
    lines = [f"<b>{plot_text(group['name'])}</b>", f"{group['size']:,} nodes"]
    features = [plot_text(f["feature"], 30) for f in group["typical_features"] or []][:4]
    if features:
        lines.append("typical: " + ", ".join(features))
    if group["dominant_label"] is not None:
        lines.append(f"{group['purity']:.0%} {plot_text(group['dominant_label'], 40)}")
    return "<br>".join(lines)
