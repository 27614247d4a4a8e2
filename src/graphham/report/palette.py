"""Colours that tell groups apart, for colour-blind eyes too.

The base colours are the eight of Okabe and Ito less black, then darker and lighter relatives of
them. Colour is never the only sign: hover, legend and tables carry the names.
"""

from __future__ import annotations

import colorsys
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from graphham.results.hierarchy import Hierarchy

BASE = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#b8a900",
    "#7b5ea7",
    "#8c564b",
    "#4d7d2f",
)
UNKNOWN = "#9aa0a6"
# From deep orange (undecided) to pale blue (firm): both show on white and on black, and grey keeps
# their order.
CONCENTRATION_SCALE = ((0.0, "#b84000"), (0.5, "#efa75f"), (1.0, "#93bee2"))


def shade(color: str, step: float) -> str:
    """Return a lighter (``step`` > 0) or darker colour of the same hue."""
    red, green, blue = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    hue, light, full = colorsys.rgb_to_hls(red, green, blue)
    light = min(0.82, max(0.2, light + step))
    # Full saturation away from the base lightness glares; printed colours fade to both sides.
    parts = colorsys.hls_to_rgb(hue, light, full * (1 - min(0.45, 1.6 * abs(step))))
    return "#" + "".join(f"{round(255 * p):02x}" for p in parts)


def spread(count: int) -> list[str]:
    """Return ``count`` colours for things without an order, no two the same."""
    rounds = (0.0, -0.14, 0.16, -0.24)
    named = [shade(color, step) for step in rounds for color in BASE][:count]
    taken = set(named)
    turn = 0
    while len(named) < count:
        # Steps of the golden ratio never come back to a hue, and lie far apart for long.
        hue, light = (turn * 0.618034) % 1, (0.38, 0.55, 0.7)[turn % 3]
        parts = colorsys.hls_to_rgb(hue, light, 0.55)
        color = "#" + "".join(f"{round(255 * p):02x}" for p in parts)
        turn += 1
        if color not in taken:
            named.append(color)
            taken.add(color)
    return named


def telling_level(tree: Hierarchy) -> int:
    """Return the coarsest level that has more than one group in use; 1 where none has."""
    used = tree.groups_in_use
    return max((level for level in range(1, tree.num_levels + 1) if used[level - 1] > 1), default=1)


def group_colors(tree: Hierarchy) -> list[list[str]]:
    """Return a colour per group and level; a group is a shade of its parent.

    One group of everything has no colour to hand down: it is grey, and those below it are told
    apart by colours of their own.
    """
    top = telling_level(tree)
    levels = [spread(tree.group_counts[top - 1])]
    levels += [[UNKNOWN] * count for count in tree.group_counts[top:]]
    for level in range(top - 1, 0, -1):
        above, parents = levels[0], tree.parents[level - 1]
        colors = []
        for group, parent in enumerate(parents.tolist()):
            family = np.flatnonzero(parents == parent)
            place = int(np.searchsorted(family, group))
            step = 0.0 if len(family) == 1 else 0.26 * (place / (len(family) - 1) - 0.4)
            colors.append(shade(above[parent], step))
        levels.insert(0, colors)
    return levels


def label_colors(
    classes: Sequence[object],
    table: npt.NDArray[np.int64] | None = None,
    colors: Sequence[str] = (),
) -> list[str]:
    """Return a colour per label, no two the same.

    Args:
        classes: The labels.
        table: ``(num_labels, num_groups)`` nodes of each label in each group, if there are groups.
        colors: The groups' colours. A label has that of the group in which it is the commonest,
            and which is its own commonest, so that what is one thing has one colour.
    """
    chosen: dict[int, str] = {}
    if table is not None and table.size:
        for label, group in enumerate(table.argmax(axis=1).tolist()):
            if table[label, group] and int(table[:, group].argmax()) == label:
                chosen[label] = colors[group]
    # Enough to have one left for each of the others, whichever are taken.
    left = [c for c in spread(len(classes) + len(chosen)) if c not in set(chosen.values())]
    return [chosen[i] if i in chosen else left.pop(0) for i in range(len(classes))]
