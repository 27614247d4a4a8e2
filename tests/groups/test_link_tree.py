"""Trees cut from links alone: they nest, and find what averages of neighbours blur."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import adjusted_mutual_info_score

from graphham.config.settings import make_config
from graphham.graph.graph import Labels, build_graph
from graphham.graph.planted import planted_hierarchy
from graphham.groups.link_tree import link_tree
from graphham.methods.fitting import fit_graph
from graphham.methods.graphham import GraphHAM
from graphham.training import run_groups


@pytest.mark.parametrize("groups", [(1,), (4,), (9, 3), (9, 4, 2), (5, 5)])
@pytest.mark.parametrize("directed", [False, True])
def test_every_group_has_a_parent_and_levels_nest(groups, directed):
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 80, (2, 300))
    graph = build_graph(source, target, 80, directed=directed)
    codes, parents = link_tree(graph, groups, 3)
    assert codes.shape == (80,)
    assert codes.min() >= 0
    assert codes.max() < groups[0]
    for parent, low, high in zip(parents, groups[:-1], groups[1:], strict=True):
        assert parent.shape == (low,)
        assert set(parent.tolist()) == set(range(high))
    again, _ = link_tree(graph, groups, 3)
    assert np.array_equal(codes, again)


def test_more_groups_than_nodes_or_links_are_obeyed():
    graph = build_graph(np.array([0, 1, 2]), np.array([1, 2, 3]), 6)
    codes, parents = link_tree(graph, (12, 5), 0)
    assert codes.max() < 12
    assert len(parents[0]) == 12


def test_nested_groups_are_found_by_links_alone():
    drawn = planted_hierarchy(
        (3, 4), 2000, edge_shares=(0.4, 0.3, 0.3), mean_degree=12, features="none", seed=2
    )
    coarse, fine = sorted(drawn.levels, key=lambda level: level.max())
    codes, parents = link_tree(drawn.graph, (12, 3), 0)
    assert adjusted_mutual_info_score(coarse, parents[0][codes]) > 0.7
    assert adjusted_mutual_info_score(fine, codes) > 0.35


def test_a_fit_with_given_groups_tells_apart_what_averages_blur(monkeypatch):
    drawn = planted_hierarchy(
        (3, 4), 2000, edge_shares=(0.4, 0.3, 0.3), mean_degree=12, word_on=0.06, seed=3
    )
    fine = max(drawn.levels, key=lambda level: level.max())

    def agreement():
        model = GraphHAM(groups=(12, 3), seed=3, epochs=1).fit(drawn.graph)
        return adjusted_mutual_info_score(fine, model.levels_[0])

    found = agreement()
    monkeypatch.setattr(run_groups, "_from_links", lambda *_: [])
    assert found > agreement() + 0.05


def test_groups_of_a_large_sparse_graph_without_features_start_from_its_links(monkeypatch):
    drawn = planted_hierarchy(
        (4, 3),
        6000,
        edge_shares=(0.5, 0.25, 0.25),
        mean_degree=6,
        degree_skew=0.6,
        features="none",
        seed=0,
    )
    coarse = min(drawn.levels, key=lambda level: level.max())
    classes = Labels(tuple(range(4)), codes=coarse.astype(np.int32))
    graph = replace(drawn.graph, labels=classes)
    linked = np.flatnonzero(graph.degrees() >= 3)
    monkeypatch.setattr(run_groups, "_FEW_STARTS_FROM", 1000)

    def agreement():
        config = make_config({"task": "classify", "groups": (12, 4), "train.epochs": 1})
        shown = fit_graph(graph, config, train_rows=np.arange(0, 6000, 60)).result.groups
        level = np.asarray(shown[1])
        return adjusted_mutual_info_score(coarse[linked], level[linked])

    found = agreement()
    monkeypatch.setattr(run_groups, "_MOST_LINKS", 0)
    assert found > agreement() + 0.1
