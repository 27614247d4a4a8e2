"""Trees of communities: built ones recover planted levels, read ones say what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from graphham.errors import InputError
from graphham.graph.graph import build_graph
from graphham.graph.ids import NodeIds
from graphham.graph.planted import planted_hierarchy
from graphham.methods.community_tree import Tree, build_tree
from graphham.methods.tree_reading import read_tree

_IDS = NodeIds(["a", "b", "c", "d", "e"])


def check(tree: Tree, num_nodes: int) -> None:
    """Every promise of a tree, checked group by group."""
    assert tree.parent[0] == -1
    assert (tree.parent[1:] < np.arange(1, tree.num_groups)).all()
    assert (tree.parent[1:] >= 0).all()
    assert tree.sizes[0] == num_nodes
    assert (tree.num_children() > 0).all()
    for group in range(tree.num_groups):
        rows, child = tree.rows_under(group)
        climbing = tree.leaf_group.copy()
        inside = np.zeros(num_nodes, dtype=bool)
        while (climbing >= 0).any():
            inside |= climbing == group
            climbing = np.where(climbing > 0, tree.parent[climbing], -1)
        assert sorted(rows.tolist()) == np.flatnonzero(inside).tolist()
        own = tree.leaves(group)
        for number, part in enumerate([*own, *tree.children(group)]):
            found = rows[child == number]
            wanted = [part] if number < len(own) else tree.rows_under(int(part))[0]
            assert sorted(found.tolist()) == sorted(np.asarray(wanted).tolist())


@given(
    seed=st.integers(0, 100),
    nodes=st.integers(1, 60),
    edges=st.integers(0, 90),
    leaves=st.integers(1, 10),
    depth=st.integers(1, 4),
    children=st.integers(2, 12),
)
def test_any_graph_gives_a_tree_within_its_limits(
    seed: int, nodes: int, edges: int, leaves: int, depth: int, children: int
) -> None:
    ends = np.random.default_rng(seed).integers(nodes, size=(edges, 2))
    graph = build_graph(ends[:, 0], ends[:, 1], nodes)
    limits: dict[str, int] = {
        "max_leaves": leaves,
        "max_depth": depth,
        "max_children": children,
    }
    tree = build_tree(graph, seed, **limits)
    check(tree, nodes)
    assert tree.num_children().max() <= children
    if nodes <= children:
        assert tree.depth.max() < depth
    again = build_tree(graph, seed, **limits)
    np.testing.assert_array_equal(tree.leaf_group, again.leaf_group)


def test_planted_levels_come_back() -> None:
    planted = planted_hierarchy(
        (4, 3), num_nodes=600, mean_degree=16, edge_shares=(0.7, 0.25, 0.05), seed=2
    )
    tree = build_tree(planted.graph, 0, max_leaves=60, max_depth=3)
    levels = tree.levels()
    assert levels is not None
    assert len(levels) == 2
    assert adjusted_rand_score(planted.levels[1], levels[1]) > 0.9
    assert adjusted_rand_score(planted.levels[0], levels[0]) > 0.9
    # Nested: a fine group lies in one coarse group.
    assert len(np.unique(np.stack(levels), axis=1).T) == levels[0].max() + 1


def test_lone_nodes_share_a_bin_and_cliques_are_cut_by_size() -> None:
    one, two = np.triu_indices(30, 1)
    graph = build_graph(one, two, 50)
    tree = build_tree(graph, 0, max_leaves=10, max_children=8)
    check(tree, 50)
    bins = {int(tree.leaf_group[row]) for row in range(30)}
    assert bins.isdisjoint(int(tree.leaf_group[row]) for row in range(30, 50))
    assert tree.num_children().max() <= 8


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
        check(tree, 5)
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


def test_bad_files_and_limits_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(InputError, match="not valid JSON"):
        read_tree(tmp_path / "bad.json", _IDS)
    (tmp_path / "bad.txt").write_text("a b c\n")
    with pytest.raises(InputError, match=r"'a b c' of .* is no 'parent child' pair"):
        read_tree(tmp_path / "bad.txt", _IDS)
    graph = build_graph(np.array([0]), np.array([1]), 2)
    with pytest.raises(InputError, match="max_children must be a whole number of at least 2"):
        build_tree(graph, 0, max_children=1)
