"""How many classes a method gets right, for the tests of several methods."""

import numpy as np

from graphham.graph.graph import Graph
from graphham.methods.base import Method


def held_out_accuracy(model: Method, graph: Graph) -> float:
    """Fit a method to the labels of 150 nodes; return the share right among the others."""
    assert graph.labels is not None
    assert graph.labels.codes is not None
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    model.fit(graph, task="classify", train_rows=order[:120], validation_rows=order[120:150])
    assert model.class_scores_ is not None
    test = order[150:]
    return float((model.class_scores_[test].argmax(1) == graph.labels.codes[test]).mean())
