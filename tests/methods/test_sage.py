"""GraphSAGE: its layer against the paper's formula, and how its layers are stacked."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphham.graph.graph import Graph
from graphham.graph.neighborhoods import Block
from graphham.methods.sage import SageLayer
from graphham.model.inputs import FeatureRows
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
