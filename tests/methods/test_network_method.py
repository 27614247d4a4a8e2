"""GAT and GraphSAGE layers against slow loops, and the training loop they share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graphham.errors import InputError
from graphham.graph.graph import Graph, build_graph
from graphham.graph.neighborhoods import Block
from graphham.graph.planted import planted_hierarchy
from graphham.methods.gat import GAT, GatLayer
from graphham.methods.network_training import Schedule, dropped, encode_all, train
from graphham.methods.sage import GraphSAGE, SageLayer, SageNet
from graphham.methods.scaled_features import fit_features
from graphham.model.inputs import FeatureRows
from graphham.sampling.keys import torch_generator
from graphham.training.supervision import Truth


@st.composite
def small_graphs(draw: st.DrawFn) -> Graph:
    """Graphs of a few nodes, isolated ones among them."""
    count = draw(st.integers(2, 8))
    pairs = draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))))
    ends = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    return build_graph(ends[:, 0], ends[:, 1], count)


def _filled(module: torch.nn.Module, seed: int) -> None:
    generator = torch_generator(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))


def slow_gat(layer: GatLayer, x: Tensor, graph: Graph) -> Tensor:
    """Follow the formula of the paper node by node and head by head."""
    out = []
    for i in range(graph.num_nodes):
        near = [i, *graph.neighbors(i).tolist()]
        heads = []
        for m in range(layer.heads):
            weight = layer.weight[:, m * layer.width : (m + 1) * layer.width]
            mapped = x @ weight
            scores = torch.stack(
                [
                    torch.nn.functional.leaky_relu(
                        layer.left[m] @ mapped[i] + layer.right[m] @ mapped[j], 0.2
                    )
                    for j in near
                ]
            )
            alpha = scores.softmax(0)
            heads.append(sum(a * mapped[j] for a, j in zip(alpha, near, strict=True)))
        row = torch.cat(heads) if layer.concat else torch.stack(heads).mean(0)
        if layer.around is not None:
            row = row + x[i] @ layer.around
        out.append(row + layer.bias)
    return torch.stack(out)


@given(graph=small_graphs(), concat=st.booleans(), residual=st.booleans(), seed=st.integers(0, 99))
def test_gat_layer_equals_the_slow_formula(
    graph: Graph, concat: bool, residual: bool, seed: int
) -> None:
    layer = GatLayer(5, 3, 4, concat, residual)
    _filled(layer, seed)
    x = torch.randn(graph.num_nodes, 5, generator=torch_generator(seed + 1))
    fast = layer(FeatureRows(dense=x), Block.full(graph, True))
    torch.testing.assert_close(fast, slow_gat(layer, x, graph), rtol=1e-4, atol=1e-5)


@given(graph=small_graphs(), seed=st.integers(0, 99))
def test_sage_layer_equals_the_slow_formula(graph: Graph, seed: int) -> None:
    layer = SageLayer(5, 7)
    _filled(layer, seed)
    x = torch.randn(graph.num_nodes, 5, generator=torch_generator(seed + 1))
    fast = layer(FeatureRows(dense=x), Block.full(graph, False))
    for i in range(graph.num_nodes):
        near = graph.neighbors(i).astype(np.int64)
        mean = x[near].mean(0) if len(near) else torch.zeros(5)
        own, other = x[i] @ layer.weight[:, :4], mean @ layer.weight[:, 4:]
        torch.testing.assert_close(fast[i], torch.cat([own, other]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [GraphSAGE, GAT])
@pytest.mark.parametrize("task", ["classify", "embed"])
def test_sampled_training_learns_like_the_full_graph(kind: type, task: str) -> None:
    graph = planted_hierarchy((2, 3), num_nodes=180, seed=3, word_on=0.15, word_off=0.02).graph
    method = kind(dim=16, epochs=8, lr=0.02, batch="sampled", batch_size=64, fanouts=(5, 5))
    method.fit(graph, task=task)
    assert method.trained_.batch == "sampled"
    assert method.history_[-1]["loss"] < method.history_[0]["loss"]
    same = kind(dim=16, epochs=8, lr=0.02, batch="sampled", batch_size=64, fanouts=(5, 5))
    np.testing.assert_array_equal(same.fit(graph, task=task).embedding_, method.embedding_)
    labels = graph.labels
    assert labels is not None
    if task == "classify":
        assert (method.class_scores_.argmax(1) == labels.codes).mean() > 0.7
    else:
        unit = method.embedding_ / np.linalg.norm(method.embedding_, axis=1, keepdims=True)
        same_leaf = labels.codes[:, None] == labels.codes[None]
        similar = unit @ unit.T
        assert similar[same_leaf].mean() > similar[~same_leaf].mean() + 0.2


def test_a_graph_too_large_for_memory_is_sampled() -> None:
    graph = planted_hierarchy((2, 3), num_nodes=120, seed=3).graph
    _, inputs = fit_features(graph)
    net = SageNet(inputs.num_features, 8, 0, 2, 0.0)
    done = train(net, graph, inputs, Schedule(epochs=1, memory_gib=1e-6), seed=0)
    assert done.batch == "sampled"
    with pytest.raises(InputError, match="batch must be auto, full or sampled, got 'half'"):
        train(net, graph, inputs, Schedule(epochs=1, batch="half"), seed=0)


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_training_ends_at_the_best_validated_state(average: float) -> None:
    graph = planted_hierarchy((2, 3), num_nodes=180, seed=3).graph
    assert graph.labels is not None
    _, inputs = fit_features(graph)
    truth = Truth.split(graph.labels, 0, 0.3)
    net = SageNet(inputs.num_features, 16, 6, 2, 0.5)
    schedule = Schedule(epochs=40, lr=0.05, average=average, patience=10, evaluate_every=1)
    done = train(net, graph, inputs, schedule, 0, truth)
    scores = [record["validation"] for record in done.history]
    assert done.validation == max(scores)
    assert scores[done.best_epoch - 1] == max(scores)
    assert len(scores) == min(40, done.best_epoch + 10)
    logits = net.classify(encode_all(net, graph, inputs)[truth.validation], None)
    accuracy = float((logits.argmax(1) == truth.targets[truth.validation]).float().mean())
    assert accuracy == pytest.approx(done.validation)


def test_the_average_of_weights_is_what_is_kept() -> None:
    graph = planted_hierarchy((2, 3), num_nodes=120, seed=3).graph
    _, inputs = fit_features(graph)
    states = []
    for epochs in (1, 2):
        net = SageNet(inputs.num_features, 8, 0, 1, 0.0)
        train(net, graph, inputs, Schedule(epochs=epochs), seed=0)
        states.append(net.layers[0].weight.detach())
    net = SageNet(inputs.num_features, 8, 0, 1, 0.0)
    train(net, graph, inputs, Schedule(epochs=2, average=0.75), seed=0)
    # Of two epochs the plain mean; later ones keep at most three quarters of the old.
    torch.testing.assert_close(net.layers[0].weight, (states[0] + states[1]) / 2)


def test_the_walk_loss_needs_an_edge() -> None:
    lonely = build_graph(np.array([0]), np.array([0]), 3)
    with pytest.raises(InputError, match="neither features nor edges"):
        GraphSAGE(dim=4, epochs=1).fit(lonely)
    with pytest.raises(InputError, match="no edges to learn from"):
        GraphSAGE(dim=4, epochs=1).fit(replace(lonely, features=np.eye(3, dtype=np.float32)))


def test_dropout_keeps_the_mean() -> None:
    x = torch.ones(4000)
    thin = dropped(x, 0.6, torch_generator(0))
    assert thin.unique().tolist() == pytest.approx([0.0, 2.5])
    assert float(thin.mean()) == pytest.approx(1.0, abs=0.1)
    assert dropped(x, 0.6, None) is x
