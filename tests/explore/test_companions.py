"""Two runs side by side, and nodes embedded later: what one shows of the other."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

from graphham.errors import InputError
from graphham.explore.binary_columns import unpack
from graphham.explore.companions import Beside, read_new_nodes
from graphham.explore.launch import RunningExplorer
from graphham.explore.queries import Explorer
from graphham.explore.static_copy import export_static
from graphham.report import RunView
from graphham.results.run_folder import Run
from graphham.results.run_writer import start_run
from tests.explore.conftest import Tab
from tests.outputs import make_graph, make_result


@pytest.fixture(scope="module")
def other_run(small_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of most of the same nodes in another order, and of ten that the first lacks."""
    ids = Run.open(small_run).nodes["id"].to_pylist()
    result = make_result(
        210, (5, 2), ids=[f"x{i}" for i in range(10)] + ids[:200][::-1], labels="none"
    )
    with start_run(tmp_path_factory.mktemp("beside") / "other", {"seed": 1}) as writer:
        return writer.finish(result, {}, make_graph(result), {}).path


def test_nodes_are_matched_by_id_and_colours_by_partner(small_run: Path, other_run: Path) -> None:
    view = RunView.of(small_run)
    beside = Beside(view, other_run)
    ids, others = view.run.nodes["id"].to_pylist(), beside.other.run.nodes["id"].to_pylist()
    assert [-1 if i not in ids else ids.index(i) for i in others] == beside.here.tolist()
    told = beside.overview()
    assert (told["numNodes"], told["numShared"]) == (210, 200)
    part = beside.comparisons[1]
    for group, partner in enumerate(part.partner.tolist()):
        if partner >= 0:
            assert told["levels"][1][partner]["color"] == view.colors[1][group]
    columns, _ = unpack(beside.points())
    assert columns["id"] == others
    np.testing.assert_array_equal(columns["here"], beside.here)
    np.testing.assert_array_equal(columns["group2"], beside.other.result.groups[1])


def test_a_selection_beside_is_one_of_the_run(small_run: Path, other_run: Path) -> None:
    explorer = Explorer(small_run, beside=other_run)
    beside = explorer.beside
    assert beside is not None
    ids = explorer.view.run.nodes["id"].to_pylist()
    group = beside.other.result.groups[1]
    others = beside.other.run.nodes["id"].to_pylist()
    wanted = sorted(i for i, g in zip(others, group, strict=True) if g == 1 and i in ids)
    for rows in (
        explorer.attribute_rows("beside2", 1),
        explorer.selected_rows({"attribute": "beside2:1"}),
    ):
        assert rows is not None
        assert sorted(ids[r] for r in rows) == wanted
    x0, y0 = beside.layout.xy.min(axis=0) - 1
    x1, y1 = beside.layout.xy.max(axis=0) + 1
    around = f"{x0},{y0};{x1},{y0};{x1},{y1};{x0},{y1}"
    found = explorer.selected_rows({"besideLasso": around})
    assert found is not None
    assert len(found) == 200
    moved = explorer.attribute_rows("moved1", 0)
    assert len(moved) == int(beside.comparisons[0].moved.sum())
    with pytest.raises(InputError, match="no beside9 number 0"):
        explorer.attribute_rows("beside9", 0)
    with pytest.raises(InputError, match="a lasso is"):
        explorer.selected_rows({"besideLasso": "1,2;x"})
    with pytest.raises(InputError, match="--beside"):
        Explorer(small_run).beside_points()


def test_a_large_run_sends_only_partners_of_what_is_drawn(small_run: Path, other_run: Path) -> None:
    explorer = Explorer(small_run, whole=100, sample=60, beside=other_run)
    drawn, _ = unpack(explorer.points())
    columns, _ = unpack(explorer.beside_points())
    here = columns["here"]
    assert set(here[here >= 0].tolist()) <= set(drawn["row"].tolist())
    assert int((here < 0).sum()) == 10


def test_runs_without_a_common_node_are_refused(small_run: Path, tmp_path: Path) -> None:
    result = make_result(20, labels="none")
    with start_run(tmp_path / "run", {"seed": 1}) as writer:
        strange = writer.finish(result, {}, make_graph(result), {}).path
    with pytest.raises(InputError, match="no node id in common"):
        Explorer(small_run, beside=strange)


def new_table(run: Run) -> pa.Table:
    known = run.nodes["id"][0].as_py()
    return pa.table(
        {
            "id": ["brand <b>new</b>", "other", known],
            "group_1": pa.array([1, 99, 0], pa.int32()),
            "group_2": pa.array([0, 1, 0], pa.int32()),
            "concentration": [0.9, 0.2, 1.0],
            "map_x": [0.5, -0.5, 0.0],
            "map_y": [0.1, 0.2, 0.0],
        }
    )


def test_new_nodes_are_read_and_known_ones_left_out(small_run: Path, tmp_path: Path) -> None:
    view = RunView.of(small_run)
    table = new_table(view.run)
    pq.write_table(table, tmp_path / "new.parquet")
    csv.write_csv(table, tmp_path / "new.csv")
    found = read_new_nodes(view, tmp_path / "new.parquet")
    assert found == read_new_nodes(view, tmp_path / "new.csv")
    assert [n["id"] for n in found] == ["brand <b>new</b>", "other"]
    assert [n["groups"] for n in found] == [[1, 0], [None, 1]]  # there is no group 99
    assert (found[0]["x"], found[0]["y"], found[0]["firm"]) == (0.5, 0.1, 0.9)
    pq.write_table(table.drop_columns(["map_x"]), tmp_path / "bare.parquet")
    (tmp_path / "text.parquet").write_text("nothing")
    for name, words in (("bare", "no column map_x"), ("none", "no file"), ("text", "cannot read")):
        with pytest.raises(InputError, match=words):
            read_new_nodes(view, tmp_path / f"{name}.parquet")


@pytest.mark.parametrize("kind", ["server", "static"])
def test_choosing_in_one_map_marks_the_other(
    tab: Tab, small_run: Path, other_run: Path, tmp_path: Path, kind: str
) -> None:
    run = Run.open(small_run)
    pq.write_table(new_table(run), tmp_path / "new.parquet")
    new = tmp_path / "new.parquet"
    if kind == "static":
        folder = export_static(small_run, tmp_path / "copy", beside=other_run, new=new)
        walk_both(tab, (folder / "index.html").as_uri(), run, Run.open(other_run))
        return
    with RunningExplorer(small_run, beside=other_run, new=new) as running:
        walk_both(tab, running.address, run, Run.open(other_run))
        ids = running.selection()["id"].to_pylist()
        assert sorted(ids) == in_both(run, Run.open(other_run), 1)


def in_both(run: Run, other: Run, group: int) -> list[str]:
    known = set(run.nodes["id"].to_pylist())
    rows = zip(other.nodes["id"].to_pylist(), other.nodes["group_2"].to_pylist(), strict=True)
    return sorted(i for i, g in rows if g == group and i in known)


def walk_both(tab: Tab, start: str, run: Run, other: Run) -> None:
    page = tab.open(start + "#group=2-1")
    shared = set(other.nodes["id"].to_pylist())
    rows = zip(run.nodes["id"].to_pylist(), run.nodes["group_2"].to_pylist(), strict=True)
    mine = [i for i, g in rows if g == 1]
    assert int(page.get_attribute("#map", "data-selected")) == len(mine)
    both = sum(i in shared for i in mine)
    assert int(page.get_attribute("#besidemap", "data-selected")) == both > 0
    # A node that is open here has a ring there, if the other run has it.
    here = next(i for i in mine if i in shared)
    page.evaluate("id => (location.hash = 'node=id:' + id)", here)
    page.wait_for_function(
        "id => document.getElementById('besidemap').dataset.node === id", arg=here
    )
    assert "New nodes" not in page.inner_text("#panel")
    # A group of the other run selects its nodes in this one.
    page.select_option("#besidegroup", "beside2:1")
    wanted = in_both(run, other, 1)
    page.wait_for_function(
        "n => Number(document.getElementById('map').dataset.selected) === n", arg=len(wanted)
    )
    tab.settle()
    listed = page.eval_on_selector_all("#tablebox tbody tr", "rows => rows.map(r => r.dataset.id)")
    assert set(listed) <= set(wanted)
    assert page.get_attribute("#besidemap", "data-selected") == str(len(wanted))
    assert f"{len(wanted)} nodes" in page.inner_text("#tabletitle")
    address = page.url
    page.keyboard.press("Escape")
    page.wait_for_selector("#newnodes")
    assert "brand <b>new</b>" in page.inner_text("#panel")
    new = page.evaluate("document.getElementById('map').data.find(t => t.name === 'new').x.length")
    assert new == 2
    page.goto("about:blank")
    page = tab.open(address)  # the address brings the selection back, and posts it again
    assert page.get_attribute("#besidemap", "data-selected") == str(len(wanted))
    tab.check()


@pytest.mark.parametrize("kind", ["server", "static"])
def test_a_lasso_on_the_second_map_selects_in_both(
    tab: Tab, small_run: Path, other_run: Path, tmp_path: Path, kind: str
) -> None:
    beside = Beside(RunView.of(small_run), other_run)
    if kind == "static":
        folder = export_static(small_run, tmp_path / "copy", beside=other_run)
        draw_lasso(tab, (folder / "index.html").as_uri(), beside)
        return
    with RunningExplorer(small_run, beside=other_run) as running:
        wanted = draw_lasso(tab, running.address, beside)
        assert sorted(running.selection()["id"].to_pylist()) == wanted


def draw_lasso(tab: Tab, start: str, beside: Beside) -> list[str]:
    """Put the left part of the second map into a lasso, by hand; return the ids that are in it."""
    page = tab.open(start)
    canvas = page.locator("#besidemap")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    left, top, width, height = (box[k] for k in ("x", "y", "width", "height"))
    # Where the page draws each node: the whole map, its middle in the middle, a small margin.
    xy = beside.layout.xy.astype(np.float64)
    low, high = xy.min(axis=0), xy.max(axis=0)
    scale = 0.94 * min(np.array([width, height]) / (high - low))
    across = np.sort(width / 2 + (xy[:, 0] - (low[0] + high[0]) / 2) * scale)
    # The lasso ends in the widest gap near the middle: rounding moves no node over its line.
    gap = 60 + int(np.diff(across[60:150]).argmax())
    assert across[gap + 1] - across[gap] > 0.2
    edge = (across[gap] + across[gap + 1]) / 2
    ids, order = beside.other.run.nodes["id"].to_pylist(), np.argsort(xy[:, 0], kind="stable")
    wanted = sorted(ids[i] for i in order[: gap + 1] if beside.here[i] >= 0)
    page.click("#lasso")
    corners = [(edge, 3), (edge, height - 3), (3, height - 3), (3, 6)]
    page.mouse.move(left + 3, top + 3)
    page.mouse.down()
    for x, y in corners:
        page.mouse.move(left + x, top + y, steps=5)
    page.mouse.up()
    page.wait_for_function("Number(document.getElementById('besidemap').dataset.selected) > 0")
    tab.settle()
    assert 0 < len(wanted) < 200
    for name in ("#besidemap", "#map"):
        assert page.get_attribute(name, "data-selected") == str(len(wanted)), name
    assert f"{len(wanted)} nodes" in page.inner_text("#tabletitle")
    listed = page.eval_on_selector_all("#tablebox tbody tr", "rows => rows.map(r => r.dataset.id)")
    assert listed
    assert set(listed) <= set(wanted)
    page = tab.open(page.url)  # the address alone brings it back
    assert page.get_attribute("#besidemap", "data-selected") == str(len(wanted))
    tab.check()
    return wanted
