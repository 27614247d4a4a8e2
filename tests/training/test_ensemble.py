"""Second opinions on classes: who is heard, what it is worth, and that it survives saving."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from graphham.config.settings import make_config
from graphham.datasets.open_source import as_graph
from graphham.graph.graph import Graph, Labels
from graphham.graph.neighborhoods import Block
from graphham.methods.fitting import fit_graph
from graphham.model.inputs import NodeInputs
from graphham.results.encoder import Encoder
from graphham.training.ensemble import Ensemble, Member, View
from graphham.training.supervision import Truth


def two_sided(nodes: int = 400, seed: int = 0) -> tuple[Graph, Truth]:
    """Make a graph whose class is told by a node's own features, and by nothing around it."""
    draw = np.random.default_rng(seed)
    codes = draw.integers(2, size=nodes).astype(np.int32)
    x = draw.standard_normal((nodes, 8)).astype(np.float32)
    x[:, 0] += 4.0 * codes
    edges = draw.integers(nodes, size=(3 * nodes, 2))
    ones = np.ones(len(edges), dtype=np.float32)
    links = sp.coo_matrix((ones, (edges[:, 0], edges[:, 1])), shape=(nodes, nodes)).tocsr()
    links = links.maximum(links.T)
    links.setdiag(0)
    links.eliminate_zeros()
    labels = Labels((0, 1), codes=codes)
    return replace(as_graph(links), features=x, labels=labels), Truth.split(labels, 0, 0.3)


def learned(graph: Graph, truth: Truth, logits: torch.Tensor) -> tuple[Ensemble, NodeInputs, Block]:
    assert graph.features is not None
    inputs = NodeInputs(torch.from_numpy(np.asarray(graph.features)), torch.zeros(len(logits), 0))
    block = Block.full(graph)
    opinions = Ensemble.learn(inputs, block, truth, logits.shape[1], 0)
    return opinions.weighed(logits, inputs, block, truth), inputs, block


def test_a_right_opinion_outvotes_a_network_that_knows_nothing() -> None:
    graph, truth = two_sided()
    noise = torch.from_numpy(np.random.default_rng(1).standard_normal((400, 2))).float()
    opinions, inputs, block = learned(graph, truth, noise)
    network, own, around = opinions.weights.tolist()
    assert own > network
    assert own > around
    said = opinions.joined(noise, inputs, block).argmax(1)
    assert float((said == truth.targets).float().mean()) > 0.85


def test_a_network_that_knows_all_keeps_the_word() -> None:
    graph, truth = two_sided()
    sure = 2.0 * torch.nn.functional.one_hot(truth.targets, 2).float()
    opinions, inputs, block = learned(graph, truth, sure)
    said = opinions.joined(sure, inputs, block).argmax(1)
    assert float((said == truth.targets).float().mean()) > 0.98
    assert opinions.weights[0] > 1.0  # its weight only grows


def test_weights_are_never_negative() -> None:
    graph, truth = two_sided()
    wrong = -2.0 * torch.nn.functional.one_hot(truth.targets, 2).float()
    opinions, _, _ = learned(graph, truth, wrong)
    assert opinions.weights[0] == 0.0


def test_validation_labels_are_not_trained_on() -> None:
    graph, truth = two_sided()
    flat = torch.zeros(400, 2)
    opinions, _, _ = learned(graph, truth, flat)
    targets = truth.targets.clone()
    unseen = ~truth.training
    unseen[truth.validation] = False
    targets[unseen] = 1 - targets[unseen]
    again, _, _ = learned(graph, Truth(targets, truth.training, truth.validation), flat)
    for name, value in opinions.state().items():
        assert torch.equal(value, again.state()[name]), name


@pytest.mark.parametrize("is_on", [True, False])
def test_a_fit_saves_what_it_was_told(is_on: bool) -> None:
    graph, _ = two_sided(120)
    settings = {"task": "classify", "groups": (4, 2), "dim": 8, "train.epochs": 4}
    fitted = fit_graph(graph, make_config(settings, {"model.opinions": is_on}))
    state = fitted.state
    assert ("opinions.weights" in state) == is_on
    restored = Ensemble.from_state(state)
    assert (restored is not None) == is_on
    encoder = fitted.encoder
    again = Encoder(
        encoder.model, encoder.features, encoder.config, encoder.classes, False, restored
    ).read(graph, fitted.inputs)
    assert again.prediction is not None
    assert fitted.result.prediction is not None
    assert np.array_equal(again.prediction.codes, fitted.result.prediction.codes)
    assert np.array_equal(again.confidence, fitted.result.confidence)


def test_with_few_labels_two_more_opinions_look_far() -> None:
    """A ring of two halves with five labels each: only who looks over many links can tell."""
    nodes = 400
    draw = np.random.default_rng(0)
    codes = (np.arange(nodes) >= nodes // 2).astype(np.int64)
    x = draw.standard_normal((nodes, 6)).astype(np.float32)
    x[:, 0] += 0.6 * (2 * codes - 1)  # one node by itself says little
    near = np.arange(nodes)[:, None] + np.arange(1, 7)
    ends = np.stack([np.repeat(np.arange(nodes), 6), near.ravel() % nodes])
    links = sp.coo_matrix((np.ones(ends.shape[1], "f4"), ends), shape=(nodes, nodes)).tocsr()
    labels = Labels((0, 1), codes=codes)
    graph = replace(as_graph(links.maximum(links.T)), features=x, labels=labels)
    train = np.concatenate([np.arange(0, 200, 40), np.arange(200, 400, 40)])
    truth = Truth.split(labels, 0, 0.3, train, np.arange(3, nodes, 20))
    assert truth.is_few
    opinions, inputs, block = learned(graph, truth, torch.zeros(nodes, 2))
    expected = opinions.expected(inputs, block, False)
    assert expected is not None
    right = float((expected.argmax(1) == truth.targets).float().mean())
    said = opinions.member_logits(torch.zeros(nodes, 2), inputs, block).argmax(2)
    shares = [float((one == truth.targets).float().mean()) for one in said]
    assert right > 0.9
    assert right > shares[1] + 0.1  # own features alone
    assert len(opinions.weights) == 5
    assert max(shares[3:]) > 0.9
    again = Ensemble.from_state(opinions.state())
    assert again is not None
    assert torch.equal(
        again.joined(torch.zeros(nodes, 2), inputs, block),
        opinions.joined(torch.zeros(nodes, 2), inputs, block),
    )
    assert "far" not in learned(*two_sided(), torch.zeros(400, 2))[0].networks


def test_the_far_view_is_the_mean_of_symmetric_steps() -> None:
    graph, _ = two_sided(30)
    block = Block.full(graph)
    view = View(3, is_mixed=True, gain=0.5, hidden=4)
    network = Member(8, 2, view)
    network.reset_parameters(torch.Generator().manual_seed(0))
    a = np.zeros((30, 30))  # links of several weights, and each node's link to itself
    assert block.weights is not None
    np.add.at(a, (block.edge_targets, block.indices), block.weights)
    assert np.array_equal(a, a.T)
    assert len(np.unique(a)) > 2
    root = np.sqrt(a.sum(1))
    step = a / root[:, None] / root[None, :]
    x = np.asarray(graph.features) @ network.weight.detach().numpy()
    mean = sum(np.linalg.matrix_power(step, k) @ x for k in range(4)) / 4
    hidden = np.maximum(0.5 * mean, 0)
    wanted = hidden @ network.classifier.weight.detach().numpy().T
    inputs = NodeInputs(torch.from_numpy(np.asarray(graph.features)), torch.zeros(30, 0))
    found = network(inputs.rows(None), block, 0.0, None).detach().numpy()
    np.testing.assert_allclose(found, wanted, atol=1e-4)
