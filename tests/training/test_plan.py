"""The plan of a fit: what is measured of the graph, and what a reader is told."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from graphham.config.resolved import read_resolved
from graphham.config.settings import make_config
from graphham.graph.graph import Part
from graphham.parallel.ranks import ALONE
from graphham.training.plan import graph_facts, plan_fit
from tests.reference.graphs import planted, small_config, with_features, without_features

GRAPH = planted().graph


def facts_of(graph, settings, train_rows=None, validation_rows=None):
    return graph_facts(graph, make_config(settings), train_rows, validation_rows, ALONE)


@pytest.mark.parametrize("task", ["embed", "classify"])
@pytest.mark.parametrize("preset", ["default", "paper"])
def test_a_plan_stands_and_is_readable(task, preset):
    plan = plan_fit(GRAPH, make_config({"task": task}, preset=preset))
    config = plan.config
    assert read_resolved(config.to_dict()) == config
    assert plan_fit(GRAPH, config).config == config
    text = "\n".join(plan.lines())
    for word in (task, preset, " > ".join(map(str, config.groups)), "GiB", "epochs"):
        assert word in text


def test_samples_are_announced():
    tight = plan_fit(GRAPH, small_config({"train.memory_gib": 0.1}))
    assert tight.config.train.batch == "sampled"
    assert "512 targets per step, 25x25 sampled neighbours" in "\n".join(tight.lines())


def test_facts_are_those_of_the_graph():
    facts = facts_of(GRAPH, {"task": "classify"})
    assert (facts.num_nodes, facts.num_stored) == (180, GRAPH.num_stored)
    assert (facts.num_features, facts.num_feature_values) == (60, GRAPH.features.nnz)
    assert facts.is_sparse
    assert facts.num_classes == 6
    dense = facts_of(with_features(GRAPH, GRAPH.features.toarray()), {})
    assert (dense.num_features, dense.is_sparse, dense.num_feature_values) == (60, False, 0)
    assert facts_of(without_features(GRAPH), {}).num_features == 0


def test_the_scaling_follows_the_kind_of_features():
    words = sp.csr_matrix((GRAPH.features != 0).astype(np.float32))
    smooth = np.random.default_rng(0).normal(size=(180, 5)).astype(np.float32)
    for features, scaling in (
        (words, "tfidf"),
        (words * 0.3, "row"),
        (smooth, "standard"),
        (None, "none"),
    ):
        graph = with_features(GRAPH, features)
        assert plan_fit(graph, make_config({})).config.inputs.scaling == scaling
    # A part of a split graph cannot know how rare a word is in the whole.
    part = replace(with_features(GRAPH, words.toarray()), part=Part(0, 2, 0, 90, "whole"))
    assert facts_of(part, {}).scaling == "row"
    asked = make_config({"inputs.scaling": "row"})
    assert plan_fit(GRAPH, asked).config.inputs.scaling == "row"


def test_labels_are_not_looked_at_when_embedding():
    assert facts_of(GRAPH, {}) == facts_of(replace(GRAPH, labels=None), {})


def test_few_labels_are_noticed():
    classify = {"task": "classify"}
    few = facts_of(GRAPH, classify, np.arange(20), np.arange(100, 120))
    many = facts_of(GRAPH, classify, np.arange(100), np.arange(100, 120))
    assert few.has_few_labels
    assert not many.has_few_labels
