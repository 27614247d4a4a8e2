"""Planted hierarchies: what was asked for is what comes out."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.graph.planted import PlantedGraph, planted_hierarchy


def measured_shares(planted: PlantedGraph) -> np.ndarray:
    """Share of edges first joined at each level, fine to coarse, then elsewhere."""
    ends = planted.graph.edge_list()
    together = [level[ends[:, 0]] == level[ends[:, 1]] for level in planted.levels]
    inside = np.array([t.mean() for t in together] + [1.0])
    return np.diff(inside, prepend=0.0)


@pytest.mark.parametrize("shares", [(0.7, 0.2, 0.1), (0.5, 0.33, 0.17), (0.4, 0.3, 0.3)])
def test_edges_reach_as_far_as_asked(shares: tuple[float, ...]) -> None:
    planted = planted_hierarchy((3, 4), 2000, edge_shares=shares)
    assert planted.graph.num_edges == 12_000
    np.testing.assert_allclose(measured_shares(planted), shares, atol=1e-3)


@given(
    tree=st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple),
    skew=st.sampled_from([0.0, 0.3, 0.6]),
    mixed=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 5),
)
@settings(max_examples=30)
def test_any_tree_gives_a_sound_graph(
    tree: tuple[int, ...], skew: float, mixed: float, seed: int
) -> None:
    # A branching of 1 leaves a level without pairs of its own, so only reachable levels get edges.
    open_levels = np.array([True, *(b > 1 for b in reversed(tree))])
    shares = open_levels / open_levels.sum()
    leaves = math.prod(tree)
    planted = planted_hierarchy(
        tree,
        30 * leaves,
        mean_degree=4,
        edge_shares=shares,
        words=leaves + 3,
        degree_skew=skew,
        mixed=mixed,
        seed=seed,
    )
    graph = planted.graph.validate()
    assert (graph.adjacency() != graph.adjacency().T).nnz == 0
    assert graph.adjacency().diagonal().sum() == 0
    assert all((np.diff(graph.neighbors(r)) > 0).all() for r in range(graph.num_nodes))
    assert planted.groups == tuple(math.prod(tree[:n]) for n in range(len(tree), 0, -1))
    for fine, coarse, parent in zip(
        planted.levels, planted.levels[1:], planted.parents, strict=False
    ):
        np.testing.assert_array_equal(parent[fine], coarse)
    np.testing.assert_array_equal(np.bincount(planted.levels[0]), np.full(leaves, 30))
    np.testing.assert_array_equal(graph.labels.codes, planted.levels[0])
    if skew == mixed == 0:
        assert graph.num_edges == 60 * leaves
        np.testing.assert_allclose(
            measured_shares(planted), shares, atol=2 / graph.num_edges + 0.01
        )


def test_the_seed_decides_everything() -> None:
    first, again = (planted_hierarchy(seed=3, degree_skew=0.3, mixed=0.1) for _ in range(2))
    other = planted_hierarchy(seed=4, degree_skew=0.3, mixed=0.1)
    assert first.graph.fingerprint() == again.graph.fingerprint()
    assert first.graph.fingerprint() != other.graph.fingerprint()
    np.testing.assert_array_equal(first.levels[0], again.levels[0])
    assert (first.memberships != again.memberships).nnz == 0


def test_other_features_leave_the_edges_alone() -> None:
    words, vectors, none = (
        planted_hierarchy(features=kind, seed=1).graph for kind in ("words", "gaussian", "none")
    )
    np.testing.assert_array_equal(words.indices, vectors.indices)
    np.testing.assert_array_equal(words.indices, none.indices)
    assert none.features is None


def test_skew_makes_hubs_and_keeps_the_mean_degree() -> None:
    even = planted_hierarchy(num_nodes=5000).graph.degrees()
    skewed = planted_hierarchy(num_nodes=5000, degree_skew=0.6).graph.degrees()
    assert skewed.mean() == pytest.approx(even.mean(), rel=0.02)
    assert skewed.max() > 4 * even.max()
    assert np.median(skewed) < np.median(even)


def test_skewed_shares_still_hold() -> None:
    planted = planted_hierarchy(num_nodes=20_000, degree_skew=0.4, edge_shares=(0.5, 0.3, 0.2))
    np.testing.assert_allclose(measured_shares(planted), (0.5, 0.3, 0.2), atol=2e-3)


def test_mixed_nodes_live_in_two_groups() -> None:
    planted = planted_hierarchy((6,), 3000, edge_shares=(0.9, 0.1), mixed=0.2, mean_degree=20)
    shares = planted.memberships
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    is_mixed = np.diff(shares.indptr) == 2
    assert is_mixed.sum() == 600
    assert set(shares.data[np.repeat(is_mixed, np.diff(shares.indptr))]) == {0.5}
    # Neighbours of a mixed node are found in both of its groups about equally often.
    near = planted.graph.adjacency() @ shares
    by_own = near[is_mixed].toarray()
    first, second = shares[is_mixed].indices.reshape(-1, 2).T
    rows = np.arange(600)
    total = by_own.sum()
    assert by_own[rows, first].sum() / total == pytest.approx(
        by_own[rows, second].sum() / total, abs=0.02
    )
    assert (by_own[rows, first].sum() + by_own[rows, second].sum()) / total > 0.75


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"branching": ()}, "branching"),
        ({"branching": (3, 0)}, "branching"),
        ({"num_nodes": 20}, "num_nodes=20"),
        ({"edge_shares": (0.5, 0.5)}, "edge_shares"),
        ({"edge_shares": (0.9, 0.2, -0.1)}, "edge_shares"),
        ({"mean_degree": 400}, "mean_degree=400"),
        ({"mean_degree": float("nan")}, "mean_degree"),
        ({"word_on": 0.02}, "word_on=0.02"),
        ({"words": 5}, "words=5"),
        ({"mixed": 1.5}, "mixed=1.5"),
        ({"feature_noise": -1}, "feature_noise=-1"),
        ({"degree_skew": 1.0}, "degree_skew=1.0"),
        ({"features": "pixels"}, "pixels"),
    ],
)
def test_impossible_settings_are_named(settings: dict, named: str) -> None:
    with pytest.raises(InputError, match=named):
        planted_hierarchy(**settings)
