"""DeepMinCut: its loss against dense algebra and autograd, planted communities, empty ones."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from graphham.errors import InputError
from graphham.graph.graph import build_graph
from graphham.graph.planted import PlantedGraph, planted_hierarchy
from graphham.methods import DeepMinCut, DeepMinCutFeatures
from graphham.methods.deepmincut import cut_loss


@cache
def planted(seed: int = 0) -> PlantedGraph:
    return planted_hierarchy(
        (6,), num_nodes=300, mean_degree=14, edge_shares=(0.85, 0.15), seed=seed
    )


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("settings", [{}, {"noise": True}, {"features": True}])
def test_planted_communities_are_found(settings: dict[str, Any], seed: int) -> None:
    truth = planted(seed)
    method = DeepMinCut(dim=6, seed=seed, **settings).fit(truth.graph)
    assert method.levels_ is not None
    assert adjusted_rand_score(truth.levels[0], method.levels_[0]) >= 0.9
    np.testing.assert_allclose(method.assignments_.sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(method.assignments_.argmax(1), method.levels_[0])
    assert method.history_[-1]["cut"] < method.history_[0]["cut"] - 0.5


@given(seed=st.integers(0, 1000), nodes=st.integers(3, 10), groups=st.integers(2, 4))
def test_loss_and_gradient_equal_dense_algebra(seed: int, nodes: int, groups: int) -> None:
    draw = np.random.default_rng(seed)
    dense = np.triu(draw.random((nodes, nodes)), 1) + np.eye(nodes, k=1)
    dense = (dense + dense.T).astype(np.float32)
    logits = torch.tensor(draw.normal(size=(nodes, groups)), dtype=torch.float32)
    ours, wanted = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    loss, _ = cut_loss(ours.softmax(1), sp.csr_matrix(dense), 0.3)
    loss.backward()  # type: ignore[no-untyped-call]
    p = wanted.softmax(1)
    gamma = p.T @ torch.from_numpy(dense) @ p
    volume = gamma.sum(1)
    share = volume / volume.sum()
    cut = ((volume - gamma.diagonal()) / volume).sum().log()
    plain = cut + 0.3 * (np.log(groups) + (share * share.log()).sum())
    plain.backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(loss, plain, rtol=1e-4, atol=1e-5)
    assert ours.grad is not None
    torch.testing.assert_close(ours.grad, wanted.grad, rtol=1e-3, atol=1e-5)


def test_one_community_for_all_is_as_bad_as_no_structure() -> None:
    adjacency = planted().graph.adjacency().astype(np.float32)
    nodes = adjacency.shape[0]
    alone = torch.zeros(nodes, 4)
    alone[:, 0] = 1.0
    even = torch.full((nodes, 4), 0.25)
    assert float(cut_loss(alone, adjacency, 0.0)[0]) == pytest.approx(np.log(3), abs=1e-4)
    assert float(cut_loss(even, adjacency, 0.0)[0]) == pytest.approx(np.log(3), abs=1e-4)
    assert float(cut_loss(alone, adjacency, 1.0)[0]) == pytest.approx(
        np.log(3) + np.log(4), abs=1e-4
    )


def test_features_are_read_only_when_asked_for() -> None:
    graph = planted().graph
    bare = replace(graph, features=None)
    same = DeepMinCut(dim=6, steps=20)
    np.testing.assert_array_equal(
        same.fit(graph).embedding_, DeepMinCut(dim=6, steps=20).fit(bare).embedding_
    )
    assert DeepMinCutFeatures().features
    with pytest.raises(InputError, match="cannot place"):
        same.transform(replace(graph))


def test_features_place_nodes_never_seen(tmp_path: Path) -> None:
    truth = planted()
    seen = np.arange(240)
    edges = truth.graph.edge_list()
    inner = edges[(edges < 240).all(1)]
    features = truth.graph.features
    assert features is not None
    part = build_graph(inner[:, 0], inner[:, 1], 240, features=features[seen])
    method = DeepMinCutFeatures(dim=6, seed=1).fit(part)
    method.save(tmp_path / "kept")
    vectors = DeepMinCutFeatures.load(tmp_path / "kept").transform(truth.graph)
    found = vectors.argmax(1)
    assert adjusted_rand_score(truth.levels[0][240:], found[240:]) > 0.8
    np.testing.assert_array_equal(method.transform(truth.graph), vectors)


def test_nodes_without_edges_belong_evenly_to_all() -> None:
    graph = build_graph(np.array([0, 1, 2]), np.array([1, 2, 0]), 5)
    method = DeepMinCut(dim=2, steps=5).fit(graph)
    np.testing.assert_array_equal(method.assignments_[3:], 0.5)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"dim": 1}, "at least 2, got 1"),
        ({"steps": 0}, "steps must be"),
        ({"smoothing": -1}, "smoothing must be"),
        ({"temperature": 0.0}, "temperature and lr must be above 0"),
        ({"balance": -1.0}, "balance must not be negative"),
        ({"memory_gib": 1e-4}, r"would need about .* GiB of memory .* lower dim"),
        ({"memory_gib": 0}, "memory_gib must be above 0"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        DeepMinCut(**settings).fit(planted().graph)


def test_a_graph_without_edges_is_refused() -> None:
    with pytest.raises(InputError, match="no edges to cut"):
        DeepMinCut(dim=4).fit(build_graph(np.array([], int), np.array([], int), 3))
