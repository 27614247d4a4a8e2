"""The groups of a run: one fit for all processes, its ablations, and the teacher's committee."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.metrics import adjusted_mutual_info_score as ami
from sklearn.metrics import normalized_mutual_info_score as nmi

from graphham.graph.graph import build_graph
from graphham.graph.planted import planted_hierarchy
from graphham.model.inputs import fit_inputs
from graphham.parallel.ranks import ALONE
from graphham.training import plan, run_groups
from graphham.training.plan import plan_fit
from graphham.training.run_groups import fit_run_groups
from graphham.training.structure import search_structure
from tests.parallel.test_partitioned_graph import Table
from tests.reference.graphs import planted, small_config, without_features
from tests.training.test_shared_checkpoints import SharingRanks

PLANTED = planted()
GRAPH = PLANTED.graph
TREE = [np.array([0, 0, 0, 1, 1, 1])]


def fitted(graph=GRAPH, ranks=None, search=None, **settings):
    config = plan_fit(graph, small_config(settings)).config
    features, inputs, lead = fit_inputs(graph, config.inputs, 0, config.inputs.group_dim)
    basis, made = np.ascontiguousarray(lead), features.is_structural
    return fit_run_groups(graph, inputs, basis, made, config, ranks or ALONE, search), config


def test_the_planted_tree_is_found_and_the_map_is_of_the_chosen_fit():
    groups, config = fitted()
    truth = GRAPH.labels.codes
    assert nmi(truth, groups.map.known.argmax(1)) > 0.9
    assert groups.map.groups == config.groups
    assert groups.map.graph == GRAPH.fingerprint()
    # Two kinds of start, two seeds, and perhaps the best of them under a better tree.
    assert len(groups.fits) in (4, 5)
    assert any(fit.memberships is groups.map.known for fit in groups.fits)
    again, _ = fitted()
    np.testing.assert_array_equal(again.map.known, groups.map.known)
    other, _ = fitted(seed=1)
    assert not np.array_equal(other.map.known, groups.map.known)


def test_settings_switch_links_and_nesting_off():
    without, _ = fitted(**{"model.group_links": False})
    assert not any(table.any() for table in without.map.model.tables)
    flat, _ = fitted(**{"loss.must_link_weight": 0, "loss.cannot_link_weight": 0})
    assert not flat.map.model.vectors[1].any()
    nested, _ = fitted(**{"loss.cannot_link_weight": 0})
    assert nested.map.model.vectors[1].any()


def test_a_large_graph_is_started_once_of_each_kind(monkeypatch):
    monkeypatch.setattr(run_groups, "_FEW_STARTS_FROM", 100)
    groups, _ = fitted()
    assert len(groups.fits) == 3  # own features, averaged ones, links
    monkeypatch.setattr(run_groups, "_MOST_LINKS", 10)
    groups, _ = fitted()
    assert len(groups.fits) == 2


def test_a_large_graph_is_started_from_what_a_search_found_alone(monkeypatch):
    class Search:
        def start(self, groups, points, key):
            return GRAPH.labels.codes.astype(np.int64), TREE

    monkeypatch.setattr(run_groups, "_FEW_STARTS_FROM", 100)
    groups, _ = fitted(search=Search(), groups=(6, 2), groups_from="graph")
    assert len(groups.fits) == 1
    np.testing.assert_array_equal(groups.map.model.parents[0], TREE[0])


def test_features_made_from_links_count_less():
    assert fitted(without_features(GRAPH))[0].map.scale < fitted()[0].map.scale


def test_groups_that_a_search_found_are_one_more_start():
    """Only where they have the number of groups that is asked for."""

    class Search:
        def start(self, groups, points, key):
            return (GRAPH.labels.codes.astype(np.int64), TREE) if groups == (6, 2) else None

    found = {"groups_from": "graph"}
    fits = [fitted(search=Search(), groups=groups, **found)[0].fits for groups in ((6, 2), (5, 2))]
    assert len(fits[0]) - len(fitted(groups=(6, 2))[0].fits) == 1
    assert len(fits[1]) == len(fitted(groups=(5, 2))[0].fits)
    # Where the number was given nothing but the settings decides.
    assert len(fitted(search=Search(), groups=(6, 2))[0].fits) == len(fits[0]) - 1
    np.testing.assert_array_equal(fits[0][4].model.parents[0], TREE[0])


def test_a_large_graph_is_searched_also_where_the_number_of_groups_is_given(monkeypatch):
    """K-means alone found a sixth of the nodes' fine groups among a hundred thousand nodes."""
    settings = small_config({"groups": (6, 2)})
    assert plan_fit(GRAPH, settings).search.structure is None
    for room in (plan, run_groups):
        monkeypatch.setattr(room, "MANY_NODES", GRAPH.num_nodes - 1)
    search = plan_fit(GRAPH, settings).search
    assert search.structure is not None
    groups, config = fitted(search=search, groups=(6, 2))
    assert config.groups == (6, 2)
    # Own and smoothed features twice each, what was found, perhaps under a better tree.
    assert len(groups.fits) in (5, 6)
    assert nmi(GRAPH.labels.codes, groups.fits[4].memberships.argmax(1)) > 0.8
    assert plan_fit(GRAPH, small_config({"task": "classify"})).search.structure is None


def test_more_groups_than_a_search_found_are_cut_from_those(monkeypatch):
    """Of 10,000 nodes 27 groups were found and 30 asked for: k-means had 72% of them, these 86%."""
    search = search_structure(GRAPH, small_config({}))
    assert search.structure is not None
    most = search.structure.groups[0]
    points = fitted(groups=(6, 2))[0].inputs.smooth
    codes, parents = search.start((most + 5, most + 2, 2), points, 3)
    assert np.array_equal(np.unique(codes), np.arange(most + 5))
    middle = parents[0][codes]
    assert np.array_equal(np.unique(middle), np.arange(most + 2))
    # Every group lies in one of those found, and the top is on the way of joins.
    found = search.structure.level(most)
    for cut in (codes, middle):
        assert all(len(np.unique(found[cut == k])) == 1 for k in np.unique(cut))
    np.testing.assert_array_equal(parents[1][middle], search.structure.level(2))
    monkeypatch.setattr(run_groups, "MANY_NODES", GRAPH.num_nodes - 1)
    groups, _ = fitted(search=search, groups=(most + 5, 2))
    assert nmi(GRAPH.labels.codes, groups.fits[4].memberships.argmax(1)) > 0.75


def test_coarse_groups_are_joined_anew_from_the_fitted_ones(monkeypatch):
    """Mean field never gives a group another parent; a bad tree must not stay."""
    codes = GRAPH.labels.codes.astype(np.int64)

    def badly(*_, **__):
        return [seen.fit(codes, [np.array([0, 1, 0, 1, 0, 1])])]

    seen = fitted(groups=(6, 2))[0].inputs
    monkeypatch.setattr(run_groups, "fit_from", badly)
    groups, _ = fitted(groups=(6, 2))
    fine = groups.map.known.argmax(1)
    assert nmi(codes >= 3, groups.map.model.parents[0][fine]) > 0.9
    flat, _ = fitted(groups=(6, 2), **{"loss.must_link_weight": 0, "loss.cannot_link_weight": 0})
    np.testing.assert_array_equal(flat.map.model.parents[0], [0, 1, 0, 1, 0, 1])


def test_the_committee_has_finer_and_coarser_fits():
    groups, config = fitted(groups=(4, 2))
    committee = groups.committee(config)
    assert committee[: len(groups.fits)] == groups.fits
    more = [fit.model.groups for fit in committee[len(groups.fits) :]]
    assert more == [(16, 4, 2)] * 4 + [(8, 4, 2)] * 4 + [(2,)] * 4
    # A few nodes are not worth a group of their own.
    few, many = fitted(groups=(30, 20))
    assert {fit.model.groups for fit in few.committee(many)} == {(30, 20), (20,)}
    single, one_level = fitted(groups=(5,))
    assert {fit.model.groups for fit in single.committee(one_level)} == {(5,), (10, 5), (20, 5)}
    flat, config = fitted(groups=(5, 2), **{"model.group_links": False})
    assert not flat.committee(config)[-1].model.tables[0].any()


@pytest.mark.parametrize("count", [2, 3])
def test_the_first_process_decides_for_all(count):
    """Machines may round differently, and k-means makes other groups of the last digit."""
    table = Table(count)

    def one(rank):
        ranks = SharingRanks(rank, count, table=table)
        return fitted(seed=rank, ranks=ranks)[0].map  # stands for another machine's arithmetic

    with ThreadPoolExecutor(count) as pool:
        maps = list(pool.map(one, range(count)))
    alone = fitted(seed=0)[0].map
    for found in maps:
        state, expected = found.state(), alone.state()
        assert state.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_array_equal(state[name], value)
            assert state[name].dtype == value.dtype, name


def test_where_starts_disagree_the_groups_are_what_many_agree_on():
    """The best of a few fits is another one for every seed; what most of them say is not."""
    blurred = planted_hierarchy((2, 4), 1600, mean_degree=8, edge_shares=(0.45, 0.35, 0.2), seed=1)

    def over_seeds(starts):
        found = [fitted(blurred.graph, groups=(12, 3), seed=seed)[0] for seed in range(4)]
        assert all(len(one.fits) > starts for one in found)
        codes = [one.map.known.argmax(1) for one in found]
        return np.mean([ami(*pair) for pair in itertools.combinations(codes, 2)])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_groups, "MANY_NODES", 0)
        alone = over_seeds(3)
    assert over_seeds(4) > alone + 0.05


def test_beside_labels_and_on_large_graphs_groups_are_fitted_a_few_times(monkeypatch):
    monkeypatch.setattr(run_groups, "_agreed", None)  # calling it would fail
    with pytest.raises(TypeError, match="not callable"):
        fitted(groups=(9, 2))
    fitted(groups=(9, 2), task="classify")
    monkeypatch.setattr(run_groups, "MANY_NODES", GRAPH.num_nodes - 1)
    fitted(groups=(9, 2))


def alike_graph(within, nodes=400):
    """Links of two groups; ``within`` says how many times as often they join equal topics."""
    rng = np.random.default_rng(0)
    group, topic = rng.integers(0, 2, nodes), rng.integers(0, 16, nodes)
    odds = np.where(group[:, None] == group, 0.04, 0.004)
    odds *= np.where(topic[:, None] == topic, within, 1.0)
    source, target = np.nonzero(np.triu(rng.random((nodes, nodes)) < odds, 1))
    own = np.concatenate([2 * np.eye(2)[group], np.eye(16)[topic]], axis=1)
    return build_graph(source, target, nodes, features=own.astype(np.float32))


def test_likeness_counts_where_linked_nodes_are_alike_beyond_their_groups():
    slopes = {}
    for within in (0.2, 1.0, 6.0):
        groups, _ = fitted(alike_graph(within), groups=(2,))
        slopes[within], usual = groups.map.likeness
        assert -1 <= usual <= 1
    assert slopes[6.0] > 0.8
    assert slopes[0.2] < -0.4
    assert abs(slopes[1.0]) < 0.2
    again, _ = fitted(alike_graph(6.0), groups=(2,))
    assert again.map.likeness[0] == slopes[6.0]


def test_likeness_needs_features_links_and_the_pair_score():
    assert fitted()[0].map.likeness is not None
    assert fitted(without_features(GRAPH))[0].map.likeness is None
    for setting in ({"model.group_score": "none"}, {"model.group_links": False}):
        assert fitted(**setting)[0].map.likeness is None


def test_likeness_is_found_from_some_of_very_many_links(monkeypatch):
    whole = fitted()[0].map.likeness
    monkeypatch.setattr(run_groups, "_MOST_PAIRS", GRAPH.num_stored // 2)
    monkeypatch.setattr(run_groups, "_PAIRS_AT_ONCE", 7)
    some = fitted()[0].map.likeness
    assert some != whole
    np.testing.assert_allclose(some, whole, atol=1.0)
    monkeypatch.setattr(run_groups, "_MOST_PAIRS", GRAPH.num_stored)
    np.testing.assert_allclose(fitted()[0].map.likeness, whole, rtol=1e-5)
