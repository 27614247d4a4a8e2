"""H2GCN: exact two-step neighbours, the network against dense matrices, and heterophily."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given

from graphham.errors import InputError
from graphham.graph.graph import Graph, Labels, build_graph
from graphham.methods.gcn import GCN
from graphham.methods.h2gcn import H2GCN, H2gcnNet, Steps, two_steps
from graphham.model.feature_rows import FeatureRows
from graphham.sampling.keys import torch_generator
from tests.methods.accuracy import held_out_accuracy
from tests.reference.networks import fill_parameters
from tests.reference.strategies import small_graphs


def slow_two_steps(graph: Graph) -> np.ndarray:
    found = np.zeros((graph.num_nodes, graph.num_nodes))
    for i in range(graph.num_nodes):
        near = set(graph.neighbors(i).tolist())
        for j in near:
            for k in graph.neighbors(j).tolist():
                if k != i and k not in near:
                    found[i, k] = 1
    return found


@given(graph=small_graphs())
def test_two_steps_leave_out_neighbours_and_the_node_itself(graph: Graph) -> None:
    found = two_steps(graph.adjacency().astype(np.float32)).toarray()
    np.testing.assert_array_equal(found, slow_two_steps(graph))


@given(graph=small_graphs())
def test_the_network_is_the_published_one(graph: Graph) -> None:
    net = H2gcnNet(5, 4, 3, Steps(graph), 2, 0.5)
    fill_parameters(net, 0)
    x = torch.randn(graph.num_nodes, 5, generator=torch_generator(1))

    def hat(a: np.ndarray) -> torch.Tensor:
        full = torch.tensor(a, dtype=torch.float32)
        root = full.sum(1).clamp_min(1).rsqrt()
        return root[:, None] * full * root

    one, two = hat(graph.adjacency().toarray()), hat(slow_two_steps(graph))
    first = torch.relu(x @ net.weight)
    second = torch.cat([one @ first, two @ first], 1)
    third = torch.cat([one @ second, two @ second], 1)
    found = net.encode(FeatureRows(dense=x), [], None)
    torch.testing.assert_close(found, torch.cat([first, second, third], 1), rtol=1e-4, atol=1e-4)


def test_unlike_neighbours_are_no_harm_where_gcn_is_lost() -> None:
    draw = np.random.default_rng(0)
    codes = draw.permutation(np.arange(600) % 3).astype(np.int32)
    source = np.repeat(np.arange(600), 4)
    # Neighbours of a node are of the other two classes, which of them says nothing.
    pools = [np.flatnonzero(codes != c) for c in range(3)]
    target = np.concatenate([draw.choice(pools[c], 4) for c in codes])
    features = np.eye(3, 12)[codes] + 0.5 * draw.normal(size=(600, 12))
    graph = build_graph(
        source,
        target,
        600,
        features=features.astype(np.float32),
        labels=Labels(("a", "b", "c"), codes=codes),
    )
    ours = held_out_accuracy(H2GCN(dim=16, epochs=80), graph)
    assert ours > held_out_accuracy(GCN(epochs=80), graph) + 0.05


def test_hubs_are_refused_before_their_two_step_graph_is_made() -> None:
    star = build_graph(
        np.zeros(999, dtype=np.int64),
        np.arange(1, 1000),
        1000,
        labels=Labels(("a", "b"), codes=(np.arange(1000) % 2).astype(np.int32)),
    )
    with pytest.raises(InputError, match=r"h2gcn would need about .* choose graphsage"):
        H2GCN(memory_gib=0.02).fit(star, task="classify")
