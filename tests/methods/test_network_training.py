"""The training of every network among the baselines: its losses, its batches, what it keeps."""

from __future__ import annotations

import pytest
import torch

from graphham.errors import InputError
from graphham.graph.planted import planted_hierarchy
from graphham.methods.network_training import Schedule, dropped, encode_all, train
from graphham.methods.sage import SageNet
from graphham.methods.scaled_features import fit_features
from graphham.sampling.keys import torch_generator
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
