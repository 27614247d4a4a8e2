"""The paper's figures, drawn from finished cells: maps, heat maps, surfaces, histograms.

Every function takes plain arrays and returns a matplotlib figure; nothing touches global state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.evaluate.cells import Record
from graphham.system.atomic import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Arrays = Mapping[str, npt.NDArray[Any]]

# Okabe and Ito's colours first: they stay apart for colour-blind readers.
_COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#8C6D1F", "#000000",
    "#7F3C8D", "#80BA5A", "#F97B72", "#4B4B8F", "#A5AA99", "#11A579", "#B3446C", "#3969AC",
)  # fmt: skip
_BIN = 0.05
BOUNDARY_SHARE = 0.05


@dataclass(frozen=True, eq=False)
class Surface:
    """Accuracy over two settings.

    Args:
        graph: Name of the graph.
        row_name: First setting.
        column_name: Second setting.
        rows: Its values, ascending.
        columns: Values of the second, ascending.
        values: ``(rows, columns)`` means; ``None`` where no cell is finished.
        fits: Cells that a mean is made of; the fewest where they differ.
    """

    graph: str
    row_name: str
    column_name: str
    rows: tuple[float, ...]
    columns: tuple[float, ...]
    values: list[list[float | None]]
    fits: int = 1


def map_figure(arrays: Arrays, title: str, classes: Sequence[str] = ()) -> Figure:
    """Draw Figure 3: the t-SNE map coloured by fine groups, coarse groups, labels, concentration.

    The last panel rings the nodes least committed to one group.
    """
    figure = _new_figure((13, 4.0))
    axes = figure.subplots(1, 4)
    points = arrays["map"]
    fine, coarse = arrays["level_1"], arrays["level_2"]
    panels: list[tuple[str, Any, list[Any], Sequence[str]]] = [
        ("level 1 groups", fine, _shades(fine, coarse), ()),
        ("level 2 groups", coarse, _palette(int(coarse.max()) + 1), ()),
    ]
    if "label" in arrays:
        label = arrays["label"]
        panels.append(("labels", label, _palette(int(label.max()) + 1), classes))
    for axis, (name, codes, colours, names) in zip(axes, panels, strict=False):
        used = np.flatnonzero(np.bincount(codes[codes >= 0])).tolist()
        for code in used:
            label_text = names[code] if len(names) else None
            here = points[codes == code].T
            axis.scatter(*here, s=3, color=colours[code], linewidths=0, label=label_text)
        axis.set_title(f"{name} ({len(used)})", fontsize=10)
        if len(names):
            axis.legend(
                fontsize=6, markerscale=3, loc="upper center", bbox_to_anchor=(0.5, -0.01),
                ncols=2, frameon=False, handletextpad=0.1, columnspacing=0.8,
            )  # fmt: skip
    strength = arrays["concentration"]
    last = axes[len(panels)]
    # A few nodes without any commitment would leave all others one colour.
    low, high = np.quantile(strength, [0.02, 1.0])
    shown = last.scatter(
        *points.T, s=3, c=strength, cmap="viridis", linewidths=0, vmin=low, vmax=high
    )
    edge = strength <= np.quantile(strength, BOUNDARY_SHARE)
    last.scatter(
        *points[edge].T, s=12, facecolors="none", edgecolors="#D55E00", linewidths=0.6,
        label=f"{BOUNDARY_SHARE:.0%} least committed",
    )  # fmt: skip
    last.legend(fontsize=6, loc="upper center", bbox_to_anchor=(0.5, -0.01), frameon=False)
    last.set_title("concentration", fontsize=10)
    figure.colorbar(shown, ax=last, fraction=0.046, pad=0.02, extend="min").ax.tick_params(
        labelsize=7
    )
    for axis in axes:
        axis.set_xticks([])
        axis.set_yticks([])
        for side in axis.spines.values():
            side.set_color("#bbbbbb")
    for axis in axes[len(panels) + 1 :]:
        axis.set_visible(False)
    figure.suptitle(title, fontsize=11)
    return figure


def cooccurrence_figure(arrays: Arrays, title: str, classes: Sequence[str] = ()) -> Figure:
    """Draw Figure 4: how many nodes each pair of groups, and of label and group, shares."""
    upper = arrays["level_2"]
    counts, order = _stairs(_count(arrays["level_1"], upper))
    tables: list[tuple[str, npt.NDArray[np.int64], list[str]]] = [
        ("level 1 group", counts, [str(code) for code in order])
    ]
    if "label" in arrays:
        known = arrays["label"] >= 0
        counts, order = _stairs(_count(arrays["label"][known], upper[known]))
        shown = [classes[code] if len(classes) else str(code) for code in order]
        tables.append(("label", counts, [_cut(name) for name in shown]))
    figure = _new_figure((5.2 * len(tables), 4.6))
    for axis, (name, counts, names) in zip(
        np.atleast_1d(figure.subplots(1, len(tables))), tables, strict=True
    ):
        image = axis.imshow(counts, cmap="Blues", aspect="auto")
        axis.set_xlabel("level 2 group")
        axis.set_ylabel(name)
        axis.set_xticks(range(counts.shape[1]))
        axis.set_yticks(range(len(names)), names, fontsize=7)
        if counts.size <= 200:
            for row, column in zip(*np.nonzero(counts), strict=True):
                value = int(counts[row, column])
                colour = "white" if value > 0.6 * counts.max() else "#222222"
                axis.text(column, row, value, ha="center", va="center", fontsize=6, color=colour)
        figure.colorbar(image, ax=axis, fraction=0.046, pad=0.03).ax.tick_params(labelsize=7)
    figure.suptitle(title, fontsize=11)
    return figure


def surface_figure(found: Sequence[Surface]) -> Figure:
    """Draw Figure 5: accuracy over K1 x K2 and over gamma x beta, as heat maps with numbers."""
    if not found:
        raise InputError("no cell of the sensitivity study is finished yet; run it first")
    figure = _new_figure((5.6 * len(found), 4.4))
    for axis, surface in zip(np.atleast_1d(figure.subplots(1, len(found))), found, strict=True):
        values = np.array(surface.values, dtype=np.float64)
        image = axis.imshow(np.ma.masked_invalid(values), cmap="viridis", aspect="auto")
        low, high = np.nanmin(values), np.nanmax(values)
        middle, digits = (low + high) / 2, 4 if high - low < 0.02 else 3
        for (row, column), value in np.ndenumerate(values):
            if np.isfinite(value):
                colour = "black" if value > middle else "white"
                axis.text(
                    column,
                    row,
                    f"{value:.{digits}f}",
                    ha="center",
                    va="center",
                    fontsize=7,
                    color=colour,
                )
        axis.set_xticks(range(len(surface.columns)), [f"{v:g}" for v in surface.columns])
        axis.set_yticks(range(len(surface.rows)), [f"{v:g}" for v in surface.rows])
        axis.set_xlabel(surface.column_name)
        axis.set_ylabel(surface.row_name)
        axis.set_title(f"{surface.graph}: accuracy", fontsize=10)
        figure.colorbar(image, ax=axis, fraction=0.046, pad=0.03).ax.tick_params(labelsize=7)
    return figure


def gap_figure(named: Mapping[str, Arrays]) -> Figure:
    """Draw Figure 6: how far node attention is from group attention, over nodes, per layer.

    The distance is reading (a) of A11, the mean over neighbours of alpha log(alpha / lambda); the
    dotted line is reading (c), the whole divergence. Bins are 0.05 wide, as in the paper, and finer
    where the two attentions nearly agree; the last bin holds all that lies beyond.
    """
    if not named:
        raise InputError("no portrait is finished yet; run it first")
    figure = _new_figure((4.2 * len(named), 5.6))
    grid = figure.subplots(2, len(named), squeeze=False)
    for column, (name, arrays) in enumerate(named.items()):
        reach = arrays["degrees"] + 1
        for row in range(2):
            axis = grid[row, column]
            gap = arrays[f"gap_{row + 1}"]
            whole = gap * reach
            limit = max(float(np.quantile(whole, 0.99)), float(np.quantile(gap, 0.999)), 1e-6)
            width = _BIN
            while limit < 10 * width:  # attentions that nearly agree need finer bins
                width /= 5 if round(limit / width, 6) < 2 else 2
            edges = np.arange(0, limit + 2 * width, width)
            axis.hist(
                np.minimum(gap, edges[-1]),
                bins=edges,
                color=_COLOURS[0],
                label="mean over neighbours",
            )
            axis.hist(
                np.minimum(whole, edges[-1]), bins=edges, histtype="step", linestyle=":",
                color=_COLOURS[3], label="whole divergence",
            )  # fmt: skip
            axis.set_yscale("log")
            axis.set_title(f"{name}, layer {row + 1} (bins of {width:.2g})", fontsize=9)
            axis.set_xlabel("KL(node attention, group attention)", fontsize=8)
            axis.set_ylabel("nodes", fontsize=8)
            axis.tick_params(labelsize=7)
            if row == 0 and column == 0:
                axis.legend(fontsize=7)
    return figure


def surfaces(records: Iterable[Record]) -> list[Surface]:
    """Read the two surfaces of Figure 5 out of cells whose settings vary."""
    spaces: dict[tuple[str, str, str], dict[tuple[float, float], list[float]]] = {}
    for record in records:
        if record.get("status") != "done" or "accuracy" not in record.get("metrics", {}):
            continue
        settings = record["cell"]["settings"]
        names, point = ("K1", "K2"), settings.get("groups")
        loss = settings.get("settings", {})
        if "loss.must_link_weight" in loss:
            names = ("gamma (must-link)", "beta (cannot-link)")
            point = (loss["loss.must_link_weight"], loss["loss.cannot_link_weight"])
        if point is None:
            continue
        graph, method = record["cell"]["graph"], record["cell"]["method"]
        graph = graph if method == "graphham" else f"{graph}, {method}"
        space = spaces.setdefault((graph, *names), {})
        space.setdefault((point[0], point[1]), []).append(record["metrics"]["accuracy"])
    found = []
    for (graph, row_name, column_name), space in spaces.items():
        rows = tuple(sorted({row for row, _ in space}))
        columns = tuple(sorted({column for _, column in space}))
        values = [
            [float(np.mean(space[r, c])) if (r, c) in space else None for c in columns]
            for r in rows
        ]
        fits = min(len(held) for held in space.values())
        found.append(Surface(graph, row_name, column_name, rows, columns, values, fits))
    return found


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write ``name.png`` and ``name.svg`` into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for ending in ("png", "svg"):
        path = folder / f"{name}.{ending}"
        # Without the date two equal figures are equal files.
        about = {"Date": None} if ending == "svg" else {}
        with replacing(path) as temporary:
            figure.savefig(temporary, format=ending, dpi=160, metadata=about)
        paths.append(path)
    return paths


def _new_figure(size: tuple[float, float]) -> Figure:
    try:
        from matplotlib.figure import Figure as New
    except ImportError as error:
        raise InputError("figures need matplotlib; install graphham[figures]") from error
    return New(figsize=size, layout="constrained")


def _count(lower: npt.NDArray[Any], upper: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    from graphham.results.scores import contingency

    return contingency(lower, upper, int(lower.max()) + 1, int(upper.max()) + 1)


def _stairs(counts: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], list[int]]:
    """Order rows by the column they mostly lie in, so that a nested table looks like stairs."""
    order = np.argsort(counts.argmax(axis=1), kind="stable")
    return np.asarray(counts[order]), order.tolist()


def _palette(count: int) -> list[Any]:
    return [_COLOURS[code % len(_COLOURS)] for code in range(count)]


def _shades(fine: npt.NDArray[Any], coarse: npt.NDArray[Any]) -> list[Any]:
    """Give each fine group a shade of the coarse group that holds most of it."""
    from matplotlib.colors import to_rgb

    parents = _count(fine, coarse).argmax(axis=1)
    shades: list[Any] = []
    for group, parent in enumerate(parents):
        siblings = np.flatnonzero(parents == parent)
        place = (int(np.searchsorted(siblings, group)) + 0.5) / len(siblings)
        colour = np.array(to_rgb(_palette(int(parent) + 1)[-1]))
        # From dark to light around the parent's own colour.
        mixed = (
            colour * (0.55 + 0.9 * place)
            if place < 0.5
            else 1 - (1 - colour) * (1.25 - 0.9 * place)
        )
        shades.append(tuple(np.clip(mixed, 0, 1)))
    return shades


def _cut(name: str, width: int = 22) -> str:
    return name if len(name) <= width else name[: width - 1] + "…"
