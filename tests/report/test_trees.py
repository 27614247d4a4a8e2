"""Flow and areas of the groups add up to the run's nodes."""

from pathlib import Path

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.report import RunView, figures
from tests.report.conftest import write_run


def test_the_flow_carries_every_node_from_fine_to_coarse(view: RunView) -> None:
    link = figures.merge_flow(view).data[0].link
    fine = len(view.tree.names[0])
    seen = np.zeros_like(view.tree.flows(1, 2))
    np.add.at(seen, (np.array(link.source), np.array(link.target) - fine), np.array(link.value))
    np.testing.assert_array_equal(seen, view.tree.flows(1, 2))
    assert seen.sum() == 80


@pytest.mark.parametrize("kind", ["treemap", "sunburst", "icicle"])
def test_areas_of_the_children_fill_their_parent(view: RunView, kind: str) -> None:
    tree = figures.group_tree(view, kind).data[0]
    sizes = dict(zip(tree.ids, tree.values, strict=True))
    assert sizes["all"] == 80
    for parent in ("all", *(f"2-{group}" for group in range(3))):
        below = [i for i, p in zip(tree.ids, tree.parents, strict=True) if p == parent]
        assert sizes[parent] == sum(sizes[i] for i in below)


def test_a_tree_that_cannot_be_drawn_says_why(view: RunView, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one level"):
        figures.merge_flow(write_run(tmp_path / "run", groups=(4,)))
    with pytest.raises(InputError, match="no tree of kind 'pie'"):
        figures.group_tree(view, "pie")  # type: ignore[arg-type]
