"""The graft: clusters from the top down, along the graph, as a tree."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import normalized_mutual_info_score

from graphham.model import group_seeding as seeding
from graphham.model.group_seeding import _link_tables, _share_out, find_seeds
from tests.reference.graphs import planted, random_graph, relinked


def noisy_states(truth, seed, noise=0.8, dim=12):
    """Vectors around a mean per group, for both levels."""
    rng = np.random.default_rng(seed)
    out = []
    for codes in truth.levels:
        means = rng.normal(size=(codes.max() + 1, dim))
        out.append((means[codes] + noise * rng.normal(size=(len(codes), dim))).astype(np.float32))
    return out


def seeds_of(truth, graph=None, counts=(6, 2), noise=0.8, **options):
    graph = truth.graph if graph is None else graph
    return find_seeds(noisy_states(truth, 0, noise), graph, counts, 3, 8.0, **options)


def nmis(truth, seeds):
    return [
        normalized_mutual_info_score(wanted, found)
        for wanted, found in zip(truth.levels, seeds.codes, strict=True)
    ]


def check_tree(seeds, counts):
    assert [len(c) for c in seeds.centers] == list(counts)
    for level, parent in enumerate(seeds.parents):
        assert len(parent) == counts[level]
        assert set(parent.tolist()) == set(range(counts[level + 1]))  # nobody is childless
        np.testing.assert_array_equal(parent[seeds.codes[level]], seeds.codes[level + 1])
    for level, count in enumerate(counts):
        assert seeds.codes[level].min() >= 0
        assert seeds.codes[level].max() < count
        norms = np.linalg.norm(seeds.centers[level], axis=1)
        assert ((np.abs(norms - 1) < 1e-4) | (norms < 1e-4)).all()
        assert np.isfinite(seeds.tables[level]).all()
        np.testing.assert_allclose(seeds.tables[level], seeds.tables[level].T, atol=1e-4)


def test_planted_groups_are_found_on_both_levels():
    truth = planted(300, seed=2)
    seeds = seeds_of(truth)
    check_tree(seeds, (6, 2))
    assert min(nmis(truth, seeds)) > 0.95
    # Groups of one coarse group link more than groups of two, and least to strangers.
    own = np.diag(seeds.tables[0])
    same = seeds.parents[0][:, None] == seeds.parents[0][None, :]
    siblings = seeds.tables[0][same & ~np.eye(6, dtype=bool)]
    assert own.min() > siblings.max() > seeds.tables[0][~same].mean()


def test_listening_to_neighbours_mends_noisy_states():
    truth = planted(600, seed=3)
    alone, heard = (nmis(truth, seeds_of(truth, noise=2.5, listen=v)) for v in (False, True))
    assert heard[0] > alone[0] + 0.1
    assert heard[1] > alone[1]


@pytest.mark.parametrize("counts", [(5,), (4, 4), (9, 6, 2), (1, 1), (60, 59), (100, 2)])
def test_any_shape_of_tree(counts):
    truth = planted(120, seed=4)
    rng = np.random.default_rng(0)
    states = [rng.normal(size=(120, 5)).astype(np.float32) for _ in counts]
    check_tree(find_seeds(states, truth.graph, counts, 0, 8.0), counts)


def test_more_groups_than_nodes_in_a_parent():
    """One coarse group holds a single node and still gets its child."""
    states = np.zeros((12, 2), dtype=np.float32)
    states[:6] = [1, 0]
    states[6:11] = [-1, 0.1]
    states[11] = [0, 40]
    rng = np.random.default_rng(1)
    fine = (states + 0.01 * rng.normal(size=states.shape)).astype(np.float32)
    seeds = find_seeds([fine, states], random_graph(12, 1), (11, 3), 0, 8.0)
    check_tree(seeds, (11, 3))


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.booleans(), st.booleans())
def test_any_graph_with_isolated_nodes_directed_or_weighted(seed, weighted, directed):
    graph = random_graph(15, seed, weighted, directed)
    rng = np.random.default_rng(seed)
    states = [rng.normal(size=(15, 3)).astype(np.float32) for _ in range(2)]
    states[0][3] = 0.0  # a node with nothing to look at
    check_tree(find_seeds(states, graph, (4, 2), seed, 8.0), (4, 2))


def test_the_unit_of_edge_weights_does_not_matter():
    truth = planted(300, seed=5)
    weights = np.random.default_rng(0).uniform(0.5, 1.5, truth.graph.num_edges)
    made = [
        seeds_of(truth, relinked(truth.graph, weights=unit * weights), noise=2.0)
        for unit in (1.0, 2.0**-10, 2.0**10)
    ]
    for other in made[1:]:
        np.testing.assert_allclose(other.tables[0], made[0].tables[0], atol=1e-3)
        np.testing.assert_array_equal(other.codes[0], made[0].codes[0])


def test_the_key_decides_everything():
    truth = planted(120, seed=6)
    one, two = seeds_of(truth), seeds_of(truth)
    for a, b in zip(
        one.centers + one.codes + one.tables, two.centers + two.codes + two.tables, strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_link_tables_equal_counting():
    graph = random_graph(14, 8, weighted=False)
    rng = np.random.default_rng(0)
    fine = rng.integers(0, 4, 14)
    parents = np.array([0, 0, 1, 1])
    levels = [np.eye(4, dtype=np.float32)[fine], np.eye(2, dtype=np.float32)[parents[fine]]]
    adjacency = graph.adjacency()
    degrees = graph.degrees().astype(np.float32)
    found = _link_tables(adjacency, degrees, levels, [parents])
    dense, total = adjacency.toarray(), degrees.sum()
    coarse = np.zeros((2, 2))
    for k in range(2):
        for q in range(2):
            a, b = parents[fine] == k, parents[fine] == q
            expected = degrees[a].sum() * degrees[b].sum() / total
            coarse[k, q] = np.log((dense[np.ix_(a, b)].sum() + 1) / (expected + 1))
    np.testing.assert_allclose(found[1], coarse, atol=1e-5)
    for k in range(4):
        for q in range(4):
            a, b = fine == k, fine == q
            expected = degrees[a].sum() * degrees[b].sum() / total
            prior = 0.02 * expected * np.exp(coarse[parents[k], parents[q]])
            value = np.log((dense[np.ix_(a, b)].sum() + prior + 1e-3) / (1.02 * expected + 1e-3))
            assert found[0][k, q] == pytest.approx(np.clip(value, -8, 8), abs=1e-4)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.integers(0, 20))
def test_children_are_shared_out_by_size(sizes, more):
    sizes = np.array(sizes)
    children = _share_out(sizes, len(sizes) + more)
    assert children.sum() == len(sizes) + more
    assert children.min() >= 1
    # No parent could give a child to another and leave both with a smaller largest child.
    ratio = sizes / children
    for giver in np.flatnonzero(children > 1):
        assert sizes[giver] / (children[giver] - 1) >= ratio.max() - 1e-9


def test_a_large_graph_is_seeded_like_a_small_one(monkeypatch):
    """Reading the links in place and centring in place must not change what is found."""
    truth = planted(300)
    rng = np.random.default_rng(0)
    spots = rng.standard_normal((6, 10)).astype(np.float32)
    x = spots[truth.levels[0]] + 0.3 * rng.standard_normal((300, 10)).astype(np.float32)
    usual = find_seeds([x, x], truth.graph, (6, 2), 3, 8.0)
    monkeypatch.setattr(seeding, "_LARGE", 0)
    kept = x.copy()
    large = find_seeds([x.copy(), kept[:]], truth.graph, (6, 2), 3, 8.0)
    np.testing.assert_array_equal(kept, x)  # a view belongs to somebody else
    for one, other in zip(usual.codes, large.codes, strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(usual.tables + usual.centers, large.tables + large.centers, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
