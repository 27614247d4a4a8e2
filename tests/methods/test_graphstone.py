"""GraphSTONE: roles told apart by topics, and the network against its formulas."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from graphham.errors import InputError
from graphham.graph.graph import Graph, build_graph
from graphham.graph.neighborhoods import Block
from graphham.graph.planted import planted_hierarchy
from graphham.methods.graphstone import GraphSTONE, TopicNet
from graphham.methods.registry import load_method
from graphham.model.feature_rows import FeatureRows
from graphham.sampling.keys import torch_generator
from tests.reference.graphs import BRIDGE, CLIQUE, barbell


def quick(**settings) -> GraphSTONE:
    return GraphSTONE(**{"dim": 16, "epochs": 5, "hidden": 16, **settings})


@pytest.mark.parametrize("seed", [0, 1])
def test_topics_tell_bridges_from_cliques(seed: int) -> None:
    graph, on_path = barbell()
    method = quick(seed=seed, epochs=1).fit(graph)
    assert method.topics_.shape == (graph.num_nodes, 5)
    np.testing.assert_allclose(method.topics_.sum(1), 1, rtol=1e-5)
    # The nodes next to a joint see both sides; all others must fall into place by topics alone.
    clear = np.r_[0 : CLIQUE - 1, CLIQUE + 2 : CLIQUE + BRIDGE - 2, -CLIQUE + 1 : 0]
    with threadpool_limits(1):
        found = KMeans(2, n_init=5, random_state=0).fit_predict(method.topics_[clear])
    assert adjusted_rand_score(on_path[clear], found) > 0.95


def test_topic_words_can_be_read() -> None:
    graph, on_path = barbell()
    method = quick(topics=2, walks=200, epochs=1).fit(graph)
    bridge = method.topics_[on_path == 1].mean(0).argmax()

    def turning_back(words: list[tuple[str, float]]) -> float:
        """Return the mean number of steps that return to the node before the last one."""
        total = 0.0
        for text, chance in words:
            places = text.split("-")
            total += chance * sum(a == b for a, b in zip(places, places[2:], strict=False))
        return total / sum(chance for _, chance in words)

    # On a path every other step turns back; in a clique of twelve one in eleven does.
    assert turning_back(method.topic_words_[bridge]) > 1.5 * turning_back(
        method.topic_words_[1 - bridge]
    )


def slow_vectors(net: TopicNet, x: torch.Tensor, graph: Graph) -> torch.Tensor:
    """Follow the formulas node by node."""
    states = [x, net.inputs]
    for number in range(net.num_layers):
        after = []
        for state, stack in zip(states, (net.words, net.roles), strict=True):
            layer = stack[number]
            own, near = layer.weight.split(layer.out_dim, dim=1)
            rows = []
            for i in range(graph.num_nodes):
                row = state[i] @ own
                neighbours = graph.neighbors(i).tolist()
                alike = [float(net.shares[i] @ net.shares[j]) for j in neighbours]
                for weight, j in zip(alike, neighbours, strict=True):
                    row = row + weight / sum(alike) * (state[j] @ near)
                rows.append(row)
            after.append(torch.stack(rows))
        states = after if number == net.num_layers - 1 else [torch.relu(s) for s in after]
    return torch.tanh(torch.cat(states, 1)) @ net.combine.weight.T + net.combine.bias


def test_neighbours_count_by_shared_topics() -> None:
    graph, _ = barbell()
    net = TopicNet(6, 4, 10, 7, 2, 0.5, is_released=False)
    net.reset_parameters(torch_generator(0))
    rng = np.random.default_rng(0)
    shares = rng.dirichlet([0.3] * 3, graph.num_nodes).astype(np.float32)
    net.know(shares, rng.random((graph.num_nodes, 4), dtype=np.float32))
    x = torch.randn(graph.num_nodes, 6, generator=torch_generator(1))
    block = Block.full(graph, False)
    with torch.no_grad():
        found = net.encode(FeatureRows(dense=x), [block, block], None)
        torch.testing.assert_close(found, slow_vectors(net, x, graph), rtol=1e-4, atol=1e-5)


def test_planted_groups_are_classified_from_unsupervised_vectors() -> None:
    made = planted_hierarchy((2, 3), 300, mean_degree=10, word_on=0.15, seed=2)
    order = np.random.default_rng(0).permutation(300)
    codes = made.graph.labels.codes
    for variant in ("paper", "released"):
        method = quick(variant=variant, dim=24, epochs=60)
        method.fit(
            made.graph, task="classify", train_rows=order[:90], validation_rows=order[90:140]
        )
        test = order[140:]
        assert (method.class_scores_[test].argmax(1) == codes[test]).mean() > 0.85


def test_the_released_variant_does_what_its_code_does() -> None:
    graph = planted_hierarchy((2, 3), 300, seed=2).graph
    method = quick(variant="released", dim=24, epochs=2).fit(graph)
    assert method._topic_inputs.shape[1] == 101
    assert set(np.unique(method._topic_inputs)) == {0, 1}
    # Unit features in the first third, a unit combination in the rest.
    for part in (method.embedding_[:, :8], method.embedding_[:, 8:]):
        np.testing.assert_allclose(np.linalg.norm(part, axis=1), 1, rtol=1e-4)
    # All but the anchors are equally likely under every topic, up to the topics' sizes.
    ratio = method._model.given_topic
    plain = np.setdiff1d(np.arange(len(ratio)), method._model.anchors)
    spread = ratio[plain] / ratio[plain].sum(0)
    np.testing.assert_allclose(spread, spread[:, :1].repeat(spread.shape[1], 1), rtol=1e-8)


@pytest.mark.parametrize("batch", ["full", "sampled"])
def test_new_nodes_are_placed_by_their_own_walks(batch: str, tmp_path: Path) -> None:
    graph = planted_hierarchy((2, 3), 200, seed=4).graph
    method = quick(batch=batch, batch_size=64).fit(graph)
    kept = method.embedding_.copy()
    other = planted_hierarchy((2, 3), 150, seed=5).graph
    vectors = method.transform(other)
    assert vectors.shape == (150, 16)
    assert np.isfinite(vectors).all()
    # Reading another graph must not change what is known of this one.
    np.testing.assert_array_equal(method.transform(graph), kept)
    method.save(tmp_path / "kept")
    again = load_method(tmp_path / "kept")
    np.testing.assert_array_equal(again.topics_, method.topics_)
    assert again.topic_words_ == method.topic_words_
    np.testing.assert_array_equal(again.transform(other), vectors)


def test_odd_graphs_are_served() -> None:
    graph = planted_hierarchy((2, 2), 80, seed=1).graph
    edges, rng = graph.edge_list(), np.random.default_rng(0)
    weights = rng.uniform(0.5, 2, len(edges)).astype(np.float32)
    for odd in (
        build_graph(edges[:, 0], edges[:, 1], 90, weights=weights),
        build_graph(edges[:, 0], edges[:, 1], 90, directed=True),
        build_graph(np.array([0]), np.array([1]), 2),
    ):
        method = quick().fit(odd)
        assert np.isfinite(method.embedding_).all()
        alone = odd.degrees() == 0
        if alone.any() and not odd.directed:
            # Nothing is known of a node without walks: every topic alike.
            np.testing.assert_allclose(method.topics_[alone], 0.2, rtol=1e-5)


def test_bad_settings_are_named() -> None:
    graph, _ = barbell()
    for settings, message in (
        ({"variant": "secret"}, "variant must be paper or released, got 'secret'"),
        ({"topics": 0}, "topics must be at least 1"),
        ({"walks": 0}, "walks must be at least 1, got 0"),
        ({"walk_nodes": 30}, "2 to 15 nodes, got 30"),
        ({"layers": 0}, "layers must be a whole number of at least 1, got 0"),
        ({"variant": "released", "dim": 2}, "dim of at least 3, got 2"),
        ({"memory_gib": 1e-6}, "graphstone would need about"),
    ):
        with pytest.raises(InputError, match=message):
            quick(**settings).fit(graph)
