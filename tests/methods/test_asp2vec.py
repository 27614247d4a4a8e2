"""asp2vec: aspects that mean something, and its own link scorer."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.graph.graph import build_graph
from graphham.graph.planted import PlantedGraph, planted_hierarchy
from graphham.methods import Asp2Vec

_LEAVES = 6


@cache
def overlapping() -> PlantedGraph:
    """Six groups; a quarter of the nodes belong to two of them."""
    return planted_hierarchy(
        (_LEAVES,),
        num_nodes=360,
        mean_degree=14,
        edge_shares=(0.95, 0.05),
        features="none",
        mixed=0.25,
        seed=1,
    )


@cache
def fitted() -> Asp2Vec:
    return Asp2Vec(dim=16, seed=0).fit(overlapping().graph)


def test_overlapping_nodes_change_their_aspect_with_the_company() -> None:
    truth = overlapping().memberships.toarray()
    owned = (truth > 0).sum(1)
    both, pure = np.flatnonzero(owned == 2), np.flatnonzero(owned == 1)
    leaf = truth.argmax(1)
    draw = np.random.default_rng(0)

    def company(groups: Any) -> Any:
        return np.array([draw.choice(pure[leaf[pure] == g], 5, replace=False) for g in groups])

    first, second = np.array([np.flatnonzero(truth[row]) for row in both]).T
    chosen = [
        fitted().aspect_weights(both, company(groups)).argmax(1)
        for groups in (first, first, second)
    ]
    # By chance one choice in five would agree, in the same company as in another.
    assert (chosen[0] == chosen[1]).mean() > 0.6
    assert (chosen[0] == chosen[2]).mean() < 0.2


def test_aspect_vectors_of_a_node_lie_in_its_own_groups() -> None:
    truth = overlapping().memberships.toarray()
    pure = np.flatnonzero((truth > 0).sum(1) == 1)
    leaf = truth.argmax(1)
    method = fitted()
    middle = np.array(
        [method.centers_[pure[leaf[pure] == g]].mean(0) for g in range(_LEAVES)], dtype=np.float64
    )
    middle -= middle.mean(0)
    nearest = np.einsum("nkd,gd->nkg", method.aspects_, middle).argmax(2)
    assert np.take_along_axis(truth, nearest, axis=1).astype(bool).mean() > 0.95


def test_regulariser_keeps_the_aspects_of_a_node_apart() -> None:
    graph = overlapping().graph

    def alike(**settings: Any) -> float:
        q = Asp2Vec(dim=16, walks=3, warmup=3, **settings).fit(graph).aspects_
        q = q / np.linalg.norm(q, axis=2, keepdims=True)
        cosine = np.einsum("nkd,nld->nkl", q, q)[:, *np.triu_indices(5, 1)]
        return float((np.abs(cosine) > 0.55).mean())

    assert alike(regularizer=0.01) < 0.1 < alike(regularizer=0.0)


def test_own_scorer_beats_chance_and_can_be_exchanged(tmp_path: Path) -> None:
    method = fitted()
    edges = overlapping().graph.edge_list()
    others = np.random.default_rng(1).integers(360, size=edges.shape)
    assert np.median(method.score_links(edges)) > 0 > np.median(method.score_links(others))
    cosine = method.rescored({**method.get_params(), "scorer": "cosine"})
    assert cosine is not None
    assert np.abs(cosine.score_links(edges)).max() <= 1 + 1e-9
    assert method.rescored({**method.get_params(), "window": 5}) is None
    method.save(tmp_path / "kept")
    again = Asp2Vec.load(tmp_path / "kept")
    np.testing.assert_array_equal(again.aspects_, method.aspects_)
    np.testing.assert_array_equal(
        again.aspect_weights([0, 1], [[2, 3], [4, 5]]),
        method.aspect_weights([0, 1], [[2, 3], [4, 5]]),
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"aspects": 0}, "aspects must be a whole number of at least 1, got 0"),
        ({"warmup": -1}, "warmup must be"),
        ({"temperature": 0.0}, "temperature must be above 0"),
        ({"threshold": 2.0}, "threshold must lie between 0 and 1"),
        ({"scorer": "dot"}, "scorer must be products or cosine, got 'dot'"),
        ({"memory_gib": 0.01}, r"would need about 0\.\d+ GiB.*lower dim or aspects"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Asp2Vec(**settings).fit(overlapping().graph)


def test_graphs_too_small_for_negatives_are_served_and_edgeless_ones_refused() -> None:
    pair = build_graph(np.array([0]), np.array([1]), 2)
    assert np.isfinite(Asp2Vec(dim=4, walks=1, warmup=0).fit(pair).score_links([[0, 1]])).all()
    with pytest.raises(InputError, match="no edges to walk along"):
        Asp2Vec(dim=4).fit(build_graph(np.array([], int), np.array([], int), 3))
    with pytest.raises(InputError, match="contexts must be rows"):
        fitted().aspect_weights([0], [1, 2])
