"""The training of every network among the baselines: its losses, its batches, what it keeps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.graph.planted import planted_hierarchy
from graphham.methods.network_training import Schedule, _Steps, dropped, encode_all, train
from graphham.methods.sage import SageNet
from graphham.methods.scaled_features import fit_features
from graphham.sampling.keys import derive_key, numpy_generator, torch_generator
from graphham.sampling.walks import walk_contexts
from graphham.training.class_shares import class_weights
from graphham.training.supervision import Truth


def test_a_graph_too_large_for_memory_is_sampled() -> None:
    graph = planted_hierarchy((2, 3), num_nodes=120, seed=3).graph
    _, inputs = fit_features(graph)
    net = SageNet(inputs.num_features, 8, 0, 2, 0.0)
    done = train(net, graph, inputs, Schedule(epochs=1, memory_gib=1e-6), seed=0)
    assert done.batch == "sampled"
    with pytest.raises(InputError, match="batch must be auto, full or sampled, got 'half'"):
        train(net, graph, inputs, Schedule(epochs=1, batch="half"), seed=0)


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_training_ends_at_the_best_validated_state(average: float) -> None:
    graph = planted_hierarchy((2, 3), num_nodes=180, seed=3).graph
    assert graph.labels is not None
    _, inputs = fit_features(graph)
    truth = Truth.split(graph.labels, 0, 0.3)
    net = SageNet(inputs.num_features, 16, 6, 2, 0.5)
    schedule = Schedule(epochs=40, lr=0.05, average=average, patience=10, evaluate_every=1)
    done = train(net, graph, inputs, schedule, 0, truth)
    scores = [record["validation"] for record in done.history]
    assert done.validation == max(scores)
    assert scores[done.best_epoch - 1] == max(scores)
    assert len(scores) == min(40, done.best_epoch + 10)
    logits = net.classify(encode_all(net, graph, inputs)[truth.validation], None)
    accuracy = float((logits.argmax(1) == truth.targets[truth.validation]).float().mean())
    assert accuracy == pytest.approx(done.validation)


def test_the_average_of_weights_is_what_is_kept() -> None:
    graph = planted_hierarchy((2, 3), num_nodes=120, seed=3).graph
    _, inputs = fit_features(graph)
    states = []
    for epochs in (1, 2):
        net = SageNet(inputs.num_features, 8, 0, 1, 0.0)
        train(net, graph, inputs, Schedule(epochs=epochs), seed=0)
        states.append(net.layers[0].weight.detach())
    net = SageNet(inputs.num_features, 8, 0, 1, 0.0)
    train(net, graph, inputs, Schedule(epochs=2, average=0.75), seed=0)
    # Of two epochs the plain mean; later ones keep at most three quarters of the old.
    torch.testing.assert_close(net.layers[0].weight, (states[0] + states[1]) / 2)


def test_dropout_keeps_the_mean() -> None:
    x = torch.ones(4000)
    thin = dropped(x, 0.6, torch_generator(0))
    assert thin.unique().tolist() == pytest.approx([0.0, 2.5])
    assert float(thin.mean()) == pytest.approx(1.0, abs=0.1)
    assert dropped(x, 0.6, None) is x


def fresh_steps(graph: Graph, truth: Truth | None = None, **settings: object) -> _Steps:
    """The steps of a two-layer network with drawn weights and no dropout."""
    _, inputs = fit_features(graph)
    net = SageNet(inputs.num_features, 8, 6 if truth else 0, 2, 0.0)
    net.reset_parameters(torch_generator(3))
    schedule = Schedule(**{"feature_dropout": 0.0, "batch": "full", **settings})
    return _Steps(net, graph, inputs, schedule, 0, truth)


def test_labels_can_count_by_how_frequent_validation_says_their_classes_are() -> None:
    graph = planted_hierarchy((2, 3), num_nodes=240, seed=3).graph
    assert graph.labels is not None
    assert graph.labels.codes is not None
    codes = torch.from_numpy(graph.labels.codes.astype("int64"))
    rows = [torch.nonzero(codes == c)[:, 0] for c in range(6)]
    training = torch.zeros(240, dtype=torch.bool)
    training[torch.cat([found[:3] for found in rows])] = True
    # Of the first class most are kept, of the others few.
    held = torch.cat([rows[0][3:], *(found[3:8] for found in rows[1:])])
    truth = Truth(codes, training, held)
    weights = class_weights(truth, 6)
    assert weights is not None
    losses = []
    for weigh in (False, True):
        steps = fresh_steps(graph, truth, weigh_classes=weigh)
        losses.append(float(next(steps.losses(1)).detach()))
    logits = steps.net.classify(encode_all(steps.net, graph, steps.inputs), None)[training]
    each = -logits.double().log_softmax(1)[torch.arange(18), codes[training]].detach().numpy()
    one = weights[codes[training].numpy()]
    assert losses[0] == pytest.approx(each.mean(), rel=1e-5)
    assert losses[1] == pytest.approx((one * each).sum() / one.sum(), rel=1e-5)
    assert abs(losses[0] - losses[1]) > 1e-3


def test_the_walk_loss_is_the_mean_over_pairs_met_on_walks() -> None:
    graph = planted_hierarchy((2, 3), num_nodes=120, seed=3).graph
    steps = fresh_steps(graph, negatives=3, contrast=20, negative_weight=2.0, scale=4.0)
    anchors, key = np.arange(0, 120, 2), 11
    found = float(steps._walk_loss(anchors, key).detach())
    z = encode_all(steps.net, graph, steps.inputs).double().numpy()
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    met = walk_contexts(graph, anchors, 1, 4, derive_key(key, "walks"))[:, 0]
    weight = graph.degrees() ** 0.75
    shares = numpy_generator(derive_key(key, "negatives")).random((3, 3))
    drawn = np.searchsorted(np.cumsum(weight) / weight.sum(), shares)
    losses = []
    for place, anchor in enumerate(anchors):
        # Sixty anchors in three sets; those of a set share their negatives.
        push = np.mean([np.log1p(np.exp(4 * z[anchor] @ z[n])) for n in drawn[place // 20]])
        pulls = [np.log1p(np.exp(-4 * z[anchor] @ z[n])) for n in met[place] if n >= 0]
        losses += [pull + 2 * push for pull in pulls]
    assert found == pytest.approx(np.mean(losses), rel=1e-5)


def test_samples_of_all_neighbours_are_the_full_graph() -> None:
    graph = planted_hierarchy((2, 3), num_nodes=120, seed=3).graph
    rows = np.array([5, 80, 17])
    full = fresh_steps(graph)._encode(rows, 4)
    sampled = fresh_steps(graph, batch="sampled", fanouts=(1000,))._encode(rows, 4)
    torch.testing.assert_close(full, sampled, rtol=1e-4, atol=1e-5)


def test_an_epoch_of_samples_sees_every_training_node_once() -> None:
    graph = planted_hierarchy((2, 3), num_nodes=120, seed=3).graph
    assert graph.labels is not None
    truth = Truth.split(graph.labels, 0, 0.25)
    steps = fresh_steps(graph, truth, batch="sampled", batch_size=40)
    seen: list[np.ndarray] = []
    steps._loss = lambda targets, key: seen.append(targets)
    orders = []
    for epoch in (1, 2):
        seen.clear()
        list(steps.losses(epoch))
        assert [len(part) for part in seen] == [40, 40, 10]
        orders.append(np.concatenate(seen).tolist())
        assert sorted(orders[-1]) == torch.nonzero(truth.training)[:, 0].tolist()
    assert orders[0] != orders[1]
