"""Colours tell groups apart."""

import numpy as np

from graphham.report import RunView
from graphham.report.palette import group_colors, label_colors, spread, telling_level
from graphham.results.hierarchy import Hierarchy


def test_colours_differ_and_children_follow_their_parents(view: RunView) -> None:
    assert len(set(spread(700))) == 700
    assert spread(700)[:3] == spread(3)
    levels = group_colors(view.tree)
    assert all(len(set(level)) == len(level) for level in levels)


def test_groups_below_one_group_of_everything_have_colours_of_their_own() -> None:
    fine = np.arange(180, dtype=np.int32) % 9
    tree = Hierarchy.from_groups([fine, np.zeros(180, np.int32)], (9, 1))
    below, above = group_colors(tree)
    assert below == spread(9)
    assert telling_level(tree) == 1
    assert not set(below) & set(above)


def test_a_label_has_the_colour_of_the_group_it_fills() -> None:
    table = np.array([[9, 0, 1], [0, 8, 0], [3, 0, 0], [0, 0, 0], [1, 2, 5]])
    colors = spread(3)
    found = label_colors("abcde", table, colors)
    assert [found[0], found[1], found[4]] == colors
    assert len(set(found)) == 5  # the third is mostly where another label is at home
    many = label_colors(range(60), np.eye(60, 45, dtype=np.int64), spread(45))
    assert many[:45] == spread(45)
    assert len(set(many)) == 60
