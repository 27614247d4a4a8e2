"""DeepWalk: its inner loop against plain loops, and what its vectors tell apart."""

from __future__ import annotations

import networkx as nx
import numpy as np

from graphham.graph.graph import build_graph
from graphham.methods.deepwalk import DeepWalk


def test_deepwalk_puts_the_two_halves_of_a_barbell_apart() -> None:
    graph = build_graph(*np.asarray(nx.barbell_graph(8, 0).edges).T, 18)
    method = DeepWalk(dim=8, walks=40, walk_length=20, window=3).fit(graph)
    half = np.arange(16) // 8
    pairs = np.array([(i, j) for i in range(16) for j in range(16) if i < j])
    scores = method.score_links(pairs)
    inside = half[pairs[:, 0]] == half[pairs[:, 1]]
    assert scores[inside].min() > scores[~inside].max()
    # Nodes 16 and 17 have no links: no position, and no similarity to anybody.
    assert not method.embedding_[16:].any()
    assert method.score_links(np.array([[16, 0], [16, 17]])).tolist() == [0.0, 0.0]
    assert method.history_[-1]["loss"] < method.history_[0]["loss"]


def test_deepwalk_walks_a_directed_graph_both_ways() -> None:
    ends = np.asarray(nx.barbell_graph(6, 0).edges).T
    one_way = build_graph(*ends, 12, directed=True)
    both = build_graph(*ends, 12)
    settings = {"dim": 4, "walks": 3, "walk_length": 5}
    np.testing.assert_array_equal(
        DeepWalk(**settings).fit(one_way).embedding_, DeepWalk(**settings).fit(both).embedding_
    )
