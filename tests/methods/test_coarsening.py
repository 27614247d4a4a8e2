"""Coarsening against its definition, compared pair by pair."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphham.graph.graph import Graph, build_graph
from graphham.methods.coarsening import coarsen, equivalence_groups


@st.composite
def small_graphs(draw: st.DrawFn) -> Graph:
    """Graphs of a few nodes with weights, isolated nodes among them."""
    count = draw(st.integers(1, 12))
    end = st.integers(0, count - 1)
    edges = draw(st.lists(st.tuples(end, end, st.sampled_from([0.5, 1.0, 3.0])), max_size=30))
    ends = np.asarray([(a, b) for a, b, _ in edges], dtype=np.int64).reshape(-1, 2)
    weights = np.asarray([w for _, _, w in edges], dtype=np.float32)
    directed = draw(st.booleans())
    return build_graph(ends[:, 0], ends[:, 1], count, weights=weights, directed=directed)


def slow_equivalence(adjacency: np.ndarray) -> list[int]:
    """Return the first node with the same neighbours, by comparing all pairs."""
    lists = [tuple(np.flatnonzero(row)) for row in adjacency]
    return [lists.index(mine) if mine else i for i, mine in enumerate(lists)]


@given(small_graphs())
def test_equivalence_groups_are_those_with_the_same_neighbours(graph: Graph) -> None:
    for adjacency in coarsen(graph, 2).graphs:
        found = equivalence_groups(adjacency)
        assert found.tolist() == slow_equivalence(adjacency.toarray())


@given(small_graphs(), st.integers(1, 6))
def test_coarsening_conserves_nodes_and_edges(graph: Graph, max_weight: int) -> None:
    found = coarsen(graph, 4, max_weight)
    for weight, adjacency in zip(found.weights, found.graphs, strict=True):
        assert weight.sum() == graph.num_nodes
        assert weight.min() >= 1
        assert adjacency.sum() == pytest.approx(found.graphs[0].sum())
        assert abs(adjacency - adjacency.T).max() == pytest.approx(0)
    for one, other in pairwise(found.sizes):
        assert other < one
    for level, groups in enumerate(found.groups(), 1):
        np.testing.assert_array_equal(np.bincount(groups), found.weights[level])


@given(small_graphs(), st.integers(2, 6))
def test_groups_are_look_alikes_or_light_linked_pairs(graph: Graph, max_weight: int) -> None:
    found = coarsen(graph, 3, max_weight)
    for level, parent in enumerate(found.parents):
        adjacency = found.graphs[level].toarray()
        alike = np.asarray(slow_equivalence(adjacency))
        for group in range(found.sizes[level + 1]):
            members = np.flatnonzero(parent == group)
            if len(set(alike[members])) == 1:
                # All the look-alikes of a member are there, not only some.
                assert len(members) == (alike == alike[members[0]]).sum()
                continue
            assert len(members) == 2
            assert adjacency[members[0], members[1]] > 0
            assert found.weights[level][members].sum() <= max_weight
        lonely = np.flatnonzero(np.bincount(parent)[parent] == 1)
        for i in lonely:
            for j in lonely:
                is_heavy = found.weights[level][[i, j]].sum() > max_weight
                assert i == j or adjacency[i, j] == 0 or is_heavy


def test_the_strongest_free_neighbour_is_taken() -> None:
    # Node 0 has the fewest neighbours; it is linked equally to 1 (busy) and 2 (less so).
    edges = np.array([[0, 1], [0, 2], [1, 2], [1, 3], [1, 4], [2, 5], [3, 4], [3, 5], [4, 5]])
    plain = coarsen(build_graph(edges[:, 0], edges[:, 1], 6), 1)
    assert plain.parents[0][0] == plain.parents[0][2]
    weights = np.ones(len(edges))
    weights[0] = 5
    heavy = coarsen(build_graph(edges[:, 0], edges[:, 1], 6, weights=weights), 1)
    assert heavy.parents[0][0] == heavy.parents[0][1]


def test_a_star_folds_and_isolated_nodes_stay_alone() -> None:
    star = build_graph(np.zeros(60, dtype=int), np.arange(1, 61), 63)
    found = coarsen(star, 4)
    assert found.sizes == [63, 4]
    assert found.weights[1].tolist() == [1, 60, 1, 1]
    assert coarsen(star, 4, max_weight=61).sizes == [63, 4, 3]
    assert coarsen(build_graph(np.array([0]), np.array([0]), 5)).sizes == [5]
