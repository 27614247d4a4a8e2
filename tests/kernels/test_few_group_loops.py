"""Loops over memberships of few groups, beside dense products."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from graphham.kernels import few_group_loops as loops


@pytest.fixture(scope="module")
def held():
    draw = np.random.default_rng(0)
    logits = (2 * draw.normal(size=(50, 6))).astype(np.float32)
    groups, shares = np.empty((50, 3), np.int32), np.empty((50, 3), np.float32)
    loops.keep_largest(logits, groups, shares)
    return logits, groups, shares


@pytest.fixture(scope="module")
def links():
    made = sp.random(50, 50, 0.1, "csr", np.float32, random_state=np.random.default_rng(1))
    made.sort_indices()
    return made


def dense(groups, shares, count):
    out = np.zeros((len(groups), count))
    np.add.at(out, (np.arange(len(groups))[:, None], groups), shares)
    return out


def test_the_largest_stay_in_order_and_traces_go(held):
    logits, groups, shares = held
    np.testing.assert_array_equal(groups, np.argsort(-logits, axis=1, kind="stable")[:, :3])
    np.testing.assert_allclose(shares.sum(1), 1, atol=1e-6)
    sure = np.array([[0, 20, 0, 1]], np.float32)
    few, parts = np.empty((1, 3), np.int32), np.empty((1, 3), np.float32)
    loops.keep_largest(sure, few, parts)
    assert (few[0, 0], parts[0].tolist()) == (1, [1.0, 0.0, 0.0])
    # Fewer groups than places: the rest of the row is empty.
    loops.keep_largest(np.array([[0.0, 0.0]], np.float32), few, parts)
    assert parts[0].tolist() == [0.5, 0.5, 0.0]


def test_sums_over_links_are_products(held, links):
    _, groups, shares = held
    member = dense(groups, shares, 6)
    around = np.zeros((50, 6), np.float32)
    loops.gather(links.indptr, links.indices, links.data, groups, shares, around)
    np.testing.assert_allclose(around, links @ member, atol=1e-5)
    table = np.zeros((6, 6))
    loops.add_links(around, groups, shares, table)
    np.testing.assert_allclose(table, member.T @ (links @ member), atol=1e-4)


def test_nodes_are_added_up_with_their_entropy(held):
    _, groups, shares = held
    member = dense(groups, shares, 6)
    x = np.random.default_rng(2).normal(size=(50, 4)).astype(np.float32)
    has = (np.arange(50) % 3 > 0).astype(np.float32)
    sizes, seen, sums, shared = np.zeros(6), np.zeros(6), np.zeros((6, 4)), np.zeros((6, 6))
    entropy = loops.add_nodes(groups, shares, x, has, sizes, seen, sums, shared)
    np.testing.assert_allclose(sizes, member.sum(0), atol=1e-5)
    np.testing.assert_allclose(seen, has @ member, atol=1e-5)
    np.testing.assert_allclose(sums, member.T @ x, atol=1e-4)
    safe = np.where(member > 0, member, 1)
    assert entropy == pytest.approx(-(safe * np.log(safe)).sum(), rel=1e-5)
    assert (shared >= -1e-12).all()
    assert shared.sum() > 0


def test_groups_of_groups_add_their_shares(held):
    _, groups, shares = held
    parents = np.array([0, 0, 1, 1, 2, 2], np.int32)
    joined, parts = groups.copy(), shares.copy()
    loops.regroup(joined, parts, parents)
    expected = dense(groups, shares, 6) @ np.eye(3)[parents]
    np.testing.assert_allclose(dense(joined, parts, 3), expected, atol=1e-6)
    assert (np.diff(parts, axis=1) <= 1e-7).all()
