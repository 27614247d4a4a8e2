"""H-GCN: the coarsening against its definition, the network against dense matrices, learning."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.graph.graph import Graph, build_graph
from graphham.graph.planted import planted_hierarchy
from graphham.methods.coarsening import assignment, coarsen, equivalence_groups
from graphham.methods.hgcn import HGCN, HgcnNet, step_bytes
from graphham.model.inputs import FeatureRows
from graphham.sampling.keys import torch_generator


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


def dense_scores(net: HgcnNet, x: torch.Tensor, graphs: list, parents: list, weights: list):
    """Follow the description with dense matrices, layer by layer."""

    def hat(adjacency):
        full = torch.tensor(adjacency.toarray(), dtype=torch.float32)
        full += torch.eye(len(full))
        root = full.sum(1).rsqrt()
        return root[:, None] * full * root

    a = [hat(g) for g in graphs]
    c = [
        torch.tensor(assignment(p, int(p.max()) + 1).toarray(), dtype=torch.float32)
        for p in parents
    ]
    w = [torch.einsum("c,cio->io", layer.share, layer.weight) for layer in net.layers]
    own = [net.table[torch.tensor(np.minimum(v, 50) - 1)] for v in weights]
    first = torch.relu(a[0] @ x @ w[0])
    second_in = (c[0] / c[0].norm(dim=0)).T @ first
    second = torch.relu(a[1] @ torch.cat([second_in, own[1]], 1) @ w[1])
    third_in = (c[1] / c[1].norm(dim=0)).T @ second
    third = torch.relu(a[2] @ torch.cat([third_in, own[2]], 1) @ w[2])
    fourth_in = c[1] @ third + second
    fourth = torch.relu(a[1] @ torch.cat([fourth_in, own[1]], 1) @ w[3])
    return a[0] @ (c[0] @ fourth + first) @ net.classifier.weight.T + net.classifier.bias


def test_the_network_is_the_described_one() -> None:
    graph = planted_hierarchy((2, 2), 60, mean_degree=5, seed=1).graph
    coarsening = coarsen(graph, 2)
    net = HgcnNet(7, 6, 3, coarsening, 4, 5, 0.5)
    net.reset_parameters(torch_generator(0))
    x = torch.randn(60, 7, generator=torch_generator(1))
    found = net.classify(net.encode(FeatureRows(dense=x), [], None), None)
    parts = (coarsening.graphs, coarsening.parents, coarsening.weights)
    torch.testing.assert_close(found, dense_scores(net, x, *parts), rtol=1e-4, atol=1e-5)


def test_planted_classes_are_learned_from_few_labels() -> None:
    made = planted_hierarchy((2, 3), 300, mean_degree=10, word_on=0.15, seed=2)
    graph, codes = made.graph, made.graph.labels.codes
    order = np.random.default_rng(0).permutation(300)
    method = HGCN(epochs=80, seed=1)
    method.fit(graph, task="classify", train_rows=order[:60], validation_rows=order[60:110])
    test = order[110:]
    assert (method.class_scores_[test].argmax(1) == codes[test]).mean() > 0.85
    assert 2 <= len(method.levels_) <= 4
    sizes = [int(level.max()) + 1 for level in method.levels_]
    assert sizes == sorted(sizes, reverse=True)
    for fine, coarse in pairwise(method.levels_):
        # Nested: members of one fine group are never torn apart later.
        assert len(np.unique(np.stack([fine, coarse]), axis=1).T) == fine.max() + 1
    # Neighbours merge, so groups are mostly of one class.
    fine = method.levels_[0]
    same = [np.bincount(codes[fine == g]).max() for g in range(sizes[0])]
    assert sum(same) / 300 > 0.8


def test_no_level_at_all_is_a_plain_convolution_network() -> None:
    graph = planted_hierarchy((2, 2), 120, seed=3).graph
    method = HGCN(levels=0, epochs=3).fit(graph, task="classify")
    assert method.levels_ is None
    assert np.isfinite(method.class_scores_).all()


def test_what_does_not_fit_is_refused_with_a_reason() -> None:
    graph = planted_hierarchy((2, 2), 120, seed=3).graph
    with pytest.raises(InputError, match=r"hgcn would need about .* lower dim or levels"):
        HGCN(memory_gib=1e-5).fit(graph, task="classify")
    with pytest.raises(InputError, match="cannot embed"):
        HGCN().fit(graph)
    with pytest.raises(InputError, match="max_weight at least 1, got 4 and 0"):
        HGCN(max_weight=0).fit(graph, task="classify")
    with pytest.raises(InputError, match="channels"):
        HGCN(channels=0).fit(graph, task="classify")
    coarsening = coarsen(graph)
    assert step_bytes(coarsening, 64) > step_bytes(coarsening, 32)
