import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.graph.graph import build_graph
from graphham.graph.neighborhoods import Block
from graphham.kernels import mean_aggregate


@st.composite
def graphs(draw, weighted=None):
    num_nodes = draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    ends = rng.integers(0, num_nodes, (2, draw(st.integers(0, 30))))
    has_weights = draw(st.booleans()) if weighted is None else weighted
    weights = rng.uniform(0.5, 4.0, ends.shape[1]) if has_weights else None
    return build_graph(*ends, num_nodes, weights=weights, directed=draw(st.booleans()))


def dense(block):
    """Return the block as a (targets, sources) matrix of summed weights."""
    matrix = np.zeros((block.num_targets, block.num_sources))
    weights = np.ones(block.num_edges) if block.weights is None else block.weights
    np.add.at(matrix, (block.edge_targets, block.indices), weights)
    return matrix


@given(graph=graphs())
def test_full_block_is_the_adjacency_with_the_node_itself_first(graph):
    plain = Block.full(graph, self_edge=False)
    np.testing.assert_allclose(dense(plain), graph.adjacency().toarray())
    block = Block.full(graph)
    np.testing.assert_array_equal(block.indices[block.indptr[:-1]], np.arange(graph.num_nodes))
    matrix = dense(block)
    rows = graph.adjacency().toarray()
    degree = graph.degrees()
    own = np.where(degree > 0, rows.sum(1) / np.maximum(degree, 1), 1.0)
    np.testing.assert_allclose(
        np.diag(matrix), own if graph.weights is not None else 1.0, rtol=1e-6
    )
    np.testing.assert_allclose(matrix - np.diag(np.diag(matrix)), rows)


@given(graph=graphs())
def test_transpose_lists_every_edge_once_by_source(graph):
    block = Block.full(graph)
    assert sorted(block.t_edges) == list(range(block.num_edges))
    sources = np.repeat(np.arange(block.num_sources), np.diff(block.t_indptr))
    np.testing.assert_array_equal(block.indices[block.t_edges], sources)
    np.testing.assert_array_equal(block.edge_targets[block.t_edges], block.t_targets)


@given(graph=graphs())
def test_mean_weights_sum_to_one(graph):
    block = Block.full(graph)
    sums = np.bincount(block.edge_targets, block.mean_weights, graph.num_nodes)
    np.testing.assert_allclose(sums, 1.0, rtol=1e-5)


@given(graph=graphs(weighted=True), scale=st.sampled_from([0.001, 1000.0]))
def test_the_unit_of_edge_weights_does_not_matter_to_means(graph, scale):
    from dataclasses import replace

    scaled = replace(graph, weights=(graph.weights * scale).astype(np.float32))
    values = torch.arange(2.0 * graph.num_nodes).reshape(-1, 2)
    torch.testing.assert_close(
        mean_aggregate(values, Block.full(graph)),
        mean_aggregate(values, Block.full(scaled)),
        rtol=1e-4,
        atol=1e-4,
    )


@given(graph=graphs(), self_edge=st.booleans())
def test_edge_list_gives_the_same_block_in_any_order(graph, self_edge):
    block = Block.full(graph, self_edge=False)
    order = np.random.default_rng(0).permutation(block.num_edges)
    weights = None if block.weights is None else block.weights[order]
    built = Block.from_edges(
        block.indices[order],
        block.edge_targets[order],
        graph.num_nodes,
        self_edge=self_edge,
        weights=weights,
    )
    np.testing.assert_allclose(dense(built), dense(Block.full(graph, self_edge)), rtol=1e-6)


def test_dropping_edges_takes_both_directions_and_spares_self_edges():
    rng = np.random.default_rng(0)
    graph = build_graph(*rng.integers(0, 200, (2, 3000)), 200, weights=np.ones(3000))
    block = Block.full(graph)
    kept = block.drop_edges(0.3, key=5)
    matrix = dense(kept)
    assert (np.diag(matrix) > 0).all()
    np.testing.assert_array_equal(matrix > 0, matrix.T > 0)
    before = dense(block)
    assert (np.abs(matrix - before)[matrix > 0] == 0).all(), "kept edges keep their weights"
    share = 1 - (kept.num_edges - 200) / (block.num_edges - 200)
    assert abs(share - 0.3) < 0.03
    assert kept.num_edges == block.drop_edges(0.3, key=5).num_edges
    assert (dense(block.drop_edges(0.3, key=6)) != matrix).any()
    assert block.drop_edges(0.0, key=5) is block


def test_dropping_edges_agrees_between_the_full_graph_and_a_part_of_it():
    rng = np.random.default_rng(1)
    graph = build_graph(*rng.integers(0, 50, (2, 400)), 50)
    whole = dense(Block.full(graph, self_edge=False).drop_edges(0.5, key=9))
    rows = np.array([7, 3, 41, 12])
    adjacency = graph.adjacency()[rows].toarray() > 0
    others = np.setdiff1d(np.flatnonzero(adjacency.any(0)), rows)
    sources = np.concatenate([rows, others])
    targets, columns = np.nonzero(adjacency[:, sources])
    part = Block.from_edges(columns, targets, 4, len(sources))
    part = Block(part.indptr, part.indices, len(sources), False, None, sources)
    dropped = part.drop_edges(0.5, key=9)
    np.testing.assert_array_equal(dense(dropped), whole[rows][:, sources])
    np.testing.assert_array_equal(dropped.target_rows, rows)


def test_tensors_hold_the_same_edges_and_are_made_once():
    block = Block([0, 2, 2, 3], [0, 3, 2], 4, self_edge=False, weights=[1.0, 3.0, 2.0])
    parts = block.to("cpu")
    assert parts is block.to(torch.device("cpu"))
    assert parts.targets.tolist() == [0, 0, 2]
    assert parts.sources.tolist() == [0, 3, 2]
    assert parts.mean_weights.tolist() == [0.25, 0.75, 1.0]


def test_arrays_are_shared_with_the_graph_and_cannot_be_written():
    graph = build_graph(np.array([0, 1]), np.array([1, 2]), 3)
    block = Block.full(graph, self_edge=False)
    assert np.shares_memory(block.indices, graph.indices)
    with pytest.raises(ValueError, match="read-only"):
        block.indices[0] = 2
    assert graph.indices.flags.writeable


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Block([0, 2], [0], 1), "do not add up"),
        (lambda: Block([0, 1, 1], [0], 1), "2 targets but only 1 sources"),
        (lambda: Block([0, 1], [0], 1, weights=[1.0, 2.0]), "1 edges but 2 weights"),
        (lambda: Block([0, 1], [0], 1, source_rows=[4, 5]), "1 sources but 2 source rows"),
        (lambda: Block.from_edges([0, 7], [0, 1], 3), r"source 7 lies outside 0\.\.2"),
        (lambda: Block.from_edges([0, 1], [0, -1], 3), r"target -1 lies outside 0\.\.2"),
        (lambda: Block.from_edges([0], [0, 1], 3), "1 edge sources but 2 edge targets"),
        (lambda: Block.from_edges([0], [1], 3, weights=[1.0, 2.0]), "1 edges but 2 weights"),
        (lambda: Block([0, 1], [0], 1).drop_edges(1.5, 0), "got 1.5"),
    ],
)
def test_damaged_blocks_are_refused(make, said):
    with pytest.raises(InputError, match=said):
        make()
