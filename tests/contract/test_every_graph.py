"""Every odd graph a user may bring gives a sound fit, whole and sampled."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from graphham.config.settings import make_config
from graphham.graph.graph import Labels, build_graph
from graphham.methods.fitting import fit_graph
from tests.reference.graphs import (
    SMALL,
    multi_labelled,
    planted,
    relinked,
    with_features,
    without_features,
)

GRAPH = planted().graph
RNG = np.random.default_rng(0)


def few_labels(count):
    codes = np.where(np.arange(180) < count, GRAPH.labels.codes, -1).astype(np.int32)
    return Labels(GRAPH.labels.classes, codes=codes)


def labelled(labels):
    return replace(GRAPH, labels=labels)


def table(values):
    return with_features(GRAPH, values)


STAR = build_graph(np.zeros(40, int), np.arange(1, 41), 41)
PAIR = build_graph([0], [1], 2)
COMPLETE = build_graph(*np.triu_indices(12, 1), 12)
CLASSIFY = {"task": "classify"}
WEIGHTS = RNG.uniform(0.5, 2, GRAPH.num_edges)

CASES = {
    "words": (GRAPH, {}),
    "dense": (table(GRAPH.features.toarray()), {}),
    "half precision": (table(RNG.normal(size=(180, 9)).astype(np.float16)), {}),
    "one column": (table(RNG.random((180, 1)).astype(np.float32)), {}),
    "constant columns": (table(np.ones((180, 3), np.float32)), {}),
    "constant words": (table(sp.csr_matrix(np.ones((180, 3), np.float32))), {}),
    "no word at all": (table(sp.csr_matrix((180, 7), dtype=np.float32)), {}),
    "huge and tiny values": (
        table((RNG.normal(size=(180, 4)) * [1e-30, 1e-5, 1e5, 1e17]).astype(np.float32)),
        {},
    ),
    "no features": (without_features(GRAPH), {}),
    "isolated nodes without words": (relinked(GRAPH, extra=7), {}),
    "isolated nodes without features": (relinked(without_features(GRAPH), extra=7), {}),
    "isolated nodes, no self edge": (relinked(GRAPH, extra=7), {"model.self_edge": False}),
    "weighted": (relinked(GRAPH, weights=WEIGHTS), {}),
    "tiny weights": (relinked(GRAPH, weights=1e-12 * WEIGHTS), {}),
    "weighted without features": (relinked(without_features(GRAPH), weights=WEIGHTS), {}),
    "directed": (relinked(GRAPH, directed=True), {}),
    "directed without features": (relinked(without_features(GRAPH), directed=True), {}),
    "one level": (GRAPH, {"groups": (5,)}),
    "three levels": (GRAPH, {"groups": (20, 8, 3), "dim": 96}),
    "equal levels": (GRAPH, {"groups": (4, 4)}),
    "one group": (GRAPH, {"groups": (1, 1)}),
    "as many groups as nodes": (GRAPH, {"groups": (180, 90)}),
    "chosen groups": (GRAPH, {"groups": None}),
    "two nodes": (PAIR, {"groups": None}),
    "two nodes, one group": (PAIR, {"groups": (1,)}),
    "two nodes as the paper": (PAIR, {"groups": (2, 1), "preset": "paper"}),
    "a star": (STAR, {"groups": (3, 2)}),
    "everybody linked": (COMPLETE, {"groups": (3, 2), "loss.context": "skipgram"}),
    "classes": (GRAPH, CLASSIFY),
    "several labels per node": (multi_labelled(GRAPH), CLASSIFY),
    "three labels in all": (labelled(few_labels(3)), CLASSIFY),
    "one label in all": (labelled(few_labels(1)), CLASSIFY),
    "one class": (labelled(Labels(("a",), codes=np.zeros(180, np.int32))), CLASSIFY),
    "classes of two nodes": (
        build_graph([0], [1], 2, labels=Labels(("a", "b"), codes=np.array([0, 1], np.int32))),
        {**CLASSIFY, "groups": None},
    ),
}


@pytest.mark.parametrize("batch", ["full", "sampled"])
@pytest.mark.parametrize("case", CASES)
def test_every_graph_gives_a_sound_fit(case, batch):
    graph, settings = CASES[case]
    chosen = {**SMALL, "train.epochs": 4, "train.batch": batch, "train.batch_size": 70, **settings}
    fitted = fit_graph(graph, make_config(chosen))
    result = fitted.result.validate()
    assert np.isfinite(result.embedding).all()
    for record in fitted.history:
        assert all(np.isfinite(value) for value in record.values()), record
    for parent, low, high in zip(result.parents, result.groups, result.groups[1:], strict=False):
        if result.parents_from == "model":
            np.testing.assert_array_equal(parent[low], high)
    if "task" in settings:
        assert len(result.prediction) == graph.num_nodes
        assert all(value is not None for value in result.prediction.values())
