"""Colours tell groups apart."""

from graphham.report import RunView
from graphham.report.palette import group_colors, spread


def test_colours_differ_and_children_follow_their_parents(view: RunView) -> None:
    assert len(set(spread(40))) == 40
    levels = group_colors(view.tree)
    assert all(len(set(level)) == len(level) for level in levels)
