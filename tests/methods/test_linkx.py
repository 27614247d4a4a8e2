"""LINK and LINKX: rows of links, direction kept, and the network against its formula."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from graphham.errors import InputError
from graphham.graph.graph import Graph, Labels, build_graph
from graphham.graph.planted import planted_hierarchy
from graphham.methods.linkx import LINKX, LinkRegression, LinkxNet, adjacency_rows
from graphham.model.feature_rows import FeatureRows
from graphham.sampling.keys import torch_generator
from tests.methods.accuracy import held_out_accuracy
from tests.reference.networks import fill_parameters


def pointing(directed: bool) -> Graph:
    """Two classes of nodes that point at hubs of their own class and are pointed at by the others'.

    Without direction every node is linked to both classes' hubs alike.
    """
    draw = np.random.default_rng(0)
    codes = draw.permutation(np.arange(300) % 2).astype(np.int32)
    hubs = np.arange(300, 340)
    source, target = [], []
    for node, code in enumerate(codes):
        source += [node] * 6 + draw.choice(hubs[1 - code :: 2], 6).tolist()
        target += draw.choice(hubs[code::2], 6).tolist() + [node] * 6
    labels = Labels(("a", "b"), codes=np.append(codes, np.full(40, -1)).astype(np.int32))
    features = draw.normal(size=(340, 4)).astype(np.float32)
    return build_graph(
        np.array(source), np.array(target), 340, directed=directed, labels=labels, features=features
    )


def accuracy(method: LINKX | LinkRegression, graph: Graph) -> float:
    assert graph.labels is not None
    assert graph.labels.codes is not None
    rows = {"train_rows": np.arange(150), "validation_rows": np.arange(150, 180)}
    method.fit(graph, task="classify", **rows)
    assert method.class_scores_ is not None
    test = np.arange(180, 300)
    return float((method.class_scores_[test].argmax(1) == graph.labels.codes[test]).mean())


@pytest.mark.parametrize("method", [LinkRegression(dim=8), LINKX(dim=8, epochs=60)])
def test_direction_is_read_where_there_is_one(method: LINKX | LinkRegression) -> None:
    assert accuracy(method, pointing(True)) > 0.95
    assert accuracy(method, pointing(False)) < 0.7


def test_outgoing_rows_come_first() -> None:
    graph = build_graph(np.array([0, 2]), np.array([1, 1]), 3, directed=True)
    wanted = [[0, 1, 0, 0, 0, 0], [0, 0, 0, 1, 0, 1], [0, 1, 0, 0, 0, 0]]
    np.testing.assert_array_equal(adjacency_rows(graph).toarray(), wanted)
    plain = build_graph(np.array([0, 2]), np.array([1, 1]), 3)
    np.testing.assert_array_equal(adjacency_rows(plain).toarray(), plain.adjacency().toarray())


def test_the_network_is_the_published_one() -> None:
    graph = pointing(True)
    rows = adjacency_rows(graph)
    net = LinkxNet(4, 6, 2, rows, 0.5)
    fill_parameters(net, 1)
    x = torch.randn(340, 4, generator=torch_generator(2))
    near = torch.tensor(rows.toarray()) @ net.link_weight + net.link_bias
    own = x @ net.feature_weight + net.feature_bias
    joined = torch.relu(net.join(torch.cat([near, own], 1)) + near + own)
    found = net.encode(FeatureRows(dense=x), [], None)
    torch.testing.assert_close(found, torch.relu(net.hidden(joined)), rtol=1e-4, atol=1e-3)


def test_regression_on_rows_reads_no_features() -> None:
    graph = pointing(True)
    other = replace(graph, features=-np.asarray(graph.features))
    one, two = (LinkRegression(dim=8).fit(g, task="classify") for g in (graph, other))
    np.testing.assert_array_equal(one.class_scores_, two.class_scores_)


def test_refusals_say_what_to_do() -> None:
    graph = pointing(True)
    with pytest.raises(InputError, match="must be none or row, got 'tfidf'"):
        LinkRegression(scaling="tfidf").fit(graph, task="classify")
    empty = graph.without_edges(graph.edge_list())
    with pytest.raises(InputError, match="choose logreg"):
        LinkRegression().fit(empty, task="classify")
    with pytest.raises(InputError, match=r"linkx would need about .* lower dim"):
        LINKX(memory_gib=1e-6).fit(graph, task="classify")


def test_held_out_nodes_are_classified_by_whom_they_link_to() -> None:

    graph = planted_hierarchy(
        (2, 3), 300, mean_degree=30, edge_shares=(0.7, 0.2, 0.1), seed=2
    ).graph
    assert held_out_accuracy(LinkRegression(scaling="row", dim=8), graph) > 0.7
