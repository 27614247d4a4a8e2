"""Every number of the report is one of the run's own."""

from pathlib import Path

import numpy as np
import pytest

from graphham.report import RunView, contents
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
