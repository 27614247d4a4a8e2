"""A selection is the rows that plain counting finds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from graphham.errors import InputError
from graphham.explore.queries import Explorer
from graphham.explore.selection import attribute_rows, inside_polygon
from graphham.report.view import LEAST_BETWEEN, RunView
from graphham.results.run_folder import Run


@given(
    arrays(np.float32, st.tuples(st.integers(0, 30), st.just(2)), elements=st.integers(-9, 9)),
    st.lists(st.tuples(st.integers(-40, 40), st.integers(-40, 40)), min_size=3, max_size=9),
)
def test_a_lasso_holds_what_plain_counting_says(xy, corners) -> None:
    polygon = np.asarray(corners, dtype=float) / 4 + 0.0625  # no point lies on a side's height
    expected = []
    for row, (x, y) in enumerate(xy.tolist()):
        crossings = 0
        for (ax, ay), (bx, by) in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
            if min(ay, by) <= y < max(ay, by):
                crossings += x < ax + (bx - ax) * (y - ay) / (by - ay)
        if crossings % 2:
            expected.append(row)
    assert inside_polygon(xy, polygon).tolist() == expected


def test_a_selection_comes_back_as_a_table(small_run: Path) -> None:
    explorer, run = Explorer(small_run, whole=100, sample=60), Run.open(small_run)
    assert explorer.selection().num_rows == 0
    codes = run.nodes["group_2"].to_numpy()
    assert explorer.select({"group": "2-1"}) == int((codes == 1).sum())
    ids = np.asarray(run.nodes["id"].to_pylist())
    assert explorer.selection()["id"].to_pylist() == ids[codes == 1].tolist()
    # Of a large run every node counts, not only those that are drawn.
    assert explorer.select({"lasso": "-99,-99;99,-99;99,99;-99,99"}) == 240
    kind = run.nodes["label"].to_pylist()
    assert explorer.select({"attribute": "label:1"}) == kind.count("kind 1") > 0
    assert explorer.select({}) == 0
    assert explorer.selection().num_rows == 0


def test_a_group_is_exported_whole_even_if_a_sample_is_drawn(small_run: Path) -> None:
    explorer, run = Explorer(small_run, whole=100, sample=60), Run.open(small_run)
    table = explorer.table(explorer.selected_rows({"group": "1-3"}))
    assert table.num_rows == run.hierarchy.sizes[0][3]
    assert set(table["group_1"].to_pylist()) == {3}
    assert set(table["group_name_1"].to_pylist()) == {run.hierarchy.names[0][3]}


def test_nodes_between_groups_and_thin_ones_are_two_selections(own_run: Path) -> None:
    view = RunView.of(own_run)
    result = view.result
    five = attribute_rows(view, "between", 5)
    np.testing.assert_array_equal(five, np.flatnonzero(view.is_boundary))
    ten = attribute_rows(view, "between", 10)
    assert set(five) <= set(ten)
    assert result.between[ten].min(initial=1) >= LEAST_BETWEEN
    evidence = np.append(np.float32([0.1, 0.4, 0.5]), result.evidence[3:])
    view.__dict__["result"] = replace(result, evidence=evidence)
    thin = attribute_rows(view, "evidence", 0)
    assert {0, 1} <= set(thin.tolist())
    assert 2 not in thin
    for kind, code in (("between", 0), ("between", 101), ("evidence", 1)):
        with pytest.raises(InputError, match="there is no"):
            attribute_rows(view, kind, code)
