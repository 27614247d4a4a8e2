"""The graph keeps its promises: rows sorted, every edge once, the user's parts in step."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.graph.graph import Graph, Labels, build_graph
from graphham.graph.ids import NodeIds

ends = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=30)


def plain(
    pairs: list[tuple[int, int]], weights: list[float], directed: bool
) -> dict[tuple[int, int], float]:
    """Slow reference: a dictionary of stored entries."""
    entries: dict[tuple[int, int], float] = {}
    for (a, b), w in zip(pairs, weights, strict=True):
        if a == b:
            continue
        entries[a, b] = entries.get((a, b), 0) + w
        if not directed:
            entries[b, a] = entries.get((b, a), 0) + w
    return entries


@given(ends, st.booleans(), st.booleans())
def test_building_equals_a_dictionary(
    pairs: list[tuple[int, int]], directed: bool, weighted: bool
) -> None:
    weights = [0.5 + i for i in range(len(pairs))]
    source = np.array([a for a, _ in pairs], dtype=np.int64)
    target = np.array([b for _, b in pairs], dtype=np.int64)
    graph = build_graph(
        source, target, 7, directed=directed, weights=np.array(weights) if weighted else None
    )
    entries = plain(pairs, weights, directed)
    for row in range(7):
        assert graph.neighbors(row).tolist() == sorted(b for a, b in entries if a == row)
    if weighted:
        assert graph.weights is not None
        assert graph.weights.tolist() == [entries[k] for k in sorted(entries)]
    else:
        assert graph.weights is None
    assert graph.indices.dtype == np.int32
    report = graph.report
    assert report is not None
    assert report.rows_read == len(pairs)
    assert report.self_loops_dropped == sum(a == b for a, b in pairs)
    kept = len(pairs) - report.self_loops_dropped
    assert report.duplicates_merged == kept - graph.num_edges
    touched = {node for entry in entries for node in entry}
    assert report.isolated == 7 - len(touched)
    assert report.components == count_components(entries)


def count_components(entries: dict[tuple[int, int], float]) -> int:
    group = list(range(7))
    for a, b in entries:
        old, new = group[a], group[b]
        group = [new if g == old else g for g in group]
    return len(set(group))


def full(pairs: list[tuple[int, int]]) -> Graph:
    n = 7
    return build_graph(
        np.array([a for a, _ in pairs], dtype=np.int64),
        np.array([b for _, b in pairs], dtype=np.int64),
        n,
        ids=NodeIds([f"n{i}" for i in range(n)]),
        weights=np.arange(1, len(pairs) + 1),
        features=np.arange(n * 2, dtype=np.float32).reshape(n, 2),
        labels=Labels(("x", "y"), codes=(np.arange(n, dtype=np.int32) % 3) - 1),
        splits={"train": np.array([1, 4])},
        titles=[f"t{i}" for i in range(n)],
    )


@given(ends, st.permutations(range(7)))
def test_permuting_moves_everything_together(
    pairs: list[tuple[int, int]], order: list[int]
) -> None:
    graph = full(pairs)
    moved = graph.permuted(np.array(order)).validate()
    assert moved.ids.tolist() == [f"n{i}" for i in order]
    back = moved.permuted(np.argsort(order))
    assert back.fingerprint() == graph.fingerprint()
    assert back.splits["train"].tolist() == [1, 4]
    assert back.labels is not None
    assert graph.labels is not None
    assert back.labels.values() == graph.labels.values()
    assert sorted(moved.ids.take(moved.splits["train"]).tolist()) == ["n1", "n4"]
    named = lambda g: {(g.ids[a], g.ids[b]) for a, b in g.edge_list().tolist()}  # noqa: E731
    assert {frozenset(e) for e in named(moved)} == {frozenset(e) for e in named(graph)}


@given(ends, st.booleans())
def test_removing_edges(pairs: list[tuple[int, int]], directed: bool) -> None:
    source = np.array([a for a, _ in pairs], dtype=np.int64)
    target = np.array([b for _, b in pairs], dtype=np.int64)
    graph = build_graph(source, target, 7, directed=directed)
    edges = graph.edge_list()
    gone, left = edges[::2], edges[1::2]
    smaller = graph.without_edges(gone)
    assert smaller.validate().edge_list().tolist() == left.tolist()


def test_fingerprint_sees_every_part() -> None:
    base = full([(0, 1), (1, 2)])
    others = [full([(0, 1), (1, 3)]), full([(0, 1), (1, 2), (1, 2)])]
    assert len({g.fingerprint() for g in (base, *others)}) == 3
    assert full([(0, 1), (1, 2)]).fingerprint() == base.fingerprint()


def test_labels_multi() -> None:
    matrix = sp.csr_matrix(np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]], dtype=bool))
    labels = Labels(("a", "b", "c"), matrix=matrix)
    assert labels.values() == [["a", "c"], None, ["b"]]
    assert labels.known.tolist() == [True, False, True]
    assert labels.take(np.array([2, 0])).values() == [["b"], ["a", "c"]]
    with pytest.raises(InputError, match="either"):
        Labels(("a",))


def test_validation_names_the_fault() -> None:
    good = full([(0, 1), (1, 2)]).validate()
    with pytest.raises(InputError, match="3 rows but the graph has 7 nodes"):
        replace(good, features=np.ones((3, 2), np.float32)).validate()
    spoiled = np.array(good.features)
    spoiled[4, 1] = np.nan
    with pytest.raises(InputError, match="'n4'"):
        replace(good, features=spoiled).validate()
    with pytest.raises(InputError, match="'n4'"):
        replace(good, features=sp.csr_matrix(spoiled)).validate()
    with pytest.raises(InputError, match=r"outside 0\.\.6"):
        replace(good, indices=good.indices + 9).validate()
    with pytest.raises(InputError, match="weight"):
        replace(good, weights=-good.weights).validate()  # type: ignore[operator]
    with pytest.raises(InputError, match="no nodes"):
        build_graph(np.array([]), np.array([]), 0).validate()
