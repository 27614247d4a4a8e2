"""SpaceNE: the linear-time loss against node pairs, and subspaces that nest."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.graph.graph import build_graph
from graphham.graph.planted import PlantedGraph, planted_hierarchy
from graphham.methods.deepwalk import DeepWalk
from graphham.methods.spacene import SpaceNE
from graphham.methods.subspaces import fit_released, fit_subspaces, subspace_loss

_QUICK = {"dim": 12, "max_leaves": 30, "walks": 12}


@cache
def planted() -> PlantedGraph:
    return planted_hierarchy(
        (3, 3), num_nodes=270, mean_degree=14, edge_shares=(0.65, 0.28, 0.07), seed=1
    )


@cache
def fitted(variant: str = "described", drop: int = 2) -> SpaceNE:
    return SpaceNE(**_QUICK, variant=variant, drop=drop).fit(planted().graph)


@given(seed=st.integers(0, 1000), count=st.integers(1, 4), width=st.integers(2, 6))
def test_the_loss_equals_the_sum_over_pairs_of_nodes(seed: int, count: int, width: int) -> None:
    draw = np.random.default_rng(seed)
    points = [draw.normal(size=(draw.integers(1, 8), width)) for _ in range(count)]
    bases = draw.normal(size=(count, width, width - 1))
    wanted = -sum(float(((x @ u) ** 2).sum()) for x, u in zip(points, bases, strict=True))
    for c in range(count):
        for d in range(c):
            kept = points[c] @ bases[c] @ bases[d].T @ points[d].T
            wanted += 0.7 * float(np.linalg.norm(kept - points[c] @ points[d].T))
    grams = np.stack([x.T @ x for x in points])
    found = subspace_loss(torch.from_numpy(bases), torch.from_numpy(grams), 0.7)
    assert float(found) == pytest.approx(wanted, rel=1e-6, abs=1e-4)


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


def test_training_finds_each_communitys_own_directions() -> None:
    draw = np.random.default_rng(0)
    # Each community lies in a plane of its own; together they need six directions, three are left.
    planes = [np.linalg.qr(draw.normal(size=(8, 2)))[0] for _ in range(3)]
    grams = np.stack([(x := draw.normal(size=(40, 2)) @ p.T).T @ x for p in planes])

    def kept(bases: Any) -> list[float]:
        pairs = zip(bases, grams, strict=True)
        return [float(np.trace(u.T @ g @ u) / np.trace(g)) for u, g in pairs]

    def loss(bases: Any) -> float:
        return float(subspace_loss(torch.from_numpy(bases), torch.from_numpy(grams), 1.0))

    shared, alone, both = (
        fit_subspaces(grams, 5, alpha, steps, 0.01)
        for alpha, steps in ((1.0, 0), (0.0, 400), (1.0, 400))
    )
    released = fit_released(grams, 5, 1.0, 10, 0.01, 1000.0, 5)
    for found in (shared, alone, both, released):
        np.testing.assert_allclose(found.mT @ found, np.tile(np.eye(3), (3, 1, 1)), atol=1e-9)
    assert min(kept(shared)) < 0.9
    assert min(kept(alone)) > 0.999
    assert loss(both) < min(loss(shared), loss(alone), loss(released))


def test_classes_are_found_well_above_chance_by_both_variants() -> None:
    graph = planted().graph
    labels = graph.labels
    assert labels is not None
    assert labels.codes is not None
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    for variant in ("described", "released"):
        model = SpaceNE(**_QUICK, variant=variant)
        model.fit(graph, task="classify", train_rows=order[:120], validation_rows=order[120:150])
        assert model.class_scores_ is not None
        test = order[150:]
        # Nine equal classes: chance is 0.11.
        assert (model.class_scores_[test].argmax(1) == labels.codes[test]).mean() > 0.8


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
    with pytest.raises(InputError, match="drop must be at least 1, got 0"):
        SpaceNE(drop=0).fit(graph)
    with pytest.raises(InputError, match="would need about"):
        SpaceNE(memory_gib=1e-6).fit(graph)
    with pytest.raises(InputError, match="no group 99"):
        fitted().subspace(99)
