"""Rivals at published strength: the Planetoid public splits, on which others have measured them.

A rival below its paper's number makes every comparison with it worthless. Published: GCN from Kipf
and Welling (2017), GAT from Velickovic et al. (2018), APPNP as Fey and Lenssen (2019) and later
papers have it on these splits.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphham.datasets import load_dataset
from graphham.graph.graph import Graph
from graphham.methods.registry import make_method, method_class

_SEEDS = 3
# By how much a mean may be short of the paper. GAT on Citeseer is short by more: three seeds have
# 0.717, but ten 0.709 (others who repeated the paper have 0.708).
_SLACK = {("gat", "citeseer"): 0.02}
_PUBLISHED = {
    ("gcn", "cora"): 0.815,
    ("gcn", "citeseer"): 0.703,
    ("gcn", "pubmed"): 0.790,
    ("gat", "cora"): 0.830,
    ("gat", "citeseer"): 0.725,
    ("gat", "pubmed"): 0.790,
    ("appnp", "cora"): 0.833,
    ("appnp", "citeseer"): 0.718,
    ("appnp", "pubmed"): 0.797,
}
# What the paper sets otherwise on this graph; "none" reads rows that sum to one, as its authors
# scaled them. With rows of unit length ten seeds have 0.700, but with few labels drawn anew, or
# many, these do as well or better, and are what the tables use.
_OWN = {
    ("gat", "pubmed"): {"out_heads": 8, "lr": 0.01, "weight_decay": 1e-3},
    ("gat", "citeseer"): {"scaling": "none"},
}


@cache
def public_graph(name: str, folder: Path) -> Graph:
    return load_dataset(name, root=folder)


def accuracy(name: str, graph: Graph, seed: int, **settings: Any) -> float:
    """Fit a method on the public split; return its share right among the thousand test nodes."""
    assert graph.labels is not None
    assert graph.labels.codes is not None
    method = make_method(name, seed=seed, **settings)
    rows = {"train_rows": graph.splits["train"], "validation_rows": graph.splits["val"]}
    method.fit(graph, task="classify", **rows)
    assert method.class_scores_ is not None
    test = graph.splits["test"]
    assert len(test) == 1000
    return float((method.class_scores_[test].argmax(1) == graph.labels.codes[test]).mean())


def mean_accuracy(name: str, graph: str, folder: Path) -> float:
    settings = {**method_class(name).published, **_OWN.get((name, graph), {})}
    whole = public_graph(graph, folder)
    if settings.get("scaling") == "none":
        sums = np.maximum(np.asarray(whole.features.sum(1)), 1e-12)
        whole = replace(whole, features=whole.features.multiply(1 / sums).tocsr())
    return float(np.mean([accuracy(name, whole, seed, **settings) for seed in range(_SEEDS)]))


def test_gcn_has_its_published_accuracy_on_cora(shared_data: Path) -> None:
    assert mean_accuracy("gcn", "cora", shared_data) >= _PUBLISHED["gcn", "cora"] - 0.01


@pytest.mark.slow
@pytest.mark.parametrize(("name", "graph"), _PUBLISHED)
def test_rivals_have_their_published_accuracy(name: str, graph: str, shared_data: Path) -> None:
    slack = _SLACK.get((name, graph), 0.01)
    assert mean_accuracy(name, graph, shared_data) >= _PUBLISHED[name, graph] - slack


@pytest.mark.parametrize("name", ["gat", "graphsage"])
def test_published_settings_are_among_those_tried(name: str) -> None:
    kind = method_class(name)
    assert kind.published
    assert dict(kind.published) in make_method(name).search_space("classify")
