"""From a graph to memberships: what groups look at, which view is chosen, and new nodes."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.metrics import normalized_mutual_info_score as nmi

from graphham.graph.graph import build_graph
from graphham.graph.mapped_features import MappedFeatures
from graphham.groups import group_map
from graphham.groups.group_map import (
    GroupInputs,
    GroupMap,
    fit_from,
    main_parts,
    smoothed,
    unit_rows,
)
from graphham.kernels import SparseMatrix
from tests.groups.test_block_model import planted, unit
from tests.reference.graphs import random_graph

TREE = (6, 3)


def fitted(graph, x, is_structural=False, seeds=1):
    """Fit groups to features as they are; return the map, its inputs and all fits."""
    basis = np.eye(x.shape[1], dtype=np.float32)
    seen = GroupInputs.of(torch.from_numpy(x), basis, graph, is_structural)
    fits = fit_from(seen, TREE, 0, seeds)
    best = max(fits, key=lambda fit: fit.bound)
    there = GroupMap(basis, seen.scale, best.model, best.memberships, graph.fingerprint())
    return there, seen, fits


@pytest.fixture(scope="module")
def same():
    """A graph whose links stay within groups, its truth, features, and fit."""
    graph, truth, x = planted("homophilous", nodes=300)
    return graph, truth, x, *fitted(graph, x)


@pytest.fixture(scope="module")
def other():
    """A graph whose links go to other groups, its truth, features, and fit."""
    graph, truth, x = planted("heterophilous", nodes=300)
    return graph, truth, x, *fitted(graph, x)


@pytest.mark.parametrize("form", ["dense", "sparse", "mapped"])
def test_main_parts_are_products_with_the_basis(form):
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(20, 7)) * (rng.random((20, 7)) < 0.5)).astype(np.float32)
    basis = rng.normal(size=(7, 3)).astype(np.float32)
    features = {
        "dense": torch.from_numpy(x),
        "sparse": SparseMatrix.from_scipy(sp.csr_matrix(x)),
        "mapped": MappedFeatures(x, np.zeros(7, "f4"), np.ones(7, "f4"), False),
    }[form]
    np.testing.assert_allclose(main_parts(features, basis), x @ basis, atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_smoothing_is_three_averages_over_a_node_and_its_neighbours(weighted):
    graph = random_graph(12, 3, weighted)
    x = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
    expected = x.astype(float)
    for _ in range(group_map.STEPS):
        averaged = np.zeros_like(expected)
        for i in range(12):
            row = slice(int(graph.indptr[i]), int(graph.indptr[i + 1]))
            others = graph.indices[row]
            weights = np.ones(len(others)) if graph.weights is None else graph.weights[row]
            own = weights.mean() if len(others) else 1.0
            total = own * expected[i] + (weights[:, None] * expected[others]).sum(0)
            averaged[i] = total / (own + weights.sum())
        expected = averaged
    np.testing.assert_allclose(smoothed(x, graph), unit(expected), atol=1e-4)


def test_zero_rows_have_no_direction():
    x = np.array([[3, 4], [0, 0]], dtype=np.float32)
    np.testing.assert_allclose(unit_rows(x), [[0.6, 0.8], [0, 0]])


def test_what_features_say_is_what_the_fit_looked_at(same):
    _, _, x, there, seen, _ = same
    found = there.evidence(torch.from_numpy(x))
    expected = there.model.feature_evidence(seen.own * np.float32(seen.scale**0.5))
    np.testing.assert_array_equal(found, expected)
    # Two levels share twice the evidence of a perfect match.
    assert found.max() <= 2 * seen.scale + 1e-3


def test_positions_made_from_links_count_less():
    graph, _, x = planted("homophilous", nodes=120)
    made, given = (fitted(graph, x, is_structural)[1] for is_structural in (True, False))
    assert made.scale < given.scale
    np.testing.assert_array_equal(made.own, given.own)


@pytest.mark.parametrize("kind", ["homophilous", "heterophilous", "avoiding"])
def test_the_planted_groups_are_found_wherever_links_go(kind):
    graph, truth, x = planted(kind, nodes=300, degree=20)
    there, _, fits = fitted(graph, x, seeds=2)
    assert len(fits) == 4  # from own and from smoothed features, twice each
    assert nmi(truth, there.known.argmax(1)) > 0.8


def test_the_training_graph_gets_exactly_what_training_had(same):
    graph, _, x, there, _, _ = same
    found = there.apply(torch.from_numpy(x), graph, np.arange(300))
    assert found.shape == (300, 9)
    np.testing.assert_array_equal(found[:, :6], there.known)
    # Levels nest: a coarse membership is the sum of its children's.
    for group in range(3):
        children = found[:, :6][:, torch.from_numpy(there.model.parents[0] == group)]
        torch.testing.assert_close(found[:, 6 + group], children.sum(1))


@pytest.mark.parametrize("kind", ["same", "other"])
def test_a_new_node_joins_the_group_its_links_point_to(kind, request):
    graph, _, x, there, _, _ = request.getfixturevalue(kind)
    codes = there.known.argmax(1)
    table = there.model.tables[0]
    edges = graph.edge_list()
    for group in range(3):
        # Neighbours of the group that this group's members link to most.
        friends = np.flatnonzero(codes == table[group].argmax())[:8]
        source = np.concatenate([edges[:, 0], np.full(len(friends), 300)])
        target = np.concatenate([edges[:, 1], friends])
        grown = build_graph(source, target, 301)
        features = torch.from_numpy(np.concatenate([x, np.zeros((1, x.shape[1]), "f4")]))
        known = np.append(np.arange(300), -1)
        found = there.apply(features, grown, known).numpy()
        assert found[300, :6].argmax() == group
        # The others hardly notice.
        assert (found[:300, :6].argmax(1) == codes).mean() > 0.97


def test_a_new_node_without_links_goes_by_its_features(same):
    graph, _, x, there, _, _ = same
    sure = int(there.known.max(1).argmax())
    edges = graph.edge_list()
    grown = build_graph(edges[:, 0], edges[:, 1], 302)
    center = np.zeros((1, x.shape[1]), dtype=np.float32)
    center[0] = there.model.vectors[0][there.known[sure].argmax(), : x.shape[1]]
    features = torch.from_numpy(np.concatenate([x, center, 0 * center]))
    found = there.apply(features, grown, np.append(np.arange(300), [-1, -1])).numpy()
    assert found[300, :6].argmax() == there.known[sure].argmax()
    np.testing.assert_allclose(found[301, :6], 1 / 6, atol=1e-5)


def test_nodes_are_found_by_their_training_row_and_not_by_their_place(same):
    graph, _, x, there, _, _ = same
    order = np.random.default_rng(0).permutation(300)
    moved = graph.permuted(order)
    found = there.apply(torch.from_numpy(x[order]), moved, order).numpy()
    assert (found[:, :6].argmax(1) == there.known[order].argmax(1)).mean() > 0.97


def test_what_is_saved_comes_back(same, other):
    for graph, _, x, there, *_ in (same, other):
        again = GroupMap.from_state(there.state())
        assert again.scale == there.scale
        assert again.graph == there.graph
        assert again.groups == there.groups == TREE
        rows = np.arange(300)
        features = torch.from_numpy(x)
        thinner = graph.without_edges(graph.edge_list()[:40])
        for which in (graph, thinner):
            one, two = there.apply(features, which, rows), again.apply(features, which, rows)
            assert torch.equal(one, two)
        assert not torch.equal(one[:, :6], torch.from_numpy(there.known))


def test_own_features_stand_behind_memberships_where_likeness_counts(same):
    graph, _, x, there, *_ = same
    features, rows = torch.from_numpy(x), np.arange(300)
    grown = replace(there, likeness=(1.5, 0.25))
    again = GroupMap.from_state(grown.state())
    assert again.likeness == grown.likeness
    thinner = graph.without_edges(graph.edge_list()[:40])
    for which in (graph, thinner):
        plain, found = there.apply(features, which, rows), again.apply(features, which, rows)
        assert torch.equal(found[:, :9], plain)
        np.testing.assert_allclose(found[:, 9:], unit_rows(x), atol=1e-6)
    # Runs that were saved before have none.
    assert "groups.likeness" not in there.state()
    assert GroupMap.from_state(there.state()).likeness is None


def test_ablations_reach_the_fits(same):
    seen = same[4]
    for fit in fit_from(seen, TREE, 0, 1, uses_links=False):
        assert not fit.model.tables[0].any()
    for fit in fit_from(seen, TREE, 0, 1, is_nested=False):
        assert not fit.model.vectors[1].any()


def test_groups_found_elsewhere_can_be_a_start(same):
    _, truth, _, _, seen, _ = same
    tree = [np.array([0, 0, 1, 1, 2, 2])]
    fit = seen.fit(truth, tree)
    np.testing.assert_array_equal(fit.model.parents[0], tree[0])
    assert nmi(truth, fit.memberships.argmax(1)) > 0.9
