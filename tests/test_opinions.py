"""Second opinions on classes: who is heard, what it is worth, and that it survives saving."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from graphham.adapters import as_graph
from graphham.blocks import Block
from graphham.config import make_config
from graphham.fitting import fit_graph
from graphham.graph import Graph, Labels
from graphham.inference import Encoder
from graphham.inputs import NodeInputs
from graphham.objective import Truth
from graphham.opinions import Opinions


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


def learned(graph: Graph, truth: Truth, logits: torch.Tensor) -> tuple[Opinions, NodeInputs, Block]:
    assert graph.features is not None
    inputs = NodeInputs(torch.from_numpy(np.asarray(graph.features)), torch.zeros(len(logits), 0))
    block = Block.full(graph)
    return Opinions.learn(logits, inputs, block, truth, 0), inputs, block


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
    restored = Opinions.from_state(state)
    assert (restored is not None) == is_on
    encoder = fitted.encoder
    again = Encoder(
        encoder.model, encoder.features, encoder.config, encoder.classes, False, restored
    ).read(graph, fitted.inputs)
    assert again.prediction is not None
    assert fitted.result.prediction is not None
    assert np.array_equal(again.prediction.codes, fitted.result.prediction.codes)
    assert np.array_equal(again.confidence, fitted.result.confidence)
