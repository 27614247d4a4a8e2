"""GraphSAGE: its layer against the paper's formula, and how its layers are stacked."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.graph.neighborhoods import Block
from graphham.graph.planted import planted_hierarchy
from graphham.methods.sage import GraphSAGE, SageLayer, SageNet
from graphham.model.feature_rows import FeatureRows
from graphham.sampling.keys import torch_generator
from tests.reference.networks import fill_parameters
from tests.reference.strategies import small_graphs


@given(graph=small_graphs(), seed=st.integers(0, 99))
def test_sage_layer_equals_the_slow_formula(graph: Graph, seed: int) -> None:
    layer = SageLayer(5, 7)
    fill_parameters(layer, seed)
    x = torch.randn(graph.num_nodes, 5, generator=torch_generator(seed + 1))
    fast = layer(FeatureRows(dense=x), Block.full(graph, False))
    for i in range(graph.num_nodes):
        near = graph.neighbors(i).astype(np.int64)
        mean = x[near].mean(0) if len(near) else torch.zeros(5)
        own, other = x[i] @ layer.weight[:, :4], mean @ layer.weight[:, 4:]
        torch.testing.assert_close(fast[i], torch.cat([own, other]), rtol=1e-4, atol=1e-5)


def test_layers_are_stacked_with_a_kink_between_them_and_none_after() -> None:
    graph = planted_hierarchy((2, 3), num_nodes=90, seed=3).graph
    net = SageNet(5, 6, 4, 2, 0.5)
    fill_parameters(net, 2)
    x = FeatureRows(dense=torch.randn(90, 5, generator=torch_generator(1)))
    block = Block.full(graph, False)
    first, second = net.layers
    with torch.no_grad():
        vectors = net.encode(x, [block, block], None)
        torch.testing.assert_close(vectors, second(torch.relu(first(x, block)), block))
        assert (vectors < 0).any()
        logits = torch.relu(vectors) @ net.classifier.weight.T + net.classifier.bias
        torch.testing.assert_close(net.classify(vectors, None), logits)


def test_a_network_without_layers_is_refused() -> None:
    graph = planted_hierarchy((2, 3), num_nodes=90, seed=3).graph
    with pytest.raises(InputError, match="layers must be a whole number of at least 1, got 0"):
        GraphSAGE(dim=4, epochs=1, layers=0).fit(graph)
