"""From a graph and settings to a fit: the plan, the refusals, what is kept from training."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from graphham.config.settings import make_config
from graphham.graph.graph import Labels, build_graph
from graphham.graph.store import open_store, write_store
from graphham.methods import fitting
from graphham.methods.fitting import fit_graph
from tests.reference.graphs import (
    multi_labelled,
    planted,
    small_config,
    with_features,
    without_features,
)

GRAPH = planted().graph


def shuffled_labels(graph, rows=None):
    """The same graph with the labels of some rows (all when not given) permuted."""
    codes = graph.labels.codes.copy()
    rows = np.arange(len(codes)) if rows is None else rows
    codes[rows] = np.random.default_rng(0).permutation(codes[rows])
    return replace(graph, labels=Labels(graph.labels.classes, codes=codes))


@pytest.mark.parametrize("batch", ["full", "sampled"])
def test_labels_do_not_shape_an_embedding(batch):
    config = small_config({"train.batch": batch, "train.batch_size": 64})
    one, other = (fit_graph(graph, config) for graph in (GRAPH, shuffled_labels(GRAPH)))
    np.testing.assert_array_equal(one.result.embedding, other.result.embedding)
    for level in range(2):
        np.testing.assert_array_equal(one.result.groups[level], other.result.groups[level])
    # They only describe the groups afterwards.
    assert one.summary["hierarchy"]["nmi_1"] != other.summary["hierarchy"]["nmi_1"]
    bare = fit_graph(replace(GRAPH, labels=None), config)
    np.testing.assert_array_equal(bare.result.embedding, one.result.embedding)


def test_labels_of_test_nodes_do_not_shape_a_classifier():
    rng = np.random.default_rng(1)
    order = rng.permutation(180)
    train, validation, test = order[:90], order[90:120], order[120:]
    config = small_config({"task": "classify"})
    fits = [
        fit_graph(graph, config, train_rows=train, validation_rows=validation)
        for graph in (GRAPH, shuffled_labels(GRAPH, test))
    ]
    np.testing.assert_array_equal(fits[0].result.embedding, fits[1].result.embedding)
    assert fits[0].result.prediction.values() == fits[1].result.prediction.values()
    assert fits[0].history[-1]["class"] == fits[1].history[-1]["class"]
    other = fit_graph(
        shuffled_labels(GRAPH, train), config, train_rows=train, validation_rows=validation
    )
    assert not np.array_equal(other.result.embedding, fits[0].result.embedding)


def test_predictions_are_in_the_users_own_values():
    named = Labels(tuple("uvwxyz"), codes=GRAPH.labels.codes)
    fitted = fit_graph(replace(GRAPH, labels=named), small_config({"task": "classify"}))
    assert set(fitted.result.prediction.values()) <= set("uvwxyz")
    assert fitted.summary["model"]["classes"] == list("uvwxyz")
    codes = [10, 20, 30, 40, 50, 60]
    numbered = Labels(tuple(codes), codes=GRAPH.labels.codes)
    fitted = fit_graph(replace(GRAPH, labels=numbered), small_config({"task": "classify"}))
    assert set(fitted.result.prediction.values()) <= set(codes)


def test_the_summary_can_be_written_and_tells_cost_and_quality():
    fitted = fit_graph(multi_labelled(GRAPH), small_config({"task": "classify"}))
    summary = json.loads(json.dumps(fitted.summary))
    assert summary["hierarchy"]["nesting"] == pytest.approx(1)
    assert summary["cost"]["peak_memory_bytes"] > 1 << 20
    assert summary["cost"]["seconds"] >= summary["training"]["seconds"] > 0
    assert summary["graph"]["nodes"] == 180
    assert summary["training"]["epochs"] == 6
    assert summary["versions"]["torch"]
    assert fitted.status == "complete"


def test_held_out_links_only_decide_when_to_stop():
    settings = {"train.validation_edges": 0.2, "train.evaluate_every": 1}
    fitted = fit_graph(GRAPH, small_config(settings))
    assert fitted.graph is GRAPH
    assert 0.5 < fitted.summary["training"]["validation"] <= 1
    again = fitted.encoder.read(GRAPH, fitted.encoder.inputs_of(GRAPH, GRAPH.ids))
    np.testing.assert_array_equal(again.embedding, fitted.result.embedding)
    # One edge is kept, or nothing would be left to train on.
    pair = fit_graph(build_graph([0], [1], 2), make_config({"train.epochs": 2, "dim": 4}, settings))
    assert pair.summary["training"]["validation"] is None


def test_a_teacher_that_is_wrong_is_left_out(monkeypatch):
    rows = np.arange(0, GRAPH.num_nodes, 8)
    kept = np.setdiff1d(np.arange(0, GRAPH.num_nodes, 3), rows)
    asked = {"task": "classify", "train.epochs": 60, "train.lr": 0.05, "train.evaluate_every": 1}

    def wrong(fits, truth, num_classes, weights):
        """The class after the true one."""
        return torch.eye(num_classes)[(truth.targets + 1) % num_classes]

    def fitted(**settings):
        config = small_config({**asked, **settings})
        return fit_graph(GRAPH, config, train_rows=rows, validation_rows=kept)

    monkeypatch.setattr(fitting, "teach", wrong)
    doubted, taught = fitted(), fitted(**{"loss.doubt_teacher": False})
    untaught = fitted(**{"loss.teacher_weight": 0.0, "loss.context_weight": 0.2})
    assert doubted.config.loss.teacher_weight == 0
    assert doubted.config.loss.context_weight == 0.2
    np.testing.assert_array_equal(doubted.result.embedding, untaught.result.embedding)
    assert any("groups did not teach" in note for note in doubted.summary["notes"])
    best = [max(r["validation"] for r in fit.history) for fit in (taught, untaught)]
    assert best[1] > best[0] + 0.2


def test_a_teacher_that_is_right_stays():
    rows = np.arange(0, GRAPH.num_nodes, 8)
    settings = {"task": "classify", "train.epochs": 20, "train.evaluate_every": 1}
    fits = [
        fit_graph(GRAPH, small_config(settings, {"loss.doubt_teacher": doubts}), train_rows=rows)
        for doubts in (True, False)
    ]
    assert all(fit.config.loss.teacher_weight == 3.0 for fit in fits)
    np.testing.assert_array_equal(fits[0].result.embedding, fits[1].result.embedding)
    assert not any("did not teach" in note for note in fits[0].summary["notes"])


@pytest.mark.parametrize("batch", ["full", "sampled"])
def test_a_memory_mapped_store_trains_like_the_graph_it_came_from(batch, tmp_path):
    config = small_config({"train.batch": batch, "train.batch_size": 64})
    half = with_features(GRAPH, GRAPH.features.toarray().astype(np.float16))
    for name, graph in (("words", GRAPH), ("dense", half), ("none", without_features(GRAPH))):
        write_store(graph, tmp_path / name)
        stored = fit_graph(open_store(tmp_path / name), config).result
        np.testing.assert_array_equal(stored.embedding, fit_graph(graph, config).result.embedding)


def test_torch_keeps_its_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    fit_graph(GRAPH, small_config({"train.epochs": 1}))
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)
