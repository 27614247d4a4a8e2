"""Trees of communities: within their limits on any graph, and planted levels come back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from graphham.errors import InputError
from graphham.graph.graph import build_graph
from graphham.graph.planted import planted_hierarchy
from graphham.methods.community_tree import build_tree
from tests.reference.trees import check_tree


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
    check_tree(tree, nodes)
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
    check_tree(tree, 50)
    bins = {int(tree.leaf_group[row]) for row in range(30)}
    assert bins.isdisjoint(int(tree.leaf_group[row]) for row in range(30, 50))
    assert tree.num_children().max() <= 8


def test_bad_limits_are_refused() -> None:
    graph = build_graph(np.array([0]), np.array([1]), 2)
    with pytest.raises(InputError, match="max_children must be a whole number of at least 2"):
        build_tree(graph, 0, max_children=1)
