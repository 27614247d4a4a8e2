"""Every picture of a run as a plain function that returns a plotly figure.

Each function takes a run, its folder or a :class:`RunView`, so that a notebook, the report and
other programs draw the same thing. Group numbers never appear without the group's name.
"""

from __future__ import annotations

from graphham.report.canvas import FONT, AnyRun
from graphham.report.curves import attention_histogram, training_curves
from graphham.report.heatmaps import confusion_heatmap, label_heatmap, level_heatmap
from graphham.report.maps import ColorBy, node_map
from graphham.report.trees import comparison_flow, group_hover, group_tree, merge_flow

__all__ = [
    "FONT",
    "AnyRun",
    "ColorBy",
    "attention_histogram",
    "comparison_flow",
    "confusion_heatmap",
    "group_hover",
    "group_tree",
    "label_heatmap",
    "level_heatmap",
    "merge_flow",
    "node_map",
    "training_curves",
]
