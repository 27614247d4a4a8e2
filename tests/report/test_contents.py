"""Every number of the report is one of the run's own."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from graphham.explore.queries import Explorer
from graphham.report import RunView, contents
from graphham.results.run_writer import start_run
from graphham.system.console import group_lines, tree_lines
from tests.outputs import make_graph, make_result
from tests.report.conftest import write_run


def test_every_tile_leads_to_a_row_of_the_numbers(view: RunView) -> None:
    rows = {row["anchor"]: row for row in contents.numbers(view)}
    tiles = {tile["name"]: tile for tile in contents.headline_tiles(view)}
    assert {tile["source"] for tile in tiles.values()} <= set(rows)
    mean = float(view.run.nodes["concentration"].to_numpy().mean())
    assert tiles["nodes between groups"]["value"] == f"{int(view.is_boundary.sum()):,}"
    assert rows["n-between-nodes"]["value"] == tiles["nodes between groups"]["value"]
    assert rows["n-concentration-mean"]["value"] == f"{mean:.6g}"
    assert rows["n-cost-seconds"]["value"] == "3"
    assert tiles["time"]["value"] == "3 s"


def test_groups_are_listed_in_tree_order_largest_first(view: RunView) -> None:
    rows = contents.group_rows(view)
    top = [row for row in rows if row["depth"] == 0]
    assert [row["size"] for row in top] == sorted(view.tree.sizes[1].tolist(), reverse=True)
    names = [row["name"] for row in rows]
    place = 0
    for row in top:
        parent = view.tree.names[1].index(row["name"])
        children = view.tree.children(2, parent)
        below = names[place + 1 : place + 1 + len(children)]
        assert sorted(below) == sorted(view.tree.names[0][c] for c in children)
        place += 1 + len(children)
    assert place == len(rows)


def test_boundary_nodes_are_those_most_between(view: RunView) -> None:
    nodes = view.run.nodes
    order = np.argsort(-nodes["between"].to_numpy(), kind="stable")[:15]
    ids = [str(nodes["id"][int(row)].as_py()) for row in order]
    rows = contents.boundary_rows(view)
    assert [row["id"] for row in rows] == ids
    for row, at in zip(rows, order.tolist(), strict=True):
        member = np.sort(nodes[f"membership_{row['level']}"][at].as_py())
        assert row["first"].endswith(f"({member[-1]:.0%})")
        assert row["second"].endswith(f"({member[-2]:.0%})")


def test_without_a_second_group_nothing_lies_between(tmp_path: Path) -> None:
    view = RunView.of(write_run(tmp_path / "run", groups=(1,)))
    assert contents.boundary_rows(view) == []
    assert "80 nodes" in contents.lead(view)
    assert "1 fine groups" in contents.lead(view)


def test_facts_repeat_the_run(view: RunView) -> None:
    facts = dict(contents.facts(view))
    assert facts["Seed"] == "1"
    assert facts["Run folder"] == view.run.path.name
    assert facts["Cost"].startswith("3 s, ")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (5399, "90 min"), (7200, "2.0 h")],
)
def test_durations_read_well(seconds: float, text: str) -> None:
    assert contents._duration(seconds) == text


def test_the_page_says_whether_the_graph_has_groups(view: RunView) -> None:
    assert contents.structure_sentence(view) == ""  # nobody asked
    said = {"found": False, "sentence": "no groups found: chance does as well"}
    view.run.summary["structure"] = said
    try:
        assert contents.lead(view).endswith(" No groups found: chance does as well.")
    finally:
        del view.run.summary["structure"]


def test_every_place_counts_the_same_groups(tmp_path: Path) -> None:
    """A group of one node of 300 is in use; one without nodes is not."""
    result = make_result(300, (6, 3), labels="none")
    fine = np.where(result.groups[0] == 5, 0, result.groups[0])
    fine[0] = 5
    fine[fine == 4] = 1
    parents = np.array([0, 1, 2, 0, 1, 2], dtype=np.int32)
    members = [np.eye(6, dtype=np.float32)[fine], np.eye(3, dtype=np.float32)[parents[fine]]]
    result = replace(
        result,
        groups=[fine.astype(np.int32), parents[fine]],
        parents=[parents],
        memberships=members,
        concentration=np.zeros(0, np.float32),
        between=np.zeros(0, np.float32),
    )
    with start_run(tmp_path / "run", {"seed": 1}) as writer:
        run = writer.finish(result, {}, make_graph(result), {"cost": {"seconds": 3.0}})
    view = RunView.of(run)
    assert run.hierarchy.groups_in_use == (5, 3)
    assert run.summary["hierarchy"]["used_1"] == 5
    assert "5/6 > 3/3" in repr(run.hierarchy)
    assert contents.headline_tiles(view)[0]["value"] == "5 › 3"
    assert "5 fine groups inside 3 coarse groups" in contents.lead(view)
    assert "level 1: 5 of 6 groups in use" in " ".join(group_lines(run.summary["hierarchy"]))
    shown = [line for line in tree_lines(run.groups.to_pylist()) if line.startswith(" ")]
    assert len(shown) == 5
    sizes = [[g["size"] > 0 for g in level] for level in Explorer(run).overview()["levels"]]
    assert [sum(level) for level in sizes] == [5, 3]
