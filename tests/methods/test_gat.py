"""GAT: its layer against the paper's formula, and which settings it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.graph.neighborhoods import Block
from graphham.graph.planted import planted_hierarchy
from graphham.methods.gat import GAT, GatLayer, GatNet
from graphham.methods.network_training import encode_all
from graphham.methods.scaled_features import fit_features
from graphham.model.feature_rows import FeatureRows
from graphham.sampling.keys import torch_generator
from tests.reference.networks import fill_parameters
from tests.reference.strategies import small_graphs


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
    fill_parameters(layer, seed)
    x = torch.randn(graph.num_nodes, 5, generator=torch_generator(seed + 1))
    fast = layer(FeatureRows(dense=x), Block.full(graph, True))
    torch.testing.assert_close(fast, slow_gat(layer, x, graph), rtol=1e-4, atol=1e-5)


def test_sparse_and_dense_inputs_are_read_alike() -> None:
    graph = planted_hierarchy((2, 3), num_nodes=90, seed=3).graph
    filled = replace(graph, features=graph.features.toarray())
    net = GatNet(graph.features.shape[1], 8, 0, 2, 4, 2, 0.0, 0.0, True)
    fill_parameters(net, 5)
    one, other = (encode_all(net, g, fit_features(g, "none")[1]) for g in (graph, filled))
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_attention_dropout_keeps_the_mean_and_nothing_without_a_generator() -> None:
    graph = planted_hierarchy((2, 3), num_nodes=90, seed=3).graph
    layer = GatLayer(5, 2, 3, True)
    fill_parameters(layer, 0)
    x = FeatureRows(dense=torch.randn(90, 5, generator=torch_generator(1)))
    block = Block.full(graph, True)
    with torch.no_grad():
        whole = layer(x, block)
        torch.testing.assert_close(layer(x, block, 0.5), whole)
        drawn = torch.stack([layer(x, block, 0.5, torch_generator(s)) for s in range(400)])
    assert not torch.equal(drawn[0], drawn[1])
    error = (drawn.mean(0) - whole).abs() / drawn.std(0).clamp_min(1e-3)
    assert float(error.mean()) < 0.1  # about 0.04 for a mean of 400


@pytest.mark.parametrize("name", ["layers", "heads", "out_heads"])
def test_a_network_of_nothing_is_refused(name: str) -> None:
    graph = planted_hierarchy((2, 3), num_nodes=90, seed=3).graph
    with pytest.raises(InputError, match=f"{name} must be a whole number of at least 1, got 0"):
        GAT(dim=4, epochs=1, **{name: 0}).fit(graph)
