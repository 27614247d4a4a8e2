"""Number of groups, depth and "is there anything?": planted truths and noise."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_mutual_info_score

from graphham.errors import InputError
from graphham.graph.planted import planted_hierarchy
from graphham.groups import group_count, group_search
from graphham.groups.group_count import find_structure


def random_links(n, degree, seed, skewed=False):
    rng = np.random.default_rng(seed)
    share = rng.random(n) ** -0.5 if skewed else np.ones(n)
    ends = rng.choice(n, (2, n * degree // 2), p=share / share.sum())
    ends = ends[:, ends[0] != ends[1]]
    half = sp.csr_matrix((np.ones(ends.shape[1], np.float32), ends), shape=(n, n))
    both = (half + half.T).tocsr()
    both.data[:] = 1.0
    return both


def unit_rows(x):
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def tree(shares=(0.7, 0.2, 0.1), **given):
    planted = planted_hierarchy(
        (3, 4), 1200, edge_shares=shares, features="none", **{"seed": 3, **given}
    )
    return planted.graph.adjacency().astype(np.float32).tocsr(), planted


def test_a_planted_tree_is_found_with_both_levels():
    adjacency, planted = tree()
    found = find_structure(adjacency, seed=0)
    assert found.found
    assert found.groups == found.displayed == (12, 3)
    for ours, true in zip(found.assignments, planted.levels, strict=True):
        assert adjusted_mutual_info_score(ours, true) > 0.95
    assert np.array_equal(found.parents[0][found.assignments[0]], found.assignments[1])
    assert found.curve[11] == {"groups": 12, "gain": pytest.approx(found.gain)}
    assert max(point["gain"] for point in found.curve) == pytest.approx(found.gain)
    assert found.rewired_gain < 0.05 * found.gain
    assert found.agreement > 0.95
    assert (found.stability > 0.9).all()
    assert len(found.stability) == 12
    coarse, fine = found.level(3), found.level(7)
    assert len(set(zip(fine, coarse, strict=True))) == 7
    with pytest.raises(InputError, match="13 groups"):
        found.level(13)


def test_a_flat_graph_has_no_upper_level():
    planted = planted_hierarchy((12,), 1200, edge_shares=(0.7, 0.3), features="none", seed=1)
    assert find_structure(planted.graph.adjacency(), seed=0).groups == (12,)


def test_nodes_with_two_homes_make_no_groups_of_their_own(monkeypatch):
    adjacency, _ = tree(mixed=0.3, mean_degree=24)
    assert find_structure(adjacency, seed=0).groups[0] == 12
    monkeypatch.setattr(group_search, "without_mixed", lambda data, fit: fit)
    assert find_structure(adjacency, seed=0).groups[0] > 12


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize("n", [300, 1500])
def test_nothing_is_found_in_random_links(n, skewed):
    adjacency = random_links(n, 8, n, skewed)
    noise = unit_rows(np.random.default_rng(0).normal(size=(n, 16)))
    for x in (None, noise):
        nothing = find_structure(adjacency, x, x, seed=1)
        assert not nothing.found
        assert nothing.groups == nothing.displayed == ()


def test_clusters_of_features_alone_are_not_groups_of_the_graph():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 5, 1000)
    x = unit_rows(rng.normal(size=(5, 8))[codes] + 0.1 * rng.normal(size=(1000, 8)))
    found = find_structure(random_links(1000, 8, 0), x, x, seed=0)
    assert not found.found
    assert found.gain > 500


def test_features_find_what_weak_links_cannot():
    adjacency, planted = tree((0.3, 0.2, 0.5), mean_degree=8)
    rng = np.random.default_rng(0)
    fine = planted.levels[0]
    x = unit_rows(rng.normal(size=(12, 12))[fine] + 0.6 * rng.normal(size=(1200, 12)))
    x[::10] = 0.0
    found = find_structure(adjacency, x, None, seed=0)
    assert adjusted_mutual_info_score(found.assignments[0], fine) > 0.6
    assert len(find_structure(adjacency, seed=0).groups) < 2


def test_the_unit_of_weights_does_not_matter_and_the_seed_decides():
    adjacency, _ = tree()
    first, second = find_structure(adjacency, seed=5), find_structure(adjacency * 7, seed=5)
    assert np.array_equal(first.assignments[0], second.assignments[0])
    assert first.gain == pytest.approx(second.gain, rel=1e-5)


@pytest.mark.parametrize("n", [1, 3, 40])
def test_a_graph_without_links_has_nothing(n):
    assert not find_structure(sp.csr_matrix((n, n), dtype=np.float32)).found


def test_rows_of_features_must_match():
    with pytest.raises(InputError, match="5 rows"):
        find_structure(random_links(40, 4, 0), np.ones((5, 2), np.float32))


@pytest.mark.parametrize(
    ("groups", "shown"), [([130, 14, 6], 12), ([131, 12, 3], 12), ([130, 8], 8), ([130, 3], 12)]
)
def test_the_shown_upper_level_is_the_next_one_at_most_half_as_many(groups, shown):
    """A level of 14 above 24 shown groups is cut to 12, not passed over for one of 6."""
    path = SimpleNamespace(gains=np.linspace(0, 1, groups[0]))
    assert group_count._readable(path, groups) == (24, shown)
