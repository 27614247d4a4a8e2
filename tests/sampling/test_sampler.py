import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from graphham.errors import InputError
from graphham.graph.graph import build_graph
from graphham.graph.neighborhoods import Block
from graphham.sampling.keys import derive_key, numpy_generator, torch_generator
from graphham.sampling.sampler import NeighborSampler, sample_block
from graphham.sampling.walks import sample_negatives, walk_contexts


def random_graph(num_nodes, num_edges, seed=0, weighted=False, directed=False):
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, num_nodes, (2, num_edges))
    weights = rng.uniform(0.5, 4.0, num_edges) if weighted else None
    return build_graph(*ends, num_nodes, weights=weights, directed=directed)


@st.composite
def graphs(draw):
    return random_graph(
        draw(st.integers(1, 25)),
        draw(st.integers(0, 120)),
        draw(st.integers(0, 2**32 - 1)),
        draw(st.booleans()),
        draw(st.booleans()),
    )


def rows_of(block):
    """Return each target's sources as graph rows, in block order."""
    found = {}
    for t in range(block.num_targets):
        local = block.indices[block.indptr[t] : block.indptr[t + 1]]
        found[int(block.source_rows[t])] = block.source_rows[local].tolist()
    return found


@given(graph=graphs(), fanout=st.integers(0, 8), key=st.integers(0, 2**64 - 1), data=st.data())
def test_sampled_neighbours_are_real_distinct_and_enough(graph, fanout, key, data):
    nodes = st.integers(0, graph.num_nodes - 1)
    targets = data.draw(st.lists(nodes, unique=True))
    self_edge = data.draw(st.booleans())
    block = sample_block(graph, targets, fanout, key, self_edge)
    assert block.source_rows[: len(targets)].tolist() == targets
    assert len(set(block.source_rows.tolist())) == block.num_sources
    for node, found in rows_of(block).items():
        if self_edge:
            assert found.pop(0) == node
        assert len(set(found)) == len(found) == min(fanout, len(graph.neighbors(node)))
        assert set(found) <= set(graph.neighbors(node).tolist())
    used = set(block.indices.tolist()) | set(range(len(targets)))
    assert used == set(range(block.num_sources)), "no source is there for nothing"


@given(graph=graphs(), fanout=st.integers(1, 4), key=st.integers(0, 2**64 - 1), data=st.data())
def test_a_batch_draws_for_each_node_what_the_node_draws_alone(graph, fanout, key, data):
    nodes = st.integers(0, graph.num_nodes - 1)
    targets = data.draw(st.lists(nodes, unique=True, min_size=1))
    cut = data.draw(st.integers(0, len(targets)))
    sampler = NeighborSampler(graph)
    together = rows_of(sampler.sample_block(targets, fanout, key))
    first = rows_of(sampler.sample_block(targets[:cut], fanout, key))
    second = rows_of(sampler.sample_block(targets[cut:][::-1], fanout, key))
    assert together == first | second
    walks = walk_contexts(graph, targets, 3, 4, key)
    negatives = sample_negatives(graph, targets, 3, key)
    for place, node in enumerate(targets):
        np.testing.assert_array_equal(walks[place], walk_contexts(graph, [node], 3, 4, key)[0])
        np.testing.assert_array_equal(negatives[place], sample_negatives(graph, [node], 3, key)[0])


@given(graph=graphs(), self_edge=st.booleans())
def test_all_neighbours_of_all_nodes_give_the_full_block(graph, self_edge):
    everyone = np.arange(graph.num_nodes)
    block = sample_block(graph, everyone, None, 0, self_edge)
    full = Block.full(graph, self_edge)
    np.testing.assert_array_equal(block.indptr, full.indptr)
    np.testing.assert_array_equal(block.indices, full.indices)
    if graph.weights is not None:
        np.testing.assert_allclose(block.weights, full.weights, rtol=1e-6)


def test_weights_follow_the_sampled_edges():
    graph = random_graph(40, 600, weighted=True)
    block = sample_block(graph, np.arange(0, 40, 3), 5, 11)
    adjacency = graph.adjacency().toarray()
    for t in range(block.num_targets):
        edges = slice(block.indptr[t] + 1, block.indptr[t + 1])
        row, columns = block.source_rows[t], block.source_rows[block.indices[edges]]
        np.testing.assert_array_equal(block.weights[edges], adjacency[row, columns])
        own = block.weights[block.indptr[t]]
        np.testing.assert_allclose(own, block.weights[edges].mean(), rtol=1e-6)


def test_layers_fit_together_and_draw_differently():
    graph = random_graph(500, 6000)
    targets = np.array([3, 77, 240])
    sampler = NeighborSampler(graph)
    blocks = sampler.sample_blocks(targets, [4, 6], key=5)
    assert [b.degrees().max() for b in blocks] == [5, 7]
    np.testing.assert_array_equal(blocks[1].target_rows, targets)
    np.testing.assert_array_equal(blocks[0].target_rows, blocks[1].source_rows)
    even = sampler.sample_blocks(targets, [6, 6], key=5)
    inner, outer = rows_of(even[0]), rows_of(even[1])
    assert any(inner[t] != outer[t] for t in targets)
    assert rows_of(sampler.sample_blocks(targets, [4, 6], key=6)[1]) != rows_of(blocks[1])


def test_every_subset_of_neighbours_is_equally_likely():
    star = build_graph(np.zeros(6, int), np.arange(1, 7), 7)
    sampler = NeighborSampler(star)
    counts = {}
    for key in range(6000):
        chosen = frozenset(rows_of(sampler.sample_block([0], 3, derive_key(0, key), False))[0])
        counts[chosen] = counts.get(chosen, 0) + 1
    assert len(counts) == 20
    assert chisquare(list(counts.values())).pvalue > 1e-3


def test_nodes_draw_independently_of_each_other():
    """Equal neighbourhoods, neighbouring rows: the picks must not move together."""
    left = np.repeat(np.arange(2000), 2)
    right = np.tile([2000, 2001], 2000)
    graph = build_graph(left, right, 2002)
    block = sample_block(graph, np.arange(2000), 1, 3, self_edge=False)
    picks = block.source_rows[block.indices] - 2000
    assert abs(picks.mean() - 0.5) < 0.04
    for lag in (1, 2, 7):
        assert abs(np.corrcoef(picks[:-lag], picks[lag:])[0, 1]) < 0.08


def test_read_only_graphs_are_served():
    graph = random_graph(30, 100, weighted=True)
    closed = replace(graph, indptr=graph.indptr.copy(), indices=graph.indices.copy())
    for array in (closed.indptr, closed.indices):
        array.flags.writeable = False
    assert rows_of(sample_block(closed, [1, 2], 3, 5)) == rows_of(sample_block(graph, [1, 2], 3, 5))
    np.testing.assert_array_equal(
        walk_contexts(closed, [4], 5, 3, 1), walk_contexts(graph, [4], 5, 3, 1)
    )


def test_threads_that_share_a_sampler_do_not_disturb_each_other():
    graph = random_graph(2000, 30000)
    batches = np.random.default_rng(0).permutation(2000).reshape(20, 100)
    expected = [rows_of(sample_block(graph, batch, 5, 1)) for batch in batches]
    found = [None] * len(batches)
    sampler = NeighborSampler(graph)

    def work(places):
        for place in places:
            found[place] = rows_of(sampler.sample_block(batches[place], 5, 1))

    threads = [threading.Thread(target=work, args=(range(k, 20, 3),)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda g: sample_block(g, [1, 2, 1], 3, 0), "row 1 is a target twice"),
        (lambda g: sample_block(g, [1, 30], 3, 0), r"row 30 lies outside 0\.\.29"),
        (lambda g: sample_block(g, [-1], 3, 0), "row -1"),
        (lambda g: sample_block(g, [1], -3, 0), "fan-out.*-3"),
        (lambda g: sample_block(g, [0.5], 3, 0), "float64"),
        (lambda g: sample_block(g, [[1]], 3, 0), r"shape \(1, 1\)"),
        (lambda g: walk_contexts(g, [1], -1, 2, 0), "got -1 and 2"),
        (lambda g: sample_negatives(g, [1], -1, 0), "got -1"),
    ],
)
def test_wrong_requests_are_named(call, said):
    with pytest.raises(InputError, match=said):
        call(random_graph(30, 60))


def test_a_refused_request_leaves_the_sampler_usable():
    graph = random_graph(30, 200)
    sampler = NeighborSampler(graph)
    with pytest.raises(InputError):
        sampler.sample_block([1, 1], 3, 0)
    assert rows_of(sampler.sample_block([1, 2], 3, 0)) == rows_of(sample_block(graph, [1, 2], 3, 0))


def test_keys_differ_by_every_part_and_stay_the_same_for_ever():
    made = [
        derive_key(0),
        derive_key(1),
        derive_key(-1),
        derive_key(0, 1),
        derive_key(0, "1"),
        derive_key(0, "a", "b"),
        derive_key(0, "b", "a"),
        derive_key(0, "ab"),
        derive_key(0, 1, 2),
        derive_key(0, 12),
    ]
    assert len({int(k) for k in made}) == len(made)
    # Stored runs repeat only as long as this number does not change.
    assert int(derive_key(7, "walk", 3)) == 16193255910403223391
    assert derive_key(np.int64(7), "walk", np.int32(3)) == derive_key(7, "walk", 3)
    with pytest.raises(TypeError, match="float"):
        derive_key(0, 1.5)


def test_generators_depend_on_the_key_alone():
    key = derive_key(3, "init")
    assert numpy_generator(key).random() == numpy_generator(key).random()
    assert numpy_generator(key).random() != numpy_generator(derive_key(4, "init")).random()
    before = torch.get_rng_state()
    one = torch.rand(3, generator=torch_generator(key))
    assert torch.equal(one, torch.rand(3, generator=torch_generator(key)))
    assert torch.equal(before, torch.get_rng_state())


def test_draws_stay_the_same_for_ever():
    graph = build_graph(np.zeros(9, int), np.arange(1, 10), 10)
    drawn = rows_of(sample_block(graph, [0], 3, 42, self_edge=False))[0]
    walks = walk_contexts(graph, [0, 5], 2, 2, 42).tolist()
    negatives = sample_negatives(graph, [5], 4, 42).tolist()
    assert (drawn, walks, negatives) == (
        [3, 8, 5],
        [[[4, -1], [1, -1]], [[0, 6], [0, -1]]],
        [[4, 1, 2, 4]],
    )
