"""A user's tree, in every spelling, and what is wrong with a bad one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.graph.ids import NodeIds
from graphham.methods.tree_reading import read_tree
from tests.reference.trees import check_tree

_IDS = NodeIds(["a", "b", "c", "d", "e"])


NESTED: dict[str, Any] = {
    "name": "all",
    "children": [{"name": "ab", "children": ["a", "b"]}, ["c", ["d", "e"]]],
}


EDGES = [
    ["all", "ab"],
    ["all", "cde"],
    ["ab", "a"],
    ["ab", "b"],
    ["cde", "c"],
    ["cde", "de"],
    ["de", "d"],
    ["de", "e"],
]


def test_every_spelling_is_the_same_tree(tmp_path: Path) -> None:
    (tmp_path / "tree.json").write_text(json.dumps(NESTED))
    (tmp_path / "tree.csv").write_text("parent,child\n" + "\n".join(",".join(e) for e in EDGES))
    (tmp_path / "tree.txt").write_text("# mine\n" + "\n".join("  ".join(e) for e in EDGES))
    mapping = {"ab": ["a", "b"], "cde": ["c", {"de": ["d", "e"]}]}
    spellings: list[Any] = [NESTED, {"edges": EDGES}, mapping]
    spellings += [str(tmp_path / name) for name in ("tree.json", "tree.csv", "tree.txt")]
    for spelling in spellings:
        tree = read_tree(spelling, _IDS)
        check_tree(tree, 5)
        assert tree.parent.tolist() == [-1, 0, 0, 2]
        assert tree.leaf_group.tolist() == [1, 1, 2, 3, 3]
        again = read_tree(tree.nested(_IDS), _IDS)
        np.testing.assert_array_equal(again.parent, tree.parent)
        np.testing.assert_array_equal(again.leaf_group, tree.leaf_group)
        assert again.names == tree.names


def test_integer_ids_are_found_in_text_files_and_chains_are_shortened(tmp_path: Path) -> None:
    path = tmp_path / "tree.tsv"
    path.write_text("top\tx\nx\ty\ny\t7\ny\t9\n")
    tree = read_tree(path, NodeIds([9, 7]))
    assert tree.num_groups == 1
    assert tree.levels() is None


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"edges": [["r", "a"], ["s", "a"], ["r", "b"]]}, "'a' lies below 'r' and 's'"),
        ({"edges": [["x", "y"], ["y", "x"]]}, "cycle"),
        ({"edges": [["r", "a"], ["x", "y"], ["y", "x"]]}, "cycle"),
        ({"edges": [["r"]]}, "is no \\[parent, child\\] pair"),
        (["a", "b", "c", "d", "e", "f"], "tree leaf 'f' is not an id"),
        (["a", "b", "c", "d", "e", "a"], "node 'a' is in the tree twice"),
        (["a", "b", "c", "d"], "node 'e' is missing from the tree"),
        (["a", "b", "c", "d", "e", []], "is empty"),
        (["a", 1.5], "1.5, which is neither"),
        (3, "got int"),
        ("nowhere.json", "no tree file nowhere.json"),
    ],
)
def test_a_bad_tree_is_one_sentence(tree: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_tree(tree, _IDS)


def test_bad_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(InputError, match="not valid JSON"):
        read_tree(tmp_path / "bad.json", _IDS)
    (tmp_path / "bad.txt").write_text("a b c\n")
    with pytest.raises(InputError, match=r"'a b c' of .* is no 'parent child' pair"):
        read_tree(tmp_path / "bad.txt", _IDS)


def test_a_tree_deeper_than_the_call_stack_is_read() -> None:
    count = 3000
    nested: Any = [count - 2, count - 1]
    for row in range(count - 3, -1, -1):
        nested = [row, nested]
    tree = read_tree(nested, NodeIds(list(range(count))))
    # A chain: every group holds one node and the next group, the last one two nodes.
    assert tree.parent.tolist() == list(range(-1, count - 2))
    assert tree.leaf_group.tolist() == [*range(count - 2), count - 2, count - 2][:count]
