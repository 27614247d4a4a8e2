import time
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.graph.graph import Labels
from graphham.results.describe import (
    boundary_table,
    groups_table,
    two_strongest,
)
from tests.outputs import HOSTILE, make_graph, make_result


def test_a_group_is_described_by_its_own_words() -> None:
    result = make_result(400, (6, 3))
    rows = groups_table(result, make_graph(result)).to_pylist()
    for row in rows:
        words = [f["feature"] for f in row["typical_features"]]
        own = [g for g in range(6) if row["level"] == 1 or result.parents[0][g] == row["group"]]
        if row["level"] == 1:
            own = [row["group"]]
        sizes = np.bincount(result.groups[0], minlength=6)
        assert set(words[: len(own)]) == {f"use::topic{g}x" for g in own if sizes[g]}
        top = row["typical_features"][0]
        assert top["lift"] > 1.5
        members = result.groups[row["level"] - 1] == row["group"]
        has = result.groups[0][members] == int(top["feature"][10])
        assert top["share"] == pytest.approx(has.mean())
    assert {r["name"] for r in rows if r["level"] == 1} == {f"topic{g}x" for g in range(6)}


def test_lift_is_near_the_plain_ratio_in_large_groups() -> None:
    result = make_result(3000, (3,), labels="none")
    graph = make_graph(result)
    for row in groups_table(result, graph).to_pylist():
        top = row["typical_features"][0]
        assert top["lift"] == pytest.approx(1 / row["share"], rel=0.02)


@given(seed=st.integers(0, 30))
def test_sparse_and_dense_features_read_the_same(seed: int) -> None:
    result = make_result(60, (4, 2), seed=seed)
    graph = make_graph(result, seed)
    dense = replace(graph, features=graph.features.toarray())
    assert groups_table(result, graph).equals(groups_table(result, dense))


def test_rare_noise_does_not_win() -> None:
    """Thousands of words carried by two nodes each: some meet in a group by chance."""
    rng = np.random.default_rng(0)
    result = make_result(600, (6,), labels="none")
    own = (result.groups[0][:, None] == np.arange(6)) & (rng.random((600, 6)) < 0.6)
    rare = np.zeros((600, 4000), dtype=bool)
    for word in range(4000):
        rare[rng.choice(600, 2, replace=False), word] = True
    x = sp.csr_matrix(np.hstack([own, rare]).astype(np.float32))
    for row in groups_table(result, make_graph(result, features=x)).to_pylist():
        assert row["typical_features"][0]["feature"] == f"feature {row['group']}"
        # Numbered features make no name; typical nodes do.
        assert row["name"] == "like " + ", ".join(map(str, row["typical_nodes"][:2]))


def test_continuous_features_count_where_they_exceed_the_mean() -> None:
    rng = np.random.default_rng(1)
    result = make_result(500, (2,), labels="none")
    high = result.groups[0] == 1
    x = rng.normal(50, 1, (500, 3)).astype(np.float32)
    x[high, 2] += 10
    graph = make_graph(result, features=x, feature_names=["a", "b", "price"])
    rows = groups_table(result, graph).to_pylist()
    assert rows[1]["typical_features"][0]["feature"] == "price"
    assert rows[1]["typical_features"][0]["share"] == 1
    assert "price" not in [f["feature"] for f in rows[0]["typical_features"]]


def test_typical_nodes_have_the_highest_membership_then_the_nearest_vectors() -> None:
    result = make_result(200, (4, 2), ids=[f"n{i}" for i in range(200)])
    rows = groups_table(result, make_graph(result), top_nodes=7).to_pylist()
    for row in rows:
        level = row["level"] - 1
        inside = np.flatnonzero(result.groups[level] == row["group"])
        assert row["size"] == len(inside)
        found = result.ids.rows(row["typical_nodes"])
        assert set(found) <= set(inside)
        member = np.round(result.memberships[level][:, row["group"]], 3)
        others = np.setdiff1d(inside, found)
        assert member[found].min(initial=1) >= member[others].max(initial=0)
    tied = replace(result, memberships=[m * 0 + 1 / m.shape[1] for m in result.memberships])
    for row in groups_table(tied, make_graph(result), top_nodes=1).to_pylist():
        inside = np.flatnonzero(result.groups[row["level"] - 1] == row["group"])
        vectors = result.embedding / np.linalg.norm(result.embedding, axis=1, keepdims=True)
        nearest = inside[np.argmax(vectors[inside] @ result.embedding[inside].mean(0))]
        assert row["typical_nodes"] == [f"n{nearest}"]


def test_boundary_nodes_have_the_smallest_margins() -> None:
    result = make_result(200, (4, 2))
    for row in groups_table(result, make_graph(result), top_nodes=3).to_pylist():
        level = row["level"] - 1
        ordered = np.sort(result.memberships[level], axis=1)
        margin = ordered[:, -1] - ordered[:, -2]
        inside = np.flatnonzero(result.groups[level] == row["group"])
        found = np.array(row["boundary_nodes"], dtype=int)
        assert margin[found].max(initial=0) <= margin[np.setdiff1d(inside, found)].min(initial=2)


@pytest.mark.parametrize("kind", ["text", "integer", "multi"])
def test_dominant_label_and_purity(kind: str) -> None:
    result = make_result(100, (4, 2), labels=kind)
    assert result.labels is not None
    values = [v if isinstance(v, list) or v is None else [v] for v in result.labels.values()]
    for row in groups_table(result, make_graph(result)).to_pylist():
        inside = np.flatnonzero(result.groups[row["level"] - 1] == row["group"])
        known = [values[i] for i in inside if values[i] is not None]
        having = sum(row["dominant_label"] in v for v in known)
        assert row["purity"] == pytest.approx(having / len(known))
        assert having == max(sum(c in v for v in known) for c in result.labels.classes)


def test_a_graph_without_features_or_labels_still_has_groups() -> None:
    result = make_result(40, (5, 2), labels="none")
    graph = make_graph(result, features=None)
    table = groups_table(result, graph)
    assert all(v == [] for v in table.column("typical_features").to_pylist())
    assert table.column("dominant_label").null_count == table.num_rows
    for row in table.to_pylist():
        assert row["name"].startswith("like ") == (row["size"] > 0)
    assert "typical_titles" not in table.column_names


def test_empty_groups_keep_their_row() -> None:
    result = make_result(20, (5, 2))
    one = replace(
        result,
        groups=[np.zeros(20, dtype=np.int32)] * 2,
        parents=[np.array([0, 1, 1, 1, 1], dtype=np.int32)],
    )
    rows = groups_table(one, make_graph(one)).to_pylist()
    assert [r["size"] for r in rows] == [20, 0, 0, 0, 0, 20, 0]
    assert (
        rows[3]["typical_nodes"] == rows[3]["typical_features"] == rows[3]["boundary_nodes"] == []
    )
    assert rows[3]["parent_share"] is None
    assert rows[3]["dominant_label"] is None


def test_ids_and_titles_are_the_users_own() -> None:
    result = make_result(len(HOSTILE), ids=HOSTILE)
    titles = [f"title of {i!r}" for i in range(len(HOSTILE))]
    rows = groups_table(result, make_graph(result, titles=titles)).to_pylist()
    for row in rows:
        assert set(row["typical_nodes"]) <= set(HOSTILE)
        assert row["typical_titles"] == [
            titles[HOSTILE.index(node)] for node in row["typical_nodes"]
        ]
    other = make_graph(make_result(len(HOSTILE)))
    with pytest.raises(InputError, match="not those of the result"):
        groups_table(result, other)


@given(count=st.integers(1, 20), k=st.integers(1, 6))
def test_two_strongest_equals_sorting(count: int, k: int) -> None:
    member = make_result(count, (k,)).memberships[0]
    first, second, high, low = two_strongest(member)
    ordered = np.sort(member, axis=1)[:, ::-1]
    np.testing.assert_array_equal(high, ordered[:, 0])
    np.testing.assert_array_equal(member[np.arange(count), first], high)
    if k == 1:
        assert (second == -1).all()
    else:
        np.testing.assert_array_equal(low, ordered[:, 1])
        np.testing.assert_array_equal(member[np.arange(count), second], low)
        assert (first != second).all()


def test_boundary_table_lists_those_most_between_first() -> None:
    result = make_result(80, (4, 2))
    rows = boundary_table(result, 10).to_pylist()
    assert [r["id"] for r in rows] == np.argsort(-result.between, kind="stable")[:10].tolist()
    assert [r["between"] for r in rows] == sorted(result.between.tolist(), reverse=True)[:10]
    assert {r["evidence"] for r in rows} == {None}  # nobody said how much there is to go by
    for row in rows:
        member = result.memberships[row["level"] - 1][row["id"]]
        assert member[row["first_group"]] == row["first_membership"]
        assert member[row["second_group"]] == row["second_membership"]
        margin = row["first_membership"] - row["second_membership"]
        gaps = [np.diff(np.sort(m[row["id"]])[-2:])[0] for m in result.memberships]
        assert margin == pytest.approx(min(gaps), abs=1e-6)
    assert boundary_table(result, 1000).num_rows == 80
    assert boundary_table(result, 0).num_rows == 0
    single = boundary_table(make_result(5, (3, 1)), 5).to_pylist()
    assert all(r["level"] == 1 for r in single)
    alone = boundary_table(make_result(5, (1,)), 5).to_pylist()
    assert alone[0]["second_group"] is None
    with pytest.raises(InputError, match="-1"):
        boundary_table(result, -1)


def test_the_debian_size_takes_seconds_at_most() -> None:
    rng = np.random.default_rng(0)
    n, width = 63_000, 6_000
    columns = rng.integers(0, width, (n, 30))
    indptr = np.arange(n + 1) * 30
    x = sp.csr_matrix((np.ones(n * 30, np.float32), columns.ravel(), indptr), shape=(n, width))
    x.sum_duplicates()
    result = make_result(n, (40, 12))
    graph = make_graph(result, features=x, feature_names=[f"w{i}" for i in range(width)])
    start = time.perf_counter()
    table = groups_table(result, graph)
    assert table.num_rows == 52
    assert time.perf_counter() - start < 10


def test_labels_name_groups_only_when_asked_and_say_so() -> None:
    result = make_result(50, (2,))
    labels = Labels(("Theory", "Case\nBased"), codes=result.groups[0].copy())
    result = replace(result, labels=labels)
    graph = make_graph(result, features=None)
    unasked = groups_table(result, graph)["name"].to_pylist()
    assert not any("Theory" in name or "Case" in name for name in unasked)
    asked = groups_table(result, graph, by_labels=True)["name"].to_pylist()
    assert asked == ["Theory [label]", "Case Based [label]"]
