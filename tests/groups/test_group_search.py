"""The search for groups: starts, joins, splits, and what mixed nodes are worth."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_mutual_info_score

from graphham.graph.planted import planted_hierarchy
from graphham.groups import group_search
from graphham.groups.flat_blocks import block_data, group_tables, in_one_group
from graphham.groups.group_search import GroupFit, GroupSearch, gain, link_evidence, without_mixed
from graphham.sampling.keys import derive_key


def search_of(planted, most=20, **more):
    data = block_data(planted.graph.adjacency().astype(np.float32), None)
    return GroupSearch(data, {"features": data.x, **more}, most, derive_key(0, "test"))


def tree(**given):
    settings = {"edge_shares": (0.7, 0.2, 0.1), "features": "none", "seed": 3, **given}
    return planted_hierarchy((3, 4), 900, **settings)


def test_joins_end_at_the_groups_there_are():
    planted = tree()
    found = search_of(planted).best()
    assert found.tables.count == 12
    assert adjusted_mutual_info_score(found.codes, planted.levels[0]) > 0.95
    assert found.gain == pytest.approx(gain(found.tables), rel=1e-6)
    assert link_evidence(found.tables) > 0
    again = search_of(planted)
    again.best()
    other = again.again(0)
    assert adjusted_mutual_info_score(other.codes, planted.levels[0]) > 0.95


def test_a_large_graph_is_split_into_what_is_inside_its_groups(monkeypatch):
    monkeypatch.setattr(group_search, "LARGE", 500)
    monkeypatch.setattr(group_search, "FEW", 3)
    planted = tree()
    search = search_of(planted)
    assert search.count == 3
    coarse = search.best(splits=0)
    assert coarse.tables.count == 3
    first, insides = search.best(), search.insides
    for found in (first, search.again(0)):
        assert search.insides is insides  # looked into once, for all starts
        assert 10 <= found.tables.count <= 12
        assert adjusted_mutual_info_score(found.codes, planted.levels[0]) > 0.9


def test_a_start_that_says_nothing_about_links_is_left():
    planted = tree()
    noise = np.eye(5, dtype=np.float32)[np.arange(900) % 5]
    search = search_of(planted, words=noise)
    search.best()
    assert search.kind == "links"


def test_groups_of_mixed_nodes_are_dropped_and_true_ones_stay():
    planted = tree(mixed=0.3, mean_degree=24)
    data = block_data(planted.graph.adjacency().astype(np.float32), None)
    share = planted.memberships.toarray()
    is_mixed = (share > 0).sum(1) == 2
    true = planted.levels[0].copy()
    # One group too many: the nodes between two homes that are met most often.
    pairs, met = np.unique(share[is_mixed] > 0, axis=0, return_counts=True)
    between = ((share > 0) == pairs[met.argmax()]).all(1)
    start = np.where(between, 12, true)

    def fit_of(codes):
        held = in_one_group(codes)
        tables = group_tables(data, held)
        return GroupFit(held, tables, gain(tables))

    assert without_mixed(data, fit_of(start)).tables.count == 12
    plain = fit_of(true)
    assert without_mixed(data, plain).tables.count == 12
