import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import dendrogram, fcluster, is_monotonic, is_valid_linkage

from graphham.errors import InputError
from graphham.graph.graph import Labels
from graphham.results.hierarchy import Hierarchy
from tests.outputs import make_result

shapes = st.lists(st.integers(1, 8), min_size=1, max_size=4).map(
    lambda counts: tuple(sorted(counts, reverse=True))
)


@given(shapes, st.integers(1, 60), st.booleans())
def test_sizes_add_up(shape, count, tree) -> None:
    result = make_result(count, shape, tree=tree)
    hierarchy = result.hierarchy
    levels = range(1, len(shape) + 1)
    for level in levels:
        assert hierarchy.sizes[level - 1].sum() == count == hierarchy.num_nodes
    for low, high in combinations(levels, 2):
        flow = hierarchy.flows(low, high)
        np.testing.assert_array_equal(flow.sum(1), hierarchy.sizes[low - 1])
        np.testing.assert_array_equal(flow.sum(0), hierarchy.sizes[high - 1])
    for level in levels[1:]:
        held = sum(
            hierarchy.sizes[level - 2][c]
            for g in range(shape[level - 1])
            for c in hierarchy.children(level, g)
        )
        assert held == count
        if tree:
            for g in range(shape[level - 1]):
                below = [hierarchy.sizes[level - 2][c] for c in hierarchy.children(level, g)]
                assert sum(below) == hierarchy.sizes[level - 1][g]
            share = hierarchy.parent_share(level - 1)
            assert np.all((share == 1) | np.isnan(share))
    table = hierarchy.to_table().to_pydict()
    assert sum(table["size"]) == count * len(shape)
    assert sum(table["share"]) == pytest.approx(len(shape))


@given(shapes, st.integers(1, 30), st.booleans())
def test_json_and_back(shape, count, tree) -> None:
    result = make_result(count, shape, tree=tree)
    names = [[f"näme\n{g}" for g in range(k)] for k in shape]
    mine = result.hierarchy.named(names)
    text = json.dumps(mine.to_json())
    back = Hierarchy.from_json(json.loads(text))
    assert json.dumps(back.to_json()) == text
    assert back.names == mine.names
    tree_json = json.loads(text)["tree"]
    assert sum(c["size"] for c in tree_json["children"]) == count

    def leaves(branch):
        below = branch.get("children")
        if below is None:
            return [branch["group"]]
        return [leaf for child in below for leaf in leaves(child)]

    assert sorted(leaves(tree_json)) == list(range(shape[0]))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "other"}, "not a graphham hierarchy"),
        ({"version": 2}, "newer graphham"),
        ({"version": "1"}, "newer graphham"),
        ({"levels": []}, "damaged"),
        ({"flows": [{"lower": 1, "upper": 2, "counts": [[1]]}]}, "damaged"),
        ({"flows": 3}, "damaged"),
    ],
)
def test_a_foreign_or_damaged_file_is_refused(change, words) -> None:
    good = make_result().hierarchy.to_json()
    with pytest.raises(InputError, match=words):
        Hierarchy.from_json(good | change)


@given(shapes)
def test_the_linkage_cuts_into_the_levels(shape) -> None:
    result = make_result(10, shape)
    linkage = result.hierarchy.to_linkage()
    assert linkage.shape == (shape[0] - 1, 4)
    if shape[0] == 1:
        return
    assert is_valid_linkage(linkage)
    assert is_monotonic(linkage)
    assert sorted(dendrogram(linkage, no_plot=True)["leaves"]) == list(range(shape[0]))
    above = np.arange(shape[0])
    for level, parent in enumerate(result.parents, 1):
        above = parent[above]
        cut = fcluster(linkage, level + 0.5, "distance")
        assert len(set(zip(cut, above, strict=True))) == len(set(cut)) == len(set(above))


def test_levels_are_counted_from_one() -> None:
    hierarchy = make_result().hierarchy
    for pair in ((0, 1), (2, 1), (1, 3), (1, 1)):
        with pytest.raises(InputError, match=r"levels run from 1 \(fine\) to 2"):
            hierarchy.flows(*pair)


def test_metrics_tell_a_good_tree_from_a_collapsed_one() -> None:
    truth = np.repeat(np.arange(6), 20).astype(np.int32)
    hot = [np.eye(6, dtype=np.float32)[truth], np.eye(3, dtype=np.float32)[truth // 2]]
    base = make_result(120)
    good = replace(
        base,
        memberships=hot,
        groups=[truth, truth // 2],
        parents=[np.arange(6, dtype=np.int32) // 2],
        labels=Labels(tuple("abc"), codes=truth // 2),
    ).validate()
    found = good.metrics
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["nesting"] == pytest.approx(1)
    assert (found["used_1"], found["used_2"], found["groups_1"]) == (6, 3, 6)
    assert found["nmi_2"] == pytest.approx(1)
    assert found["nmi_1"] < 1
    zero = np.zeros(120, dtype=np.int32)
    bad = replace(good, groups=[truth, zero], parents=[])
    found = bad.metrics
    assert found["nesting"] == 0
    assert found["used_2"] == 1
    assert found["largest_share_2"] == 1
    assert found["parents_from"] == "majority"


def test_one_level_has_no_nesting() -> None:
    found = make_result(10, (3,), labels="none").metrics
    assert found["nesting"] is None
    assert "nmi_1" not in found
