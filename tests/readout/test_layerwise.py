"""The read-out in spans says what one pass over the whole graph says."""

import numpy as np
import pytest
import torch

from graphham.graph.graph import build_graph
from graphham.methods.fitting import fit_graph
from graphham.readout.layerwise import LayerWise
from graphham.readout.whole_graph import full_batch
from graphham.results.scores import show_paths
from tests.reference.graphs import planted, relinked, small_config, with_features

GRAPH = planted().graph


def weighted(graph):
    edges = graph.edge_list()
    weights = np.random.default_rng(0).uniform(0.1, 5, len(edges))
    return build_graph(
        edges[:, 0], edges[:, 1], graph.num_nodes, weights=weights, features=graph.features
    )


CASES = {
    "default": (GRAPH, {}),
    "three heads": (GRAPH, {"model.heads": 3}),
    "paper": (GRAPH, {"preset": "paper", "loss.walks": 2}),
    "paper, three heads": (
        relinked(GRAPH, extra=5),
        {"preset": "paper", "loss.walks": 2, "model.heads": 3, "model.self_edge": False},
    ),
    "directed": (relinked(GRAPH, directed=True), {}),
    "isolated, no self edge": (relinked(GRAPH, extra=5), {"model.self_edge": False}),
    "literal product": (GRAPH, {"model.product": "literal", "model.heads": 2}),
    "no group attention": (GRAPH, {"model.group_score": "none"}),
    "residual": (GRAPH, {"model.residual": True}),
    "dense": (with_features(GRAPH, GRAPH.features.toarray().astype(np.float16)), {}),
    "weighted": (weighted(GRAPH), {}),
    "three levels": (GRAPH, {"groups": (9, 5, 2), "dim": 24}),
}


@pytest.mark.parametrize("case", CASES)
def test_spans_say_what_the_whole_graph_says(case):
    graph, settings = CASES[case]
    fitted = fit_graph(graph, small_config(settings))
    model = fitted.encoder.model
    batch = full_batch(model, fitted.inputs, graph)
    if not settings or model.settings.product == "literal":
        assert model.layer(0).likeness[0]  # so that the cases below say something about it
        assert batch.memberships.shape[1] > sum(model.groups)
    with torch.no_grad():
        output = model(batch)
    whole = LayerWise(model, fitted.inputs, graph, span=50)
    reading = whole.read()
    np.testing.assert_allclose(reading.states, torch.cat(output.states, 1), atol=1e-6)
    for found, expected in zip(reading.memberships, output.memberships, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(fitted.result.embedding, model.embedding(output), atol=1e-6)
    # What is shown follows the path where the levels disagree about a node.
    mixtures = fitted.encoder._mixtures(graph, fitted.inputs)
    levels = output.memberships if mixtures is None else mixtures.memberships
    shown = [np.asarray(level).astype(np.float32) for level in levels]
    show_paths(shown, fitted.result.parents, sums=model.has_block_groups)
    for actual, expected in zip(fitted.result.memberships, shown, strict=True):
        np.testing.assert_allclose(actual, expected, atol=2e-6)
    # The other loop over the same edges.
    whole._is_plain = lambda *_: False
    slow = whole.read()
    np.testing.assert_allclose(slow.states, reading.states, atol=1e-6)
    for one, other in zip(slow.gaps, reading.gaps, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
