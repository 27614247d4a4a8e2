"""The search for structure: what it says, how it is cut to levels, and when nobody asks."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp

import graphham as gh
from graphham.config.settings import make_config
from graphham.graph.graph import build_graph
from graphham.graph.planted import planted_hierarchy
from graphham.methods.fitting import fit_graph
from graphham.training import structure
from graphham.training.plan import plan_fit
from graphham.training.structure import StructureSearch, search_structure

PLANTED = planted_hierarchy((2, 3), 300, seed=1)


@pytest.fixture(scope="module")
def found() -> StructureSearch:
    return search_structure(PLANTED.graph, make_config({}))


def random_graph(seed: int = 0) -> gh.Graph:
    draw = np.random.default_rng(seed)
    ends = draw.integers(300, size=(1500, 2))
    ones = np.ones(len(ends), np.float32)
    matrix = sp.csr_matrix((ones, (ends[:, 0], ends[:, 1])), (300, 300))
    return gh.as_graph(sp.csr_matrix(((matrix + matrix.T) > 0).astype(np.float32)))


def test_a_planted_tree_is_found_and_said(found: StructureSearch) -> None:
    assert found.found is True
    assert found.groups(2) == (6, 2)
    assert found.sentence().startswith(
        "the graph has groups: its description is shortest with 6 > 2,"
    )
    facts = json.loads(json.dumps(found.facts()))
    assert facts["found"] is True
    assert facts["groups"] == [6, 2]
    assert facts["gain"] > facts["rewired_gain"]
    assert len(facts["stability"]) == 6
    assert min(facts["stability"]) > 0.8
    assert {"groups", "gain"} <= set(facts["curve"][0])


def test_levels_are_padded_with_one_group_and_cut_in_the_middle(found: StructureSearch) -> None:
    assert found.groups(1) == (6,)
    assert found.groups(3) == (6, 2, 1)


def test_a_fit_can_start_from_what_was_found(found: StructureSearch) -> None:
    points = np.ones((len(found.structure.assignments[0]), 2), dtype=np.float32)
    codes, parents = found.start((6, 2), points, 0)
    assert np.array_equal(parents[0][codes], found.structure.level(2))
    codes, parents = found.start((6, 2, 1), points, 0)
    assert [len(parent) for parent in parents] == [6, 2]
    codes, parents = found.start((5, 2), points, 0)  # on the way of joins
    assert np.array_equal(codes, found.structure.level(5))
    assert np.array_equal(parents[0][codes], found.structure.level(2))
    codes, parents = found.start((7, 2), points, 0)  # more than were found
    assert len(parents[0]) == 7
    assert np.array_equal(parents[0][codes], found.structure.level(2))


def test_a_random_graph_has_no_groups_and_the_fit_says_so() -> None:
    graph = random_graph()
    search = search_structure(graph, make_config({}))
    assert search.found is False
    assert search.groups(2) == (1, 1)
    assert search.start((1, 1), np.ones((graph.num_nodes, 2), np.float32), 0) is None
    fitted = fit_graph(graph, make_config({"dim": 8, "train.epochs": 2}))
    assert fitted.result.group_counts == (1, 1)
    assert fitted.summary["structure"]["found"] is False
    assert any(note.startswith("no groups found") for note in fitted.summary["notes"])


def test_nobody_searches_what_is_too_large_or_learned_by_layers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(structure, "_MOST_NODES", 100)
    search = search_structure(PLANTED.graph, make_config({}))
    assert search.found is None
    assert "300 nodes are too many" in search.sentence()
    assert search.groups(2) is None
    assert search.facts()["found"] is None
    search = search_structure(PLANTED.graph, make_config({}, preset="paper"))
    assert "learned by its layers" in search.sentence()


def test_given_groups_are_obeyed_and_searched_only_for_a_summary() -> None:
    settings = make_config({"groups": (5, 3)})
    plan = plan_fit(PLANTED.graph, settings)
    assert plan.config.groups == (5, 3)
    assert plan.search.found is None
    plan = plan_fit(PLANTED.graph, settings, is_run=True)
    assert plan.config.groups == (5, 3)
    assert plan.search.found is True
    assert plan.config.groups_from == "settings"
    assert plan_fit(PLANTED.graph, make_config({})).config.groups_from == "graph"


@pytest.mark.parametrize("chance", [0.15, 0.3])
def test_features_of_two_values_do_not_make_groups_by_themselves(chance: float) -> None:
    """Each of nine yes-or-no features could be a group of its own; links and words say three."""
    draw = np.random.default_rng(0)
    codes = np.repeat(np.arange(3), 40)
    inside = np.where(codes[:, None] == codes[None, :], chance, 0.01)
    a, b = np.nonzero(np.triu(draw.random((120, 120)) < inside, 1))
    x = draw.random((120, 9)) < 0.05
    own = codes[:, None] == np.arange(9)[None, :] // 3
    x |= own & (draw.random((120, 9)) < 0.8)
    graph = build_graph(a, b, 120, features=x.astype(np.float32))
    found = search_structure(graph, make_config({})).structure
    assert found is not None
    assert found.found
    assert found.groups[0] in (3, 4)
