"""The flat block model: memberships of few groups, their tables, rounds, and rewired copies."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from graphham.graph.planted import planted_hierarchy
from graphham.groups.flat_blocks import (
    FewGroups,
    block_data,
    estimate_rates,
    fit_rounds,
    group_logits,
    group_tables,
    in_one_group,
    one_round,
    regrouped,
    rewired,
    surroundings,
)
from graphham.kernels import few_group_loops as loops


def some_links(n, degree, seed):
    ends = np.random.default_rng(seed).integers(n, size=(2, n * degree // 2))
    ends = ends[:, ends[0] != ends[1]]
    half = sp.csr_matrix((np.ones(ends.shape[1], np.float32), ends), shape=(n, n))
    both = (half + half.T).tocsr()
    both.data[:] = 1.0
    return both


def test_a_rewired_copy_of_a_large_graph_has_some_of_its_nodes():
    x = np.random.default_rng(1).normal(size=(300, 3)).astype(np.float32)
    data = block_data(some_links(300, 6, 1), x)
    copy = rewired(data, np.random.default_rng(0), 100)
    assert (copy.num_nodes, copy.x.shape, len(copy.seen)) == (100, (100, 3), 100)
    # Nodes keep their degrees, but for loops and an end left over.
    assert copy.degrees.mean() == pytest.approx(data.degrees.mean(), rel=0.15)
    np.testing.assert_allclose(copy.squares, np.square(copy.x).sum(0), rtol=1e-4)
    assert (copy.adjacency != copy.adjacency.T).nnz == 0
    assert rewired(data, np.random.default_rng(0), 300).num_nodes == 300


def test_rewired_links_keep_degrees():
    adjacency = planted_hierarchy((3, 4), 1200, features="none", seed=3).graph.adjacency()
    data = block_data(adjacency, None)
    copy = rewired(data, np.random.default_rng(0))
    assert copy.adjacency.diagonal().sum() == 0
    assert np.abs(copy.degrees - data.degrees).max() <= 1
    assert abs(copy.adjacency - copy.adjacency.T).sum() == 0
    assert copy.adjacency.multiply(data.adjacency).sum() < 0.2 * data.adjacency.sum()


def some_memberships(n=60, count=7, seed=0):
    logits = (3 * np.random.default_rng(seed).normal(size=(n, count))).astype(np.float32)
    held = FewGroups(np.empty((n, 4), np.int32), np.empty((n, 4), np.float32), count)
    loops.keep_largest(logits, held.groups, held.shares)
    dense = np.zeros((n, count))
    np.add.at(dense, (np.arange(n)[:, None], held.groups), held.shares)
    return logits, held, dense


def test_memberships_keep_the_largest_shares_in_order():
    logits, held, dense = some_memberships()
    exact = np.exp(logits - logits.max(1, keepdims=True))
    kept = np.where(np.argsort(np.argsort(-exact, 1), 1) < 4, exact, 0)
    kept = np.where(kept > 1e-3, kept, 0)
    np.testing.assert_allclose(dense, kept / kept.sum(1, keepdims=True), atol=1e-6)
    assert (np.diff(held.shares, axis=1) <= 0).all()
    parents = np.array([0, 1, 0, 2, 1, 2, 2], np.int32)
    joined = regrouped(held, parents, 3)
    expected = dense @ np.eye(3)[parents]
    found = np.zeros((60, 3))
    np.add.at(found, (np.arange(60)[:, None], joined.groups), joined.shares)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert (np.diff(joined.shares, axis=1) <= 1e-7).all()


def test_tables_are_those_of_dense_products():
    _, held, dense = some_memberships()
    adjacency = some_links(60, 6, 1)
    x = np.random.default_rng(1).normal(size=(60, 3)).astype(np.float32)
    data = block_data(adjacency, x)
    tables = group_tables(data, held)
    np.testing.assert_allclose(tables.links, dense.T @ data.adjacency @ dense, atol=1e-4)
    np.testing.assert_allclose(tables.sizes, dense.sum(0), atol=1e-5)
    np.testing.assert_allclose(tables.sums, dense.T @ data.x, atol=1e-4)
    sure = np.where(dense > 0, dense, 1.0)
    assert tables.entropy == pytest.approx(-(sure * np.log(sure)).sum(), rel=1e-5)
    both = dense[:, 0] + dense[:, 1]
    parts = [
        np.where(v > 0, v * np.log(np.where(v > 0, v, 1)), 0).sum()
        for v in (both, dense[:, 0], dense[:, 1])
    ]
    assert tables.shared[0, 1] == pytest.approx(parts[0] - parts[1] - parts[2], abs=1e-4)


def test_a_round_is_a_softmax_over_links_degrees_sizes_and_features():
    _, held, dense = some_memberships()
    x = np.random.default_rng(1).normal(size=(60, 3)).astype(np.float32)
    x[:30, 0] += 6 * dense[:30, 0]
    data = block_data(some_links(60, 6, 1), x)
    around = surroundings(data, held)
    rates = estimate_rates(group_tables(data, held, around))
    np.testing.assert_allclose(around, data.adjacency @ dense, atol=1e-4)
    links = dense.T @ data.adjacency @ dense
    ends = links.sum(1)
    odds = (links + 1) / (np.outer(ends, ends) / ends.sum() + 1)
    expected = (data.adjacency @ dense) @ np.log(odds)
    expected -= np.outer(data.degrees, odds @ ends / ends.sum())
    expected += np.log(dense.sum(0) / dense.sum())
    for dim in rates.is_open.tolist():
        means = (dense.T @ data.x[:, dim]) / dense.sum(0)
        within = (data.x[:, dim] ** 2).sum() - (dense.sum(0) * means**2).sum()
        expected += (np.outer(data.x[:, dim], means) - means**2 / 2) * 60 / within
    told = group_logits(data, 0, 60, around, rates)
    np.testing.assert_allclose(told, expected, atol=2e-3)
    moved = one_round(data, held, rates, around)
    np.testing.assert_array_equal(moved.groups[:, 0], told.argmax(1))
    fewer = one_round(data, held, rates, around, np.array([1, 3, 4]))
    assert fewer.count == 3
    np.testing.assert_array_equal(fewer.groups[:, 0], told[:, [1, 3, 4]].argmax(1))


def test_rounds_repair_a_start_with_errors():
    planted = planted_hierarchy((4,), 400, edge_shares=(0.8, 0.2), features="none", seed=0)
    true = planted.levels[0]
    start = true.copy()
    wrong = np.random.default_rng(0).permutation(400)[:120]
    start[wrong] = (start[wrong] + 1) % 4
    data = block_data(planted.graph.adjacency(), None)
    found = fit_rounds(data, in_one_group(start), 10).groups[:, 0]
    assert (found == true).mean() > 0.98
    with pytest.raises(Exception, match="3 rows"):
        block_data(planted.graph.adjacency(), np.ones((3, 2), np.float32))
