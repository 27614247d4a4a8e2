"""Mixed memberships on graphs whose mixtures are known, and on those that have none."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from experiments.mixture_study import (
    auc,
    grade,
    outside_share,
    plant_mixtures,
    read_mixtures,
    start_memberships,
    word_evidence,
)
from graphham.groups.block_model import sum_levels
from graphham.groups.mixtures import (
    count_link_table,
    lead_with,
    mix_memberships,
)


def read(a, start, **more):
    a = a.tocsr()
    a.sort_indices()
    return mix_memberships(a.indptr, a.indices, more.pop("weights", None), start, **more)


@pytest.fixture(scope="module")
def planted():
    graph = plant_mixtures(900, 6, 2, degree=24, seed=1)
    return graph, start_memberships(graph, 6, 1)


def test_second_shares_come_back(planted) -> None:
    graph, start = planted
    found = read_mixtures(graph, start)
    score = grade(graph, found.second_share[0], found.between[0])
    assert score["corr"] > 0.6
    assert 0.8 < score["ratio_all"] < 1.2
    assert score["pure"] < 0.03
    assert score["auc"] > 0.97
    assert score["auc"] > grade(graph, start[:, 0], outside_share(graph, start))["auc"] + 0.005
    assert found.mixed_share == pytest.approx(0.3, abs=0.06)
    # Estimates mean what they say: among nodes said to be a third elsewhere it is a third.
    said = found.second_share[0]
    near = (said > 0.27) & (said < 0.39)
    assert graph.second_share[near].mean() == pytest.approx(said[near].mean(), abs=0.04)


def test_more_rounds_do_not_find_more(planted) -> None:
    """Without taking out what a neighbour heard from the node, w runs away with the rounds."""
    graph = plant_mixtures(900, 6, 2, degree=8, seed=2)
    shares = [read_mixtures(graph, graph.memberships, rounds=r).mixed_share for r in (8, 24)]
    assert shares[1] < shares[0] + 0.04
    nobody = plant_mixtures(900, 6, 2, degree=12, mixed=0, seed=3)
    assert read_mixtures(nobody, start_memberships(nobody, 6)).mixed_share < 0.02


def test_levels_are_sums_and_upper_mixtures_cross_parents(planted) -> None:
    graph, _ = planted
    # The parents are those of the planted groups, whose names another start does not know.
    start = np.eye(6)[graph.memberships.argmax(1)]
    found = read(graph.adjacency, start, parents=[graph.parent])
    fine, coarse = found.memberships
    assert fine.dtype == coarse.dtype == np.float32
    np.testing.assert_allclose(fine.sum(1), 1, atol=1e-5)
    np.testing.assert_allclose(coarse, sum_levels(fine, [graph.parent])[1], atol=1e-6)
    assert (found.mixed[1] <= found.mixed[0] + 1e-6).all()
    top = np.argsort(-graph.memberships, axis=1)[:, :2]
    crosses = graph.parent[top[:, 0]] != graph.parent[top[:, 1]]
    strong = graph.second_share > 0.3
    assert auc(crosses[strong], found.mixed[1][strong]) > 0.95


def test_isolated_nodes_have_the_prior_and_no_evidence(planted) -> None:
    graph, start = planted
    alone = sp.block_diag([graph.adjacency, sp.csr_matrix((5, 5), dtype=np.float32)], "csr")
    spread = np.vstack([start, np.full((5, 6), 1 / 6)])
    found = read(alone, spread)
    np.testing.assert_allclose(found.memberships[0][-5:], np.tile(found.prior, (5, 1)), atol=0.08)
    assert (found.evidence[-5:] == 0).all()
    assert (found.between[0][-5:] == 0).all()
    assert found.evidence[:-5].min() > 0.5
    np.testing.assert_allclose(found.mixed[0][-5:], found.mixed_share, atol=0.02)


def test_two_groups_and_an_isolated_node() -> None:
    graph = plant_mixtures(400, 2, 1, degree=16, shares=(0.9, 0.1, 0.0), seed=4)
    a = sp.block_diag([graph.adjacency, sp.csr_matrix((1, 1), dtype=np.float32)], "csr")
    found = read(a, np.vstack([graph.memberships, [[0.5, 0.5]]]))
    assert found.between[0][-1] == 0  # although its membership is half and half
    assert grade(graph, found.second_share[0][:-1], found.between[0][:-1])["auc"] > 0.95


def test_one_group_is_certain() -> None:
    a = sp.random(30, 30, 0.2, random_state=0)
    found = read((a + a.T).tocsr(), np.ones((30, 1)))
    np.testing.assert_array_equal(found.memberships[0], 1)
    assert found.mixed_share == 0
    for scores in (found.mixed, found.between, found.evidence):
        np.testing.assert_array_equal(scores, 0)


def test_no_links_at_all_and_no_nodes() -> None:
    found = read(sp.csr_matrix((4, 4)), np.full((4, 3), 1 / 3))
    np.testing.assert_allclose(found.memberships[0], 1 / 3, atol=1e-6)
    assert read(sp.csr_matrix((0, 0)), np.empty((0, 3))).memberships[0].shape == (0, 3)


def test_the_unit_of_weights_does_not_matter(planted) -> None:
    graph, start = planted
    count = graph.adjacency.nnz
    plain = read(graph.adjacency, start)
    same = read(graph.adjacency, start, weights=np.full(count, 7.0))
    np.testing.assert_allclose(same.memberships[0], plain.memberships[0], atol=2e-3)


def test_weights_say_how_much_a_link_counts(planted) -> None:
    """A node whose links elsewhere weigh little is hardly elsewhere."""
    graph, start = planted
    group = graph.memberships.argmax(1)
    row = int(np.flatnonzero(graph.second_share > 0.4)[0])
    coo = graph.adjacency.tocsr().copy()
    coo.sort_indices()
    source = np.repeat(np.arange(900), np.diff(coo.indptr))
    touches = (source == row) | (coo.indices == row)
    weak = touches & (group[source] != group[coo.indices])
    weights = np.where(weak, 0.05, 1.0)
    before, after = read(coo, start), read(coo, start, weights=weights)
    assert before.second_share[0][row] > 0.2
    assert after.second_share[0][row] < 0.1


def test_order_of_nodes_and_names_of_groups_do_not_matter(planted) -> None:
    graph, start = planted
    rng = np.random.default_rng(0)
    rows, groups = rng.permutation(900), rng.permutation(6)
    plain = read(graph.adjacency, start)
    moved = read(graph.adjacency[rows][:, rows], start[rows][:, groups])
    np.testing.assert_allclose(
        moved.memberships[0], plain.memberships[0][rows][:, groups], atol=2e-3
    )
    np.testing.assert_allclose(moved.evidence, plain.evidence[rows], atol=1e-3)


def test_features_place_nodes_without_links() -> None:
    graph = plant_mixtures(600, 4, 2, degree=10, has_words=True, seed=5)
    a = graph.adjacency.tolil()
    a[:20], a[:, :20] = 0, 0
    a = a.tocsr()
    a.eliminate_zeros()
    said = word_evidence(graph, graph.memberships)
    without, found = read(a, graph.memberships), read(a, graph.memberships, features=said)
    truth = graph.memberships[:20].argmax(1)
    assert (found.memberships[0][:20].argmax(1) == truth).mean() > 0.7
    assert (without.evidence[:20] == 0).all()
    assert (found.evidence[:20] > 0).all()
    assert found.between[0][:20].max() < np.quantile(found.between[0][20:], 0.95)
    shifted = read(a, graph.memberships, features=said + np.arange(600)[:, None])
    np.testing.assert_allclose(shifted.memberships[0], found.memberships[0], atol=1e-3)


def test_evidence_grows_with_links_not_with_agreement(planted) -> None:
    graph, start = planted
    found = read(graph.adjacency, start)
    degrees = np.diff(graph.adjacency.indptr)
    few, many = degrees < np.quantile(degrees, 0.1), degrees > np.quantile(degrees, 0.9)
    assert found.evidence[few].mean() < found.evidence[many].mean() - 0.03
    strong = graph.second_share > 0.3
    assert abs(found.evidence[strong].mean() - found.evidence[~strong].mean()) < 0.05


def test_a_link_table_counts_links_by_direction() -> None:
    group = np.array([0, 0, 1, 1, 1])
    ends = np.array([[0, 2], [0, 3], [1, 4], [2, 3], [3, 0]])
    a = sp.csr_matrix((np.full(5, 2.0), (ends[:, 0], ends[:, 1])), (5, 5))
    found = count_link_table(a.indptr, a.indices, a.data, np.eye(2)[group])
    counts = np.zeros((2, 2))
    for i, j in ends:
        counts[group[i], group[j]] += 1
    expected = np.outer(counts.sum(1), counts.sum(0)) / 5
    np.testing.assert_allclose(found, (counts + 0.5) / (expected + 0.5))


def test_the_strongest_group_is_the_one_mean_field_chose() -> None:
    mixtures = np.array([[0.5, 0.4, 0.1], [0.2, 0.7, 0.1]], dtype=np.float32)
    chosen = np.array([[0.1, 0.9, 0.0], [0.0, 1.0, 0.0]], dtype=np.float32)
    led = lead_with(mixtures, chosen)
    np.testing.assert_array_equal(led, np.array([[0.4, 0.5, 0.1], [0.2, 0.7, 0.1]], np.float32))
    assert mixtures[0, 0] == np.float32(0.5)  # the input is left as it was
