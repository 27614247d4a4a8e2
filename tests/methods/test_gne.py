"""GNE: similarities against dense algebra, and the geometry the method promises."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from graphham.errors import InputError
from graphham.graph.graph import build_graph
from graphham.graph.planted import PlantedGraph, planted_hierarchy
from graphham.methods.community_tree import Tree, build_tree
from graphham.methods.gne import GNE, neighbor_rows, sibling_similarity
from tests.methods.accuracy import held_out_accuracy

_QUICK = {"dim": 16, "max_leaves": 30, "steps": 600, "sphere_steps": 600}


@cache
def planted() -> PlantedGraph:
    return planted_hierarchy(
        (3, 3), num_nodes=270, mean_degree=14, edge_shares=(0.65, 0.28, 0.07), seed=1
    )


@cache
def fitted() -> GNE:
    return GNE(**_QUICK).fit(planted().graph)


@given(seed=st.integers(0, 500), nodes=st.integers(2, 25), edges=st.integers(0, 60))
def test_similarities_equal_the_dense_definition(seed: int, nodes: int, edges: int) -> None:
    ends = np.random.default_rng(seed).integers(nodes, size=(edges, 2))
    graph = build_graph(ends[:, 0], ends[:, 1], nodes)
    closed = graph.adjacency().toarray() + np.eye(nodes)
    degree = closed.sum(1)
    # Common neighbours, self included, over the root of the product of degrees.
    pair = (closed @ closed.T) / np.sqrt(np.outer(degree, degree))
    tree = build_tree(graph, seed, max_leaves=3, max_children=6)
    rows = neighbor_rows(graph)
    for group in range(tree.num_groups):
        below, child = tree.rows_under(group)
        similarity, spread = sibling_similarity(rows, tree, group)
        own = len(tree.leaves(group))
        assert (spread is None) == (own == len(similarity))
        for p in range(len(similarity)):
            for q in range(len(similarity)):
                block = pair[np.ix_(below[child == p], below[child == q])]
                wanted = 1.0 if p == q else block.mean()
                assert similarity[p, q] == pytest.approx(wanted, abs=1e-9)
                if spread is not None and p >= own:
                    # The root of a rounding error is far larger than the error.
                    assert spread[p - own, q] == pytest.approx(block.mean(1).std(), abs=1e-6)


def test_siblings_lie_on_their_sphere_and_spheres_shrink() -> None:
    model = fitted()
    tree = model.tree_
    assert tree.depth.max() == 2
    for group in range(tree.num_groups):
        center, radius = model.centers_[group], model.radii_[group]
        leaves = model.embedding_[tree.leaves(group)].astype(float)
        around = np.concatenate([leaves, model.centers_[tree.children(group)]])
        np.testing.assert_allclose(np.linalg.norm(around - center, axis=1), radius, rtol=1e-4)
        inner = model.radii_[tree.children(group)]
        assert (inner >= 0.05 * radius - 1e-12).all()
        assert (inner <= 0.25 * radius + 1e-12).all()
    assert model.radii_[0] == 1
    assert not model.centers_[0].any()


def test_distances_follow_the_tree() -> None:
    model = fitted()
    levels = model.levels_
    assert levels is not None
    fine, coarse = levels
    x = model.embedding_
    distance = np.linalg.norm(x[:, None] - x[None], axis=2)
    others = ~np.eye(len(x), dtype=bool)
    same_fine = (fine[:, None] == fine) & others
    same_coarse = (coarse[:, None] == coarse) & ~same_fine & others
    apart = coarse[:, None] != coarse
    means = [distance[mask].mean() for mask in (same_fine, same_coarse, apart)]
    assert means[0] < 0.5 * means[1] < 0.5 * 0.5 * means[2]
    # And the tree found is the planted one, so the distances follow the truth.
    truth = np.where(planted().levels[0][:, None] == planted().levels[0], 0, 1)
    truth = truth + (planted().levels[1][:, None] != planted().levels[1])
    assert spearmanr(truth[others], distance[others]).statistic > 0.8


def test_classes_are_found_well_above_chance_and_the_tree_can_be_given() -> None:
    graph = planted().graph
    model = GNE(**_QUICK, tree=fitted().tree_.nested(graph.ids))
    # Nine equal classes: chance is 0.11.
    assert held_out_accuracy(model, graph) > 0.8
    np.testing.assert_array_equal(model.embedding_, fitted().embedding_)


def test_a_users_tree_survives_saving(tmp_path: Any) -> None:
    graph = planted().graph
    halves = {"low": list(range(0, 135)), "high": list(range(135, 270))}
    model = GNE(dim=8, tree=halves, steps=20, sphere_steps=20).fit(graph)
    assert model.tree_.names == ("root", "low", "high")
    model.save(tmp_path / "kept")
    again = GNE.load(tmp_path / "kept")
    assert again.tree_.names == model.tree_.names
    np.testing.assert_array_equal(again.tree_.leaf_group, model.tree_.leaf_group)
    np.testing.assert_array_equal(again.centers_, model.centers_)


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_tiny_and_linkless_graphs_are_served(nodes: int) -> None:
    none = np.empty(0, dtype=np.int64)
    model = GNE(dim=4, steps=50, sphere_steps=50).fit(build_graph(none, none, nodes))
    np.testing.assert_allclose(np.linalg.norm(model.embedding_, axis=1), 1, rtol=1e-5)


def test_too_wide_a_tree_is_refused_before_the_work() -> None:
    graph = planted().graph
    flat = list(range(270))
    with pytest.raises(InputError, match="widest group has 270 children"):
        GNE(tree=flat, memory_gib=0.001).fit(graph)
    with pytest.raises(InputError, match="steps must be a whole number of at least 1, got 0"):
        GNE(steps=0).fit(graph)
    wide = Tree(np.array([-1]), np.zeros(270, dtype=np.int64))
    assert GNE().memory_bytes(graph, wide) > GNE().memory_bytes(graph, fitted().tree_)
