"""Random walks and negatives: real paths, the right probabilities, nothing linked."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from graphham.graph.graph import build_graph
from graphham.graph.planted import planted_hierarchy
from graphham.sampling.keys import derive_key
from graphham.sampling.walks import sample_negatives, walk_contexts
from tests.sampling.test_sampler import graphs, random_graph


@given(
    graph=graphs(), key=st.integers(0, 2**64 - 1), walks=st.integers(0, 5), steps=st.integers(0, 5)
)
def test_walks_are_paths_that_skip_their_start(graph, key, walks, steps):
    targets = np.arange(graph.num_nodes)
    met = walk_contexts(graph, targets, walks, steps, key)
    assert met.shape == (graph.num_nodes, walks, steps)
    for start in targets:
        for path in met[start]:
            here = int(start)
            for place, step in enumerate(path.tolist()):
                ahead = graph.neighbors(here).tolist()
                if not ahead:
                    assert (path[place:] == -1).all()
                    break
                if step < 0:
                    assert start in ahead, "only a walk back at its start has nothing to show"
                    here = int(start)
                else:
                    assert step in ahead
                    assert step != start
                    here = step


@pytest.mark.parametrize("weighted", [False, True])
def test_walks_follow_the_transition_probabilities(weighted):
    graph = random_graph(7, 14, seed=4, weighted=weighted)
    if weighted:
        graph = replace(graph, weights=(graph.weights**3).astype(np.float32))
    adjacency = graph.adjacency().toarray().astype(float)
    step = adjacency / adjacency.sum(1, keepdims=True)
    start = int(graph.degrees().argmax())
    met = walk_contexts(graph, [start], 40_000, 2, derive_key(1, "walk"))[0]
    for column, expected in ((met[:, 0], step[start]), (met[:, 1], step[start] @ step)):
        seen = np.bincount(np.where(column < 0, start, column), minlength=7)
        possible = expected > 0
        assert seen[~possible].sum() == 0
        assert chisquare(seen[possible], 40_000 * expected[possible]).pvalue > 1e-3


def test_walks_of_isolated_nodes_and_dead_ends_are_empty():
    graph = build_graph(np.array([0, 1]), np.array([1, 2]), 4, directed=True)
    met = walk_contexts(graph, [0, 2, 3], 2, 3, 0)
    assert met[0].tolist() == [[1, 2, -1], [1, 2, -1]]
    assert (met[1:] == -1).all()


@given(graph=graphs(), key=st.integers(0, 2**64 - 1), count=st.integers(0, 20))
def test_negatives_are_never_linked(graph, key, count):
    targets = np.arange(graph.num_nodes)
    negatives = sample_negatives(graph, targets, count, key)
    assert negatives.shape == (graph.num_nodes, count)
    for node in targets:
        taken = {int(node), *graph.neighbors(node).tolist()}
        if len(taken) == graph.num_nodes:
            assert (negatives[node] == -1).all()
        else:
            assert not set(negatives[node].tolist()) & (taken | {-1})


@pytest.mark.parametrize("num_free", [1, 3, 40])
def test_negatives_are_uniform_also_where_few_nodes_are_free(num_free):
    # The hub sits in the middle of the row order, linked to all but a scattered few.
    num_nodes, hub = 400, 200
    others = np.delete(np.arange(num_nodes), hub)
    free = np.sort(np.random.default_rng(num_free).choice(others, num_free, replace=False))
    linked = np.setdiff1d(others, free)
    graph = build_graph(np.full(len(linked), hub), linked, num_nodes)
    negatives = sample_negatives(graph, [hub], 8000, 9)[0]
    values, counts = np.unique(negatives, return_counts=True)
    assert values.tolist() == free.tolist()
    if num_free > 1:
        assert chisquare(counts).pvalue > 1e-3


def test_many_walks_over_a_copy_are_those_over_the_graph_itself(monkeypatch):
    graph = planted_hierarchy((2, 2), 60, mean_degree=6, seed=0).graph
    rows = np.arange(60)
    copied = walk_contexts(graph, rows, 20, 5, 3)
    monkeypatch.setattr("graphham.sampling.walks._COPIED_BYTES", 0)
    np.testing.assert_array_equal(copied, walk_contexts(graph, rows, 20, 5, 3))
