"""GAT: its layer against the paper's formula, and which settings it refuses."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graphham.graph.graph import Graph
from graphham.graph.neighborhoods import Block
from graphham.methods.gat import GatLayer
from graphham.model.inputs import FeatureRows
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
