"""The encoder in plain torch says what the model says, and can be exported and explained."""

import sys
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import graphham as gh
from graphham.errors import InputError
from graphham.graph.graph import Graph, build_graph
from graphham.graph.ids import NodeIds
from graphham.results.torch_encoder import EdgeNetwork

GRAPH = gh.planted_hierarchy((2, 2), num_nodes=60, seed=0).graph


def edge_index(graph: Graph) -> Tensor:
    targets = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    return torch.from_numpy(np.stack([graph.indices, targets]).astype(np.int64))


def features(graph: Graph) -> Tensor:
    x: Any = graph.features
    return torch.from_numpy(np.asarray(x.todense() if hasattr(x, "todense") else x))


def fitted(**settings: Any) -> gh.GraphHAM:
    more = {"settings": settings} if settings else {}
    return gh.GraphHAM(groups=(4, 2), dim=8, epochs=2, **more).fit(GRAPH)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"model.heads": 2, "model.residual": True},
        {"model.group_score": "none"},
        {"model.membership_input": "state", "model.group_score": "additive"},
        {"model.product": "literal"},
    ],
)
def test_the_module_says_what_transform_says(settings: dict[str, Any]) -> None:
    model = fitted(**settings)
    order = torch.randperm(GRAPH.num_stored, generator=torch.Generator().manual_seed(1))
    edges = edge_index(GRAPH)[:, order]
    module = model.to_torch()
    found = module(features(GRAPH), edges).detach().numpy()
    # Rows of tensors have no ids, so to the module they are new nodes.
    unknown = replace(GRAPH, ids=NodeIds([f"new {i}" for i in range(60)]))
    np.testing.assert_allclose(found, model.transform(unknown), atol=2e-5)


def test_a_directed_model_reads_along_its_links() -> None:
    half = GRAPH.edge_list()[::2]
    graph = build_graph(*half.T, 60, features=GRAPH.features, directed=True)
    model = gh.GraphHAM(groups=(4, 2), dim=8, epochs=1).fit(graph)
    found = model.to_torch()(features(graph), edge_index(graph)).detach().numpy()
    unknown = replace(graph, ids=NodeIds([f"new {i}" for i in range(60)]))
    np.testing.assert_allclose(found, model.transform(unknown), atol=2e-5)


def test_attention_sums_to_one_over_every_neighbourhood() -> None:
    module = fitted().to_torch()
    edges, weights = module.attention(features(GRAPH), edge_index(GRAPH))
    assert torch.equal(edges[:, : GRAPH.num_stored], edge_index(GRAPH))
    for alpha in weights:
        sums = torch.zeros(60, alpha.shape[1]).index_add(0, edges[1], alpha)
        torch.testing.assert_close(sums, torch.ones_like(sums))


def test_gradients_reach_the_parameters() -> None:
    module = fitted().to_torch()
    module(features(GRAPH), edge_index(GRAPH)).square().sum().backward()
    weight = module.network.layers[0].layer.weight
    assert weight.grad is not None
    module.zero_grad()
    target = torch.randn(60, 8, generator=torch.Generator().manual_seed(0))
    before = nn.functional.mse_loss(module(features(GRAPH), edge_index(GRAPH)), target)
    before.backward()
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.grad is not None:
                parameter -= 0.1 * parameter.grad
    after = nn.functional.mse_loss(module(features(GRAPH), edge_index(GRAPH)), target)
    assert after < before


def test_the_network_can_be_exported_for_any_number_of_nodes_and_links() -> None:
    module = fitted().to_torch()
    inputs = module.prepare(features(GRAPH), edge_index(GRAPH))
    nodes, links = torch.export.Dim("nodes", min=2), torch.export.Dim("links", min=2)
    shapes = ({0: nodes}, {1: links}, {0: nodes})
    assert isinstance(module.network, EdgeNetwork)
    exported = torch.export.export(module.network, inputs, dynamic_shapes=shapes)
    torch.testing.assert_close(exported.module()(*inputs), module.network(*inputs))
    other = gh.planted_hierarchy((2, 2), num_nodes=90, seed=1).graph
    again = module.prepare(features(other), edge_index(other))
    torch.testing.assert_close(exported.module()(*again), module.network(*again))


class FakePassing(nn.Module):
    """What MessagePassing does with the arguments used here."""

    def __init__(self, aggr: str, node_dim: int) -> None:
        super().__init__()
        assert (aggr, node_dim) == ("add", 0)
        self.heard: list[Tensor] = []

    def propagate(self, edge_index: Tensor, x: Tensor, alpha: Tensor) -> Tensor:
        self.heard.append(alpha)
        told = self.message(x_j=x[edge_index[0]], alpha=alpha)
        return torch.zeros_like(x).index_add(0, edge_index[1], told)


def test_messages_pass_through_pyg_under_the_name_its_explainers_look_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = ModuleType("torch_geometric.nn")
    fake.MessagePassing = FakePassing  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch_geometric.nn", fake)
    monkeypatch.setitem(sys.modules, "torch_geometric", ModuleType("torch_geometric"))
    model = fitted()
    plain, through = model.to_torch(), model.to_torch(pyg=True)
    x, edges = features(GRAPH), edge_index(GRAPH)
    torch.testing.assert_close(through(x, edges), plain(x, edges))
    passing = [m for m in through.modules() if isinstance(m, FakePassing)]
    assert len(passing) == 2
    torch.testing.assert_close(passing[0].heard[0], plain.attention(x, edges)[1][0])
    monkeypatch.setitem(sys.modules, "torch_geometric.nn", None)
    with pytest.raises(InputError, match="torch_geometric"):
        model.to_torch(pyg=True)


def test_edges_that_are_no_graph_are_refused() -> None:
    module = fitted().to_torch()
    edges = edge_index(GRAPH)
    with pytest.raises(InputError, match="both directions"):
        module(features(GRAPH), edges[:, edges[0] < edges[1]])
    with pytest.raises(InputError, match="shape"):
        module(features(GRAPH), edges.T)
    bare = gh.as_graph(GRAPH.edge_list())
    structural = gh.GraphHAM(groups=(4, 2), dim=8, epochs=1).fit(bare)
    found = structural.to_torch()(None, edge_index(bare)).detach().numpy()
    np.testing.assert_allclose(found, structural.embedding_, atol=2e-5)
