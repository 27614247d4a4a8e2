"""The outline: directions found without labels, planes found with few."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import LogisticRegression

from graphham.datasets.open_source import as_graph
from graphham.graph.graph import Graph, Labels
from graphham.graph.neighborhoods import Block
from graphham.model.inputs import NodeInputs
from graphham.training.spectral_member import _STEPS, SpectralMember, _planes, mixed_averages
from graphham.training.supervision import Truth


def blobs(nodes: int = 300, noise: int = 200, seed: int = 0) -> tuple[Graph, NodeInputs]:
    """Make three communities whose features differ in two of very many directions."""
    draw = np.random.default_rng(seed)
    codes = draw.integers(3, size=nodes)
    centres = draw.standard_normal((3, noise)).astype(np.float32) * 0.25
    x = centres[codes] + draw.standard_normal((nodes, noise)).astype(np.float32)
    chance = np.where(codes[:, None] == codes[None, :], 0.08, 0.005)
    links = sp.csr_matrix(np.triu(draw.random((nodes, nodes)) < chance, 1).astype(np.float32))
    graph = replace(
        as_graph((links + links.T).tocsr()), features=x, labels=Labels((0, 1, 2), codes=codes)
    )
    return graph, NodeInputs(torch.from_numpy(x), torch.zeros(nodes, 0))


def dense_averages(block: Block, steps: int) -> np.ndarray:
    n = block.num_targets
    a = np.zeros((n, n))
    weights = np.ones(len(block.indices)) if block.weights is None else block.weights
    np.add.at(a, (block.edge_targets, block.indices), weights)
    root = np.sqrt(a.sum(1))
    step = a / root[:, None] / root[None, :]
    return np.mean([np.linalg.matrix_power(step, k) for k in range(steps + 1)], axis=0)


def test_directions_are_those_of_a_plain_decomposition() -> None:
    graph, inputs = blobs()
    block = Block.full(graph, True)
    truth = Truth.split(graph.labels, 0, 0.2)
    outline = SpectralMember.learn(inputs, block, truth, 3, 0)
    seen = dense_averages(block, _STEPS) @ np.asarray(graph.features, np.float64)
    _, _, right = np.linalg.svd(seen, full_matrices=False)
    found = outline.directions.numpy()
    np.testing.assert_allclose(found.T @ found, np.eye(found.shape[1]), atol=1e-4)
    overlap = np.linalg.norm(right[:4] @ found, axis=1)  # the leading ones lie in what was found
    np.testing.assert_allclose(overlap, 1.0, atol=1e-3)


def test_two_labels_a_class_suffice_where_regions_differ() -> None:
    graph, inputs = blobs()
    block = Block.full(graph, True)
    codes = np.asarray(graph.labels.codes)
    train = np.concatenate([np.flatnonzero(codes == k)[:2] for k in range(3)])
    rest = np.setdiff1d(np.arange(len(codes)), train)
    truth = Truth.split(graph.labels, 0, 0.2, train, rest[:30])
    said = SpectralMember.learn(inputs, block, truth, 3, 0)(inputs.rows(None), block, 0.0, None)
    right = said.argmax(1).numpy() == codes
    assert right[rest[30:]].mean() > 0.95
    # What all features say of a node, without its region, is hardly better than a guess.
    plain = LogisticRegression().fit(graph.features[train], codes[train])
    assert plain.score(graph.features[rest], codes[rest]) < 0.7


def test_directions_follow_links_that_have_a_direction() -> None:
    """The transpose of a one-way average is not the average itself."""
    a = sp.random(150, 150, 0.03, random_state=4, dtype=np.float32).tocsr()
    block = Block.full(as_graph(a, directed=True), True)
    # More features than directions are kept, a few of them much stronger than the rest.
    x = np.random.default_rng(3).standard_normal((150, 90)).astype(np.float32)
    x[:, :3] *= 20.0
    inputs = NodeInputs(torch.from_numpy(x), torch.zeros(150, 0))
    truth = Truth.split(Labels((0, 1), codes=np.arange(150) % 2), 0, 0.2)
    found = SpectralMember.learn(inputs, block, truth, 2, 0).directions.numpy()
    whole = mixed_averages(torch.from_numpy(x), block, _STEPS).numpy()
    assert found.shape == (90, 64)
    _, _, right = np.linalg.svd(whole, full_matrices=False)
    # Products with the forward average in place of its transpose would turn the leading ones.
    aligned = np.abs(np.sum(found[:, :3].T * right[:3], axis=1))
    np.testing.assert_allclose(aligned, 1.0, atol=1e-3)


@pytest.mark.parametrize("trust", [0.1, 10.0])
def test_planes_are_those_of_logistic_regression(trust: float) -> None:
    draw = np.random.default_rng(1)
    x, y = draw.standard_normal((60, 5)), draw.integers(3, size=60)
    weight, bias = _planes(torch.from_numpy(x), torch.from_numpy(y), 3, trust)
    peer = LogisticRegression(C=trust, tol=1e-10, max_iter=5000).fit(x, y)
    np.testing.assert_allclose(weight.numpy().T, peer.coef_, atol=1e-4)
    moved = bias.numpy() - peer.intercept_  # all offsets may move together
    np.testing.assert_allclose(moved, moved.mean(), atol=1e-4)


def test_several_labels_and_no_validation_work() -> None:
    graph, inputs = blobs()
    codes = np.asarray(graph.labels.codes)
    matrix = sp.csr_matrix(np.stack([codes != 0, codes != 2], 1).astype(np.int8))
    truth = Truth.split(Labels(("a", "b"), matrix=matrix), 0, 0.0)
    assert not len(truth.validation)
    block = Block.full(graph, True)
    said = SpectralMember.learn(inputs, block, truth, 2, 0)(inputs.rows(None), block, 0.0, None)
    assert float(((said > 0).numpy() == matrix.toarray()).mean()) > 0.9
