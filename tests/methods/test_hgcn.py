"""H-GCN: the network against dense matrices, and what it learns."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from graphham.errors import InputError
from graphham.evaluate.hierarchy_scores import method_hierarchy
from graphham.graph.planted import planted_hierarchy
from graphham.methods.coarsening import assignment, coarsen
from graphham.methods.hgcn import HGCN, HgcnNet, step_bytes
from graphham.model.feature_rows import FeatureRows
from graphham.sampling.keys import torch_generator


def dense_scores(net: HgcnNet, x: torch.Tensor, graphs: list, parents: list, weights: list):
    """Follow the description with dense matrices, layer by layer."""

    def hat(adjacency):
        full = torch.tensor(adjacency.toarray(), dtype=torch.float32)
        full += torch.eye(len(full))
        root = full.sum(1).rsqrt()
        return root[:, None] * full * root

    a = [hat(g) for g in graphs]
    c = [
        torch.tensor(assignment(p, int(p.max()) + 1).toarray(), dtype=torch.float32)
        for p in parents
    ]
    w = [torch.einsum("c,cio->io", layer.share, layer.weight) for layer in net.layers]
    own = [net.table[torch.tensor(np.minimum(v, 50) - 1)] for v in weights]
    first = torch.relu(a[0] @ x @ w[0])
    second_in = (c[0] / c[0].norm(dim=0)).T @ first
    second = torch.relu(a[1] @ torch.cat([second_in, own[1]], 1) @ w[1])
    third_in = (c[1] / c[1].norm(dim=0)).T @ second
    third = torch.relu(a[2] @ torch.cat([third_in, own[2]], 1) @ w[2])
    fourth_in = c[1] @ third + second
    fourth = torch.relu(a[1] @ torch.cat([fourth_in, own[1]], 1) @ w[3])
    return a[0] @ (c[0] @ fourth + first) @ net.classifier.weight.T + net.classifier.bias


def test_the_network_is_the_described_one() -> None:
    graph = planted_hierarchy((2, 2), 60, mean_degree=5, seed=1).graph
    coarsening = coarsen(graph, 2)
    net = HgcnNet(7, 6, 3, coarsening, 4, 5, 0.5)
    net.reset_parameters(torch_generator(0))
    x = torch.randn(60, 7, generator=torch_generator(1))
    found = net.classify(net.encode(FeatureRows(dense=x), [], None), None)
    parts = (coarsening.graphs, coarsening.parents, coarsening.weights)
    torch.testing.assert_close(found, dense_scores(net, x, *parts), rtol=1e-4, atol=1e-5)


def test_planted_classes_are_learned_from_few_labels() -> None:
    made = planted_hierarchy((2, 3), 300, mean_degree=10, word_on=0.15, seed=2)
    graph, codes = made.graph, made.graph.labels.codes
    order = np.random.default_rng(0).permutation(300)
    method = HGCN(epochs=80, seed=1)
    method.fit(graph, task="classify", train_rows=order[:60], validation_rows=order[60:110])
    test = order[110:]
    assert (method.class_scores_[test].argmax(1) == codes[test]).mean() > 0.85
    assert 2 <= len(method.levels_) <= 4
    sizes = [int(level.max()) + 1 for level in method.levels_]
    assert sizes == sorted(sizes, reverse=True)
    for fine, coarse in pairwise(method.levels_):
        # Nested: members of one fine group are never torn apart later.
        assert len(np.unique(np.stack([fine, coarse]), axis=1).T) == fine.max() + 1
    # Neighbours merge, so groups are mostly of one class.
    fine = method.levels_[0]
    same = [np.bincount(codes[fine == g]).max() for g in range(sizes[0])]
    assert sum(same) / 300 > 0.8


def test_a_level_of_thousands_of_groups_is_no_level_of_the_result(tmp_path: Path) -> None:
    graph = planted_hierarchy((2, 3), 2400, mean_degree=4, seed=3).graph
    method = HGCN(epochs=1, seed=0).fit(graph, task="classify")
    sizes = method.coarsening_.sizes
    assert sizes[1] > 1000
    assert method.levels_ is not None
    counts = [int(level.max()) + 1 for level in method.levels_]
    assert counts == [size for size in sizes[1:] if size <= 1000]
    scores, _ = method_hierarchy(method, graph.labels, None)
    assert scores["groups_1"] == counts[0]
    method.write_outputs(tmp_path)
    assert json.loads((tmp_path / "coarsening.json").read_text())["nodes"] == sizes


def test_no_level_at_all_is_a_plain_convolution_network() -> None:
    graph = planted_hierarchy((2, 2), 120, seed=3).graph
    method = HGCN(levels=0, epochs=3).fit(graph, task="classify")
    assert method.levels_ is None
    assert np.isfinite(method.class_scores_).all()


def test_what_does_not_fit_is_refused_with_a_reason() -> None:
    graph = planted_hierarchy((2, 2), 120, seed=3).graph
    with pytest.raises(InputError, match=r"hgcn would need about .* lower dim or levels"):
        HGCN(memory_gib=1e-5).fit(graph, task="classify")
    with pytest.raises(InputError, match="cannot embed"):
        HGCN().fit(graph, task="embed")
    with pytest.raises(InputError, match="max_weight at least 1, got 4 and 0"):
        HGCN(max_weight=0).fit(graph, task="classify")
    with pytest.raises(InputError, match="channels"):
        HGCN(channels=0).fit(graph, task="classify")
    coarsening = coarsen(graph)
    assert step_bytes(coarsening, 64) > step_bytes(coarsening, 32)
