"""Nested starts: how many pieces each group is cut into, and that cuts respect the tree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphham.groups.group_tree import allot, group_tree, trees_above


def blobs(centers, each, noise=0.02, seed=0):
    rng = np.random.default_rng(seed)
    centers = np.asarray(centers, dtype=np.float32)
    points = np.repeat(centers, each, axis=0)
    return (points + noise * rng.normal(size=points.shape)).astype(np.float32)


def test_pieces_go_where_the_spread_is():
    sizes = np.array([100, 10, 50])
    # Cut into 1, 2, 3 ... pieces a spread of 12 leaves 12, 6, 4 ...
    spread = np.array([0.0, 12.0, 5.0])
    assert allot(spread, sizes, 3).tolist() == [1, 1, 1]
    assert allot(spread, sizes, 4).tolist() == [1, 2, 1]
    assert allot(spread, sizes, 5).tolist() == [1, 2, 2]  # 5 - 2.5 saves more than 6 - 4
    assert allot(spread, sizes, 6).tolist() == [1, 3, 2]


@given(
    st.lists(st.tuples(st.floats(0, 100), st.integers(0, 9)), min_size=1, max_size=6),
    st.integers(0, 20),
)
def test_pieces_add_up_and_no_group_is_cut_finer_than_its_members(groups, more):
    spread = np.array([s for s, _ in groups])
    sizes = np.array([n for _, n in groups])
    pieces = allot(spread, sizes, len(groups) + more)
    assert pieces.sum() == len(groups) + more
    assert pieces.min() >= 1
    if len(groups) + more <= np.maximum(sizes, 1).sum():
        assert (pieces <= np.maximum(sizes, 1)).all()


def test_a_planted_tree_is_found_and_its_cuts_nest():
    # Two far sets of three and one blobs: children go to the mixed parent.
    centers = [[0, 0], [0, 1], [1, 0], [9, 9]]
    codes, parents = group_tree(blobs(centers, 20), (4, 2), 0)
    truth = np.repeat(np.arange(4), 20)
    for group in range(4):
        assert len(np.unique(codes[truth == group])) == 1
    assert sorted(codes[::20].tolist()) == [0, 1, 2, 3]
    above = parents[0][codes]
    assert len(np.unique(above[:60])) == 1
    assert above[60] != above[0]
    assert sorted(np.bincount(parents[0]).tolist()) == [1, 3]


@pytest.mark.parametrize("groups", [(1,), (3,), (7, 3), (9, 4, 2), (5, 5)])
def test_every_group_has_a_parent_and_every_parent_a_child(groups):
    points = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    codes, parents = group_tree(points, groups, 5)
    assert codes.dtype == np.int64
    assert sorted(np.unique(codes)) == list(range(groups[0]))
    assert [len(p) for p in parents] == list(groups[:-1])
    for parent, count in zip(parents, groups[1:], strict=True):
        assert sorted(np.unique(parent)) == list(range(count))
    again, same = group_tree(points, groups, 5)
    np.testing.assert_array_equal(codes, again)
    for one, other in zip(parents, same, strict=True):
        np.testing.assert_array_equal(one, other)


def test_more_groups_than_distinct_points_leave_some_empty():
    points = np.repeat(np.eye(2, dtype=np.float32), [3, 2], axis=0)
    codes, parents = group_tree(points, (8, 2), 0)
    assert len(parents[0]) == 8
    assert codes.max() < 8
    assert parents[0].max() == 1
    # Equal points may be told apart, but never the two kinds put together at the top.
    assert len({int(parents[0][c]) for c in codes[:3]}) == 1
    assert parents[0][codes[0]] != parents[0][codes[4]]


def test_trees_are_joined_by_links_and_by_features():
    """Four groups of equal size: links pair them one way, features the other."""
    codes = np.repeat(np.arange(4), 50)
    links = np.array([[60, 30, 2, 2], [30, 60, 2, 2], [2, 2, 60, 30], [2, 2, 30, 60]], float) * 20
    apart = blobs([[0, 0], [9, 9], [0, 1], [9, 8]], 50)
    told = trees_above(codes, links, apart * 1e-6, (4, 2, 1))
    assert told[0][0].tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    assert told[1][0].tolist() in ([0, 1, 0, 1], [1, 0, 1, 0])
    for tree in told:
        assert tree[1].tolist() == [0, 0]


def test_an_empty_group_has_a_parent_too():
    codes = np.repeat([0, 1, 3], 40)
    points = blobs([[0, 0], [5, 5], [5, 6]], 40)
    for tree in trees_above(codes, np.diag([40.0, 40.0, 0.0, 40.0]), points, (4, 2)):
        assert sorted(set(tree[0].tolist())) == [0, 1]
