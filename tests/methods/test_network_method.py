"""What the network baselines share as methods: sampled fits learn, edgeless graphs are refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.graph.graph import build_graph
from graphham.graph.planted import planted_hierarchy
from graphham.methods.gat import GAT
from graphham.methods.sage import GraphSAGE


@pytest.mark.parametrize("kind", [GraphSAGE, GAT])
@pytest.mark.parametrize("task", ["classify", "embed"])
def test_sampled_training_learns_like_the_full_graph(kind: type, task: str) -> None:
    graph = planted_hierarchy((2, 3), num_nodes=180, seed=3, word_on=0.15, word_off=0.02).graph
    method = kind(dim=16, epochs=8, lr=0.02, batch="sampled", batch_size=64, fanouts=(5, 5))
    method.fit(graph, task=task)
    assert method.trained_.batch == "sampled"
    assert method.history_[-1]["loss"] < method.history_[0]["loss"]
    same = kind(dim=16, epochs=8, lr=0.02, batch="sampled", batch_size=64, fanouts=(5, 5))
    np.testing.assert_array_equal(same.fit(graph, task=task).embedding_, method.embedding_)
    labels = graph.labels
    assert labels is not None
    if task == "classify":
        assert (method.class_scores_.argmax(1) == labels.codes).mean() > 0.7
    else:
        unit = method.embedding_ / np.linalg.norm(method.embedding_, axis=1, keepdims=True)
        same_leaf = labels.codes[:, None] == labels.codes[None]
        similar = unit @ unit.T
        assert similar[same_leaf].mean() > similar[~same_leaf].mean() + 0.2


def test_the_walk_loss_needs_an_edge() -> None:
    lonely = build_graph(np.array([0]), np.array([0]), 3)
    with pytest.raises(InputError, match="neither features nor edges"):
        GraphSAGE(dim=4, epochs=1).fit(lonely)
    with pytest.raises(InputError, match="no edges to learn from"):
        GraphSAGE(dim=4, epochs=1).fit(replace(lonely, features=np.eye(3, dtype=np.float32)))
