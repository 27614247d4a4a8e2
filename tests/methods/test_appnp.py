"""APPNP: the network against dense matrices, and which settings it refuses."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.graph.neighborhoods import Block
from graphham.graph.planted import planted_hierarchy
from graphham.methods.appnp import APPNP, AppnpNet
from graphham.model.feature_rows import FeatureRows
from graphham.sampling.keys import torch_generator
from tests.methods.accuracy import held_out_accuracy
from tests.methods.test_gcn import dense_convolution
from tests.reference.networks import fill_parameters
from tests.reference.strategies import small_graphs


@given(graph=small_graphs(), steps=st.integers(1, 4), seed=st.integers(0, 99))
def test_the_network_is_the_published_one(graph: Graph, steps: int, seed: int) -> None:
    net = AppnpNet(5, 4, 3, steps, 0.2, 0.5)
    fill_parameters(net, seed)
    x = torch.randn(graph.num_nodes, 5, generator=torch_generator(seed + 1))
    found = net.encode(FeatureRows(dense=x), [Block.full(graph, True)], None)
    hat = dense_convolution(graph)
    own = torch.relu(x @ net.first) @ net.last
    state = own
    for _ in range(steps):
        state = 0.8 * hat @ state + 0.2 * own
    torch.testing.assert_close(found, state, rtol=1e-4, atol=1e-4)


def test_dropout_falls_on_the_convolution_anew_in_each_step() -> None:
    graph = planted_hierarchy((2, 3), num_nodes=90, seed=3).graph
    block, own = Block.full(graph, True), torch.ones(90, 1)
    net = AppnpNet(5, 4, 3, 2, 0.2, 0.5)
    whole = net.spread(own, block, None)
    drawn = torch.stack([net.spread(own, block, torch_generator(s)) for s in range(400)])
    # Equal draws in both steps would square the scale of the entries kept: a higher mean.
    error = (drawn.mean(0) - whole).abs() / whole
    assert float(error.mean()) < 0.05
    assert not torch.equal(drawn[0], drawn[1])


def test_planted_classes_are_learned_and_the_penalty_is_on_the_first_matrix() -> None:
    graph = planted_hierarchy((2, 3), 600, mean_degree=10, word_on=0.15, seed=2).graph
    method = APPNP(seed=1, epochs=100)
    assert held_out_accuracy(method, graph) > 0.85
    assert [p.shape for p in method._net.decayed()] == [(graph.num_features, 64)]


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [("alpha", 0.0, "alpha must lie above 0"), ("steps", 0, "steps must be a whole number")],
)
def test_settings_that_spread_nothing_are_refused(setting: str, value: float, said: str) -> None:
    graph = planted_hierarchy((2, 3), num_nodes=90, seed=3).graph
    with pytest.raises(InputError, match=said):
        APPNP(**{setting: value}).fit(graph, task="classify")
