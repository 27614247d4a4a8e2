"""Nearest nodes against a plain sort of all cosines, in the graph and inside a group."""

from pathlib import Path

import numpy as np
import pyarrow.csv as csv
import pytest

import graphham as gh
from graphham.cli.main import main
from graphham.errors import InputError
from graphham.results.similar import find_group, similar_nodes
from tests.outputs import make_result
from tests.reference.graphs import planted
from tests.results.test_export import make_run

FOUND = make_result(60, ids=[f"n{i}" for i in range(60)])


def expected(row: int, rows: np.ndarray) -> list[str]:
    unit = FOUND.embedding / np.linalg.norm(FOUND.embedding, axis=1, keepdims=True)
    rows = rows[rows != row]
    order = rows[np.argsort(-(unit[rows] @ unit[row]), kind="stable")]
    return [str(FOUND.ids[int(i)]) for i in order]


def test_nearest_in_the_whole_graph() -> None:
    table = similar_nodes(FOUND, FOUND.hierarchy, "n7", 5)
    assert table["id"].to_pylist() == expected(7, np.arange(60))[:5]
    assert table["similarity"].to_pylist() == sorted(table["similarity"].to_pylist())[::-1]
    assert {"group_1", "group_2"} <= set(table.column_names)


@pytest.mark.parametrize("row", [3, 4, 50])
def test_nearest_inside_a_group_whether_the_node_is_in_it_or_not(row: int) -> None:
    for level in (1, 2):
        for group in range(FOUND.hierarchy.group_counts[level - 1]):
            members = np.flatnonzero(FOUND.groups[level - 1] == group)
            told = similar_nodes(FOUND, FOUND.hierarchy, f"n{row}", 4, f"{level}-{group}")
            assert told["id"].to_pylist() == expected(row, members)[:4]


def test_groups_are_found_by_number_or_name() -> None:
    tree = FOUND.hierarchy.named([["cats", "dogs", "birds", "a", "b", "c"], ["Pets", "cats", "x"]])
    assert find_group(tree, "2-1") == (2, 1)
    assert find_group(tree, "pets") == (2, 0)
    with pytest.raises(InputError, match="1-0, 2-1 are all named 'cats'"):
        find_group(tree, "cats")
    with pytest.raises(InputError, match="no group named 'bird'; did you mean 'birds'"):
        find_group(tree, "bird")
    with pytest.raises(InputError, match="no group '3-0'"):
        find_group(tree, "3-0")


def test_what_cannot_be_asked() -> None:
    with pytest.raises(InputError, match="'n99' is not an id"):
        similar_nodes(FOUND, None, "n99")
    with pytest.raises(InputError, match="found no groups"):
        similar_nodes(FOUND, None, "n1", inside="1-0")
    with pytest.raises(InputError, match="at least one"):
        similar_nodes(FOUND, None, "n1", 0)


def test_a_model_and_the_command_line_say_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = gh.GraphHAM(groups=(4, 2), dim=8, epochs=2).fit(planted().graph)
    told = model.neighbors(5, 3)
    unit = model.embedding_ / np.linalg.norm(model.embedding_, axis=1, keepdims=True)
    order = np.argsort(-(unit @ unit[5]), kind="stable")
    assert told["id"].to_pylist() == [int(i) for i in order if i != 5][:3]
    model.save(tmp_path / "run")
    assert gh.load(tmp_path / "run").neighbors("5", 3)["id"].to_pylist() == told["id"].to_pylist()
    out = str(tmp_path / "near.csv")
    assert main(["neighbors", str(tmp_path / "run"), "5", "--count", "3", "--out", out]) == 0
    assert csv.read_csv(out)["id"].to_pylist() == told["id"].to_pylist()
    lines = capsys.readouterr().out.splitlines()
    assert [int(line.split("  ")[-2].split()[-1]) for line in lines[:3]]
    assert main(["neighbors", str(tmp_path / "run"), "999"]) == 2
    run, _ = make_run(tmp_path / "other", ids=[f"n{i}" for i in range(9)])
    assert main(["neighbors", str(run.path), "n3", "--inside", "2-0"]) == 0
