"""SpaceNE: subspaces that nest, and vectors that are projections into them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.graph.graph import build_graph
from graphham.graph.planted import PlantedGraph, planted_hierarchy
from graphham.methods.deepwalk import DeepWalk
from graphham.methods.spacene import SpaceNE
from tests.methods.accuracy import held_out_accuracy

_QUICK = {"dim": 12, "max_leaves": 30, "walks": 12}


@cache
def planted() -> PlantedGraph:
    return planted_hierarchy(
        (3, 3), num_nodes=270, mean_degree=14, edge_shares=(0.65, 0.28, 0.07), seed=1
    )


@cache
def fitted(variant: str = "described", drop: int = 2) -> SpaceNE:
    return SpaceNE(**_QUICK, variant=variant, drop=drop).fit(planted().graph)


@pytest.mark.parametrize("variant", ["described", "released"])
def test_subspaces_are_orthonormal_and_nested(variant: str) -> None:
    model = fitted(variant)
    tree = model.tree_
    assert tree.depth.max() == 2
    for group in range(tree.num_groups):
        basis = model.subspace(group)
        width = 12 - 2 * int(tree.depth[group])
        assert basis.shape == (12, width)
        np.testing.assert_allclose(basis.T @ basis, np.eye(width), atol=1e-6)
        if group:
            outer = model.subspace(int(tree.parent[group]))
            np.testing.assert_allclose(outer @ (outer.T @ basis), basis, atol=1e-6)
            # A proper part of it, and what is missing is what was recorded as removed.
            lost = model.removed_[group].astype(float)
            np.testing.assert_allclose(lost.T @ lost, np.eye(2), atol=1e-6)
            np.testing.assert_allclose(basis.T @ lost, 0, atol=1e-6)
            np.testing.assert_allclose(outer @ (outer.T @ lost), lost, atol=1e-6)


@pytest.mark.parametrize("variant", ["described", "released"])
def test_each_node_is_the_projection_of_its_walk_vector(variant: str) -> None:
    model = fitted(variant)
    walker = DeepWalk(dim=12, walks=12, walk_length=9).fit(planted().graph)
    for group in np.unique(model.tree_.leaf_group).tolist():
        rows = model.tree_.leaves(group)
        basis = model.subspace(group)
        wanted = walker.embedding_[rows] @ basis @ basis.T
        np.testing.assert_allclose(model.embedding_[rows], wanted, atol=1e-5)


def test_classes_are_found_well_above_chance_by_both_variants() -> None:
    for variant in ("described", "released"):
        # Nine equal classes: chance is 0.11.
        assert held_out_accuracy(SpaceNE(**_QUICK, variant=variant), planted().graph) > 0.8


def test_both_methods_get_the_same_tree() -> None:
    from graphham.methods.gne import GNE

    other = GNE(dim=4, max_leaves=30, steps=5, sphere_steps=5).fit(planted().graph)
    np.testing.assert_array_equal(other.tree_.leaf_group, fitted().tree_.leaf_group)
    np.testing.assert_array_equal(other.tree_.parent, fitted().tree_.parent)


def test_isolated_nodes_are_zero_and_narrow_vectors_keep_one_direction(tmp_path: Any) -> None:
    one, two = np.triu_indices(6, 1)
    graph = build_graph(np.concatenate([one, one + 6]), np.concatenate([two, two + 6]), 14)
    tree = [[0, 1, 2, [3, [4, 5]]], [6, 7, 8, 9, 10, 11], 12, 13]
    model = SpaceNE(dim=2, tree=tree, drop=3, walks=5).fit(graph)
    assert not model.embedding_[12:].any()
    assert np.linalg.norm(model.embedding_[:12], axis=1).min() > 0
    widths = [model.subspace(g).shape[1] for g in range(model.tree_.num_groups)]
    assert widths[0] == 2
    assert set(widths[1:]) == {1}
    model.save(tmp_path / "kept")
    again = SpaceNE.load(tmp_path / "kept")
    np.testing.assert_array_equal(again.removed_, model.removed_)
    np.testing.assert_array_equal(again.subspace(2), model.subspace(2))


def test_bad_settings_are_one_sentence() -> None:
    graph = planted().graph
    with pytest.raises(InputError, match="no variant 'best'"):
        SpaceNE(variant="best").fit(graph)
    with pytest.raises(InputError, match="drop must be a whole number of at least 1, got 0"):
        SpaceNE(drop=0).fit(graph)
    with pytest.raises(InputError, match="would need about"):
        SpaceNE(memory_gib=1e-6).fit(graph)
    with pytest.raises(InputError, match="no group 99"):
        fitted().subspace(99)
