"""GCN and the convolution it shares: against dense matrices, and what it learns."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.graph.graph import Graph, build_graph
from graphham.graph.neighborhoods import Block
from graphham.graph.planted import planted_hierarchy
from graphham.methods.gcn import GCN, GcnNet
from graphham.methods.network_training import Schedule, _NetworkLoop, _Steps
from graphham.methods.propagation import convolution_weights, convolve
from graphham.methods.scaled_features import fit_features
from graphham.model.feature_rows import FeatureRows
from graphham.sampling.keys import torch_generator
from graphham.training.supervision import Truth
from tests.methods.accuracy import held_out_accuracy
from tests.reference.networks import fill_parameters
from tests.reference.strategies import small_graphs


def dense_convolution(graph: Graph) -> torch.Tensor:
    """D^-1/2 (A + I) D^-1/2 as a dense matrix."""
    full = torch.tensor(graph.adjacency().toarray(), dtype=torch.float32)
    full += torch.eye(graph.num_nodes)
    root = full.sum(1).rsqrt()
    return root[:, None] * full * root


@given(graph=small_graphs(), layers=st.integers(2, 3), seed=st.integers(0, 99))
def test_the_network_is_the_published_one(graph: Graph, layers: int, seed: int) -> None:
    net = GcnNet(5, 4, 3, layers, 0.5)
    fill_parameters(net, seed)
    x = torch.randn(graph.num_nodes, 5, generator=torch_generator(seed + 1))
    vectors = net.encode(FeatureRows(dense=x), [Block.full(graph, True)], None)
    hat, state = dense_convolution(graph), x
    for weight in net.weights:
        state = torch.relu(hat @ state @ weight)
    assert net.classifier is not None
    scores = hat @ state @ net.classifier.weight.T + net.classifier.bias
    torch.testing.assert_close(net.classify(vectors, None), scores, rtol=1e-4, atol=1e-4)


def test_weights_count_and_directed_graphs_are_read_row_by_row() -> None:
    graph = build_graph(
        np.array([0, 0, 1]),
        np.array([1, 2, 2]),
        3,
        weights=np.array([3.0, 1.0, 2.0]),
        directed=True,
    )
    block = Block.full(graph, False)
    found = convolve(convolution_weights(block), torch.eye(3), block)
    # Rows sum to 4, 2 and 0; the last is taken for 1.
    wanted = np.array([[0, 3 / 8**0.5, 1 / 4**0.5], [0, 0, 2 / 2**0.5], [0, 0, 0]])
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)


def test_the_penalty_falls_on_the_first_matrix_only() -> None:
    graph = planted_hierarchy((2, 3), num_nodes=90, seed=3).graph
    assert graph.labels is not None
    inputs = fit_features(graph, "row")[1]
    net = GcnNet(inputs.num_features, 4, 6, 2, 0.5)
    truth = Truth.split(graph.labels, 0, 0.1, None, None)
    loop = _NetworkLoop(net, _Steps(net, graph, inputs, Schedule(), 0, truth), None)
    groups = loop.optimizer.param_groups
    decays = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    assert decays.pop(id(net.weights[0])) == Schedule().weight_decay
    assert set(decays) == {id(p) for p in net.parameters()} - {id(net.weights[0])}
    assert set(decays.values()) == {0.0}


def test_planted_classes_are_learned() -> None:
    graph = planted_hierarchy((2, 3), 600, mean_degree=10, word_on=0.15, seed=2).graph
    assert held_out_accuracy(GCN(seed=1, epochs=100), graph) > 0.85


def test_one_layer_is_refused() -> None:
    graph = planted_hierarchy((2, 3), num_nodes=90, seed=3).graph
    with pytest.raises(InputError, match="layers must be at least 2, got 1"):
        GCN(layers=1).fit(graph, task="classify")
