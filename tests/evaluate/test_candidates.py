"""Negatives are true non-neighbours, and hard ones are really near."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.evaluate.candidates import hard_queries, is_linked, neighbor_keys, uniform_queries
from graphham.evaluate.splits import edge_split
from graphham.graph.graph import Graph, build_graph
from graphham.graph.planted import planted_hierarchy


def random_graph(n: int, edges: int, seed: int) -> Graph:
    draw = np.random.default_rng(seed)
    return build_graph(draw.integers(n, size=edges), draw.integers(n, size=edges), n)


@given(seed=st.integers(0, 30), n=st.integers(4, 30))
def test_no_negative_is_a_neighbour_or_the_source(seed: int, n: int) -> None:
    graph = random_graph(n, 3 * n, seed)
    edges = graph.edge_list()
    try:
        queries = uniform_queries(graph, edges, seed, 7)
    except InputError:
        assert (graph.degrees()[edges[:, 0]] == n - 1).all()
        return
    for source, true, *negatives in queries.tolist():
        near = set(graph.neighbors(source).tolist())
        assert true in near
        assert not near & set(negatives)
        assert source not in negatives
    possible = graph.degrees()[edges[:, 0]] < n - 1
    assert len(queries) == possible.sum()


def test_nearly_complete_graphs_still_find_their_few_strangers() -> None:
    n = 300
    rows, columns = np.triu_indices(n, 1)
    keep = ~((rows == 0) & (columns == 299))
    graph = build_graph(rows[keep], columns[keep], n)
    queries = uniform_queries(graph, np.array([[0, 1]]), 1)
    assert (queries[0, 2:] == 299).all()


def test_negatives_are_spread_evenly() -> None:
    graph = build_graph(np.array([0, 0]), np.array([1, 2]), 12)
    queries = uniform_queries(graph, np.repeat([[0, 1]], 3000, axis=0), 4)
    counts = np.bincount(queries[:, 2:].ravel(), minlength=12)
    assert counts[:3].tolist() == [0, 0, 0]
    assert counts[3:].min() > 0.9 * 60_000 / 9
    assert counts[3:].max() < 1.1 * 60_000 / 9


def test_linked_agrees_with_the_adjacency() -> None:
    graph = random_graph(25, 60, 3)
    pairs = np.stack(np.meshgrid(np.arange(25), np.arange(25)), -1).reshape(-1, 2)
    said = is_linked(neighbor_keys(graph), 25, pairs[:, 0], pairs[:, 1])
    truth = graph.adjacency().toarray()[pairs[:, 0], pairs[:, 1]] > 0
    assert (said == (truth | (pairs[:, 0] == pairs[:, 1]))).all()


def test_hard_negatives_have_most_common_neighbours_and_pagerank() -> None:
    graph = planted_hierarchy((2, 3), 150, mean_degree=8, seed=3).graph
    split = edge_split(graph, seed=0)
    queries = hard_queries(graph, split.graph, split.test, 9)
    easy = uniform_queries(graph, split.test, 9)
    seen = nx.from_scipy_sparse_array(split.graph.adjacency())
    source, _, *negatives = queries[0].tolist()
    assert len(set(negatives)) == 20
    barred = {source, *graph.neighbors(source).tolist()}
    others = [v for v in range(150) if v not in barred]
    assert set(negatives) <= set(others)
    rare = {(v, s) for v, _, s in nx.adamic_adar_index(seen, [(v, source) for v in others])}
    ranked = sorted(rare, key=lambda pair: -pair[1])
    tenth = ranked[9][1]
    score = dict(rare)
    assert all(score[v] >= tenth - 1e-9 for v in negatives[:10])
    # Pushing leaves a small residue, so the order may differ from the exact one near ties.
    rank = nx.pagerank(seen, alpha=0.85, personalization={source: 1}, tol=1e-10)
    left = sorted((v for v in others if v not in negatives[:10]), key=lambda v: -rank[v])
    assert len(set(negatives[10:]) & set(left[:14])) >= 9
    common = split.graph.adjacency() @ split.graph.adjacency().T

    def shared(asked: np.ndarray) -> float:
        return float(np.mean([common[row[0], row[2:]].mean() for row in asked]))

    assert shared(queries) > 3 * shared(easy)


def test_an_isolated_source_gets_random_negatives() -> None:
    graph = build_graph(np.array([0, 2, 3]), np.array([1, 3, 4]), 40)
    seen = graph.without_edges(np.array([[0, 1]]))
    queries = hard_queries(graph, seen, np.array([[0, 1]]), 1)
    assert (queries[0, 2:] >= 2).all()
    full = build_graph(np.array([0, 0, 1]), np.array([1, 2, 2]), 3)
    with pytest.raises(InputError, match="nothing to rank"):
        uniform_queries(full, np.array([[0, 1]]), 1)
