"""What each picture shows on this run, in one sentence made from the numbers it draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphham.report.safe_text import one_line
from graphham.results.agreement import accuracy, confusion

if TYPE_CHECKING:
    from graphham.report.maps import ColorBy
    from graphham.report.view import RunView

_NAME = 60
# Below this a node is more spread than committed, and orange on the map.
_HALF_COMMITTED = 0.5


def map_finding(view: RunView, color: ColorBy) -> str:
    """Say how far the colours of a map stand together, or how firm the nodes are."""
    if color == "nothing":
        return f"All {view.num_nodes:,} nodes; the method {view.run.method} makes no groups."
    if color == "concentration":
        values = view.result.concentration
        low = float((values < _HALF_COMMITTED).mean())
        return (
            f"Half of the nodes commit to one group with {np.median(values):.2f} of 1 or more; "
            f"{low:.1%} stay below {_HALF_COMMITTED:g}."
        )
    codes = view.label_codes if color == "label" else view.result.groups[color - 1]
    drawn = codes[view.drawn_rows]
    known = drawn >= 0
    near = drawn[view.near_on_map]
    share = float((near[known] == drawn[known, None]).mean()) if known.any() else 0.0
    what = "carry its own label" if color == "label" else f"are in its own {kind_of(view, color)}"
    said = f"Of the {near.shape[1]} nearest to a node on the map, {share:.0%} {what}"
    grey = int((view.label_codes < 0).sum()) if color == "label" else 0
    return f"{said}; {grey:,} nodes without a label are grey." if grey else f"{said}."


def kind_of(view: RunView, level: int) -> str:
    """Return what a group of a level is called: fine, coarse, or just a group."""
    if view.num_levels == 1:
        return "group"
    return "fine group" if level == 1 else "coarse group"


def tree_finding(view: RunView) -> str:
    """Say which group is the largest and which the smallest."""
    top, fine = view.tree.sizes[-1], view.tree.sizes[0]
    used = np.flatnonzero(fine)
    if not len(used):
        return "No group has a node."
    large, small = int(top.argmax()), int(used[fine[used].argmin()])
    said = (
        f"The largest {kind_of(view, view.num_levels)}, {_group(view, view.num_levels, large)}, "
        f"has {top[large] / max(int(top.sum()), 1):.0%} of the nodes"
    )
    if len(used) == 1:
        return f"{said}; there is no other."
    name = _group(view, 1, small)
    return f"{said}; the smallest of {len(used)} {kind_of(view, 1)}s, {name}, has {fine[small]:,}."


def flow_finding(view: RunView) -> str:
    """Say how many fine groups merge whole."""
    flow = view.tree.flows(1, 2)
    used = flow[flow.sum(axis=1) > 0]
    whole = int(((used > 0).sum(axis=1) == 1).sum())
    apart = 1 - used.max(axis=1).sum() / max(int(used.sum()), 1)
    return (
        f"{whole} of {len(used)} fine groups merge whole; {apart:.1%} of the nodes go elsewhere "
        "than most of their fine group."
    )


def levels_finding(view: RunView) -> str:
    """Name the fine group that is spread most over coarse ones."""
    flow = view.tree.flows(1, 2).astype(np.float64)
    total = flow.sum(axis=1)
    share = np.where(total > 0, flow.max(axis=1) / np.maximum(total, 1), 1.0)
    worst = int(share.argmin())
    return f"The fine group spread most is {_group(view, 1, worst)}: {share[worst]:.0%} in one."


def labels_finding(view: RunView, level: int) -> str:
    """Name the label that lies most in one group and the one that is spread most."""
    table = np.zeros((len(view.label_names), view.tree.group_counts[level - 1]), dtype=np.int64)
    known = view.label_codes >= 0
    np.add.at(table, (view.label_codes[known], view.result.groups[level - 1][known]), 1)
    total = table.sum(axis=1)
    used = np.flatnonzero(total)
    if not len(used):
        return "No node has a label."
    share = table[used].max(axis=1) / total[used]
    home, spread = int(used[share.argmax()]), int(used[share.argmin()])
    said = (
        f"{one_line(view.label_names[home], _NAME)} lies most in one group: {share.max():.0%} in "
        f"{_group(view, level, int(table[home].argmax()))}"
    )
    if len(used) == 1:
        return f"{said}."
    return (
        f"{said}; {one_line(view.label_names[spread], _NAME)} is spread most: "
        f"{share.min():.0%} in its largest."
    )


def confusion_finding(view: RunView) -> str:
    """Say how many predictions are right and which label is mistaken most often."""
    labels, said = view.result.labels, view.result.prediction
    assert labels is not None
    assert said is not None
    counts = confusion(labels, said)
    right = f"The diagonal is right: {accuracy(labels, said):.1%}"
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    row, column = np.unravel_index(int(wrong.argmax()), wrong.shape)
    if not wrong[row, column]:
        return f"{right}, and nothing is mistaken."
    names = [one_line(c, _NAME) for c in labels.classes]
    share = wrong[row, column] / counts[row].sum()
    return f"{right}; the commonest mistake takes {share:.0%} of {names[row]} for {names[column]}."


def boundary_finding(view: RunView) -> str:
    """Say how many nodes lie between groups, and between which two coarse groups most."""
    rows = np.flatnonzero(view.is_boundary)
    said = f"{len(rows):,} of {view.num_nodes:,} nodes have two strong memberships"
    top = view.result.memberships[-1]
    if not len(rows) or top.shape[1] < 2:
        return f"{said}."
    pairs = np.sort(np.argsort(-np.asarray(top[rows]), axis=1, kind="stable")[:, :2], axis=1)
    found, count = np.unique(pairs, axis=0, return_counts=True)
    first, second = (_group(view, view.num_levels, int(g)) for g in found[count.argmax()])
    return f"{said}; {int(count.max()):,} of them lie between {first} and {second}."


def attention_finding(view: RunView) -> str:
    """Say for how many nodes groups change whom a node listens to."""
    gap = (view.result.attention_gap or [np.zeros(1, np.float32)])[0]
    middle, high = (float(v) for v in np.quantile(gap, [0.5, 0.95]))
    return (
        f"In layer 1 half of the nodes differ by {middle:.3f} or less, one in twenty by "
        f"{high:.3f} or more; 0 would mean that both attentions say the same."
    )


def training_finding(view: RunView) -> str:
    """Say from where to where the loss went, and which epoch is kept."""
    records = [r for r in view.run.metrics if isinstance(r.get("epoch"), int)]
    losses = [float(r["loss"]) for r in records if r.get("loss") is not None]
    if not losses:
        return f"{len(records)} epochs."
    fell = "fell" if losses[-1] < losses[0] else "went"
    said = f"The loss {fell} from {losses[0]:.3g} to {losses[-1]:.3g} in {len(records)} epochs"
    best = view.run.summary.get("training", {}).get("best_epoch")
    return f"{said}." if best is None else f"{said}; the state after epoch {best} is kept."


def _group(view: RunView, level: int, group: int) -> str:
    return one_line(view.tree.names[level - 1][group], _NAME)
