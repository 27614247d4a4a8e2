"""Splits are disjoint, cover what they should, and are the same for everyone."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from graphham.datasets import load_dataset
from graphham.errors import InputError
from graphham.evaluate.splits import (
    as_separate_labels,
    check_protocol,
    edge_split,
    hide_labels,
    node_split,
    num_folds,
)
from graphham.graph.graph import Graph, Labels, build_graph
from graphham.graph.planted import planted_hierarchy


def ring(codes: list[int], classes: int) -> Graph:
    n = len(codes)
    rows = np.arange(n)
    labels = Labels(tuple(range(classes)), codes=np.array(codes, dtype=np.int32))
    return build_graph(rows, (rows + 1) % n, n, labels=labels)


@given(
    codes=st.lists(st.integers(-1, 3), min_size=40, max_size=120),
    folds=st.integers(2, 6),
    seed=st.integers(0, 50),
)
def test_folds_cover_every_labelled_node_once_and_keep_class_shares(
    codes: list[int], folds: int, seed: int
) -> None:
    graph = ring(codes, 4)
    known = np.flatnonzero(np.array(codes) >= 0)
    if len(known) < 2 * folds:
        with pytest.raises(InputError, match="cannot be cut"):
            node_split(graph, "folds", folds=folds)
        return
    splits = [node_split(graph, "folds", seed=seed, fold=f, folds=folds) for f in range(folds)]
    tested = np.concatenate([s.test for s in splits])
    assert sorted(tested) == known.tolist()
    for split in splits:
        parts = np.concatenate([split.train, split.validation, split.test])
        assert sorted(parts) == known.tolist()
        rest = len(known) - len(split.test)
        assert len(split.validation) in (rest // 10, rest // 10 + 1)
        for code in range(4):
            size = codes.count(code)
            inside = int((np.array(codes)[split.test] == code).sum())
            assert size // folds <= inside <= -(-size // folds)


def test_plain_folds_leave_the_remainder_untested() -> None:
    graph = ring([0, 1] * 26, 2)  # 52 = 5 * 10 + 2
    splits = [node_split(graph, "folds", fold=f, stratified=False) for f in range(5)]
    assert [len(s.test) for s in splits] == [10] * 5
    assert len(np.unique(np.concatenate([s.test for s in splits]))) == 50


def test_same_seed_same_split_and_other_seed_another() -> None:
    graph = ring([0, 1, 2] * 30, 3)
    one, two, other = (node_split(graph, "folds", seed=s).fingerprint() for s in (3, 3, 4))
    assert one == two != other


def test_public_split_of_cora_and_its_absence() -> None:
    cora = load_dataset("cora")
    split = node_split(cora, "public_split", seed=7)
    assert (len(split.train), len(split.validation), len(split.test)) == (140, 500, 1000)
    assert cora.labels is not None
    assert cora.labels.codes is not None
    assert np.bincount(cora.labels.codes[split.train]).tolist() == [20] * 7
    with pytest.raises(InputError, match="public split"):
        node_split(ring([0, 1] * 10, 2), "public_split")


@pytest.mark.parametrize("count", [1, 5, 20])
def test_few_labels_gives_each_class_as_many(count: int) -> None:
    cora = load_dataset("cora")
    split = node_split(cora, f"few{count}", seed=2)
    assert cora.labels is not None
    assert cora.labels.codes is not None
    assert np.bincount(cora.labels.codes[split.train]).tolist() == [count] * 7
    assert len(split.validation) == 200
    assert len(split.train) + len(split.validation) + len(split.test) == 2708


def test_few_labels_validates_on_nodes_like_those_it_tests() -> None:
    """Validation is a random part of what training left: rare classes are not missing from it."""
    cora = load_dataset("cora")
    assert cora.labels is not None
    codes = cora.labels.codes
    assert codes is not None
    held = np.zeros(7)
    tested = np.zeros(7)
    for seed in range(30):
        split = node_split(cora, "few20", seed=seed)
        held += np.bincount(codes[split.validation], minlength=7)
        tested += np.bincount(codes[split.test], minlength=7)
    expected = 6000 * tested / tested.sum()
    # 30 draws of 200: a deviation of four standard errors would be seen once in ten thousand.
    assert (np.abs(held - expected) < 4 * np.sqrt(expected)).all(), held / expected


def test_few_labels_leaves_rare_classes_something_to_test() -> None:
    graph = ring([0] * 50 + [1] * 4, 2)
    split = node_split(graph, "few20")
    assert (np.array([0] * 50 + [1] * 4)[split.train] == 1).sum() == 2


def test_hidden_labels_are_gone_and_the_others_stay() -> None:
    graph = ring([0, 1, 2, 0, 1, 2], 3)
    hidden = hide_labels(graph, np.array([1, 4]))
    assert hidden.labels is not None
    assert hidden.labels.values() == [0, None, 2, 0, None, 2]
    several = hide_labels(as_separate_labels(graph), np.array([1, 4]))
    assert several.labels is not None
    assert several.labels.values() == [[0], None, [2], [0], None, [2]]
    assert several.labels.matrix is not None
    assert several.labels.matrix.dtype == bool


def test_multi_label_nodes_without_labels_are_in_no_fold() -> None:
    matrix = sp.csr_matrix(np.tile([[1, 0], [1, 1], [0, 0]], (20, 1)).astype(bool))
    rows = np.arange(60)
    graph = build_graph(rows, (rows + 1) % 60, 60, labels=Labels(("a", "b"), matrix=matrix))
    split = node_split(graph, "folds", fold=4)
    parts = np.concatenate([split.train, split.validation, split.test])
    assert not (parts % 3 == 2).any()
    with pytest.raises(InputError, match="few-label"):
        node_split(graph, "few5")


def test_test_edges_are_not_in_the_training_graph() -> None:
    graph = planted_hierarchy((2, 2), 120, mean_degree=6, seed=1).graph
    splits = [edge_split(graph, seed=5, fold=f) for f in range(5)]
    everything = {tuple(sorted(e)) for e in graph.edge_list().tolist()}
    tested = [tuple(sorted(e)) for s in splits for e in s.test.tolist()]
    assert len(tested) == len(set(tested))
    assert set(tested) == everything
    for split in splits:
        left = {tuple(e) for e in split.graph.edge_list().tolist()}
        held = {tuple(sorted(e)) for e in [*split.test.tolist(), *split.validation.tolist()]}
        assert left.isdisjoint(held)
        assert left | held == everything
        assert len(split.validation) == int(0.05 * (len(everything) - len(split.test)))
    # Either end may ask; rows follow the order of a file.
    assert 0.3 < np.mean([s.test[:, 0] < s.test[:, 1] for s in splits[:1]]) < 0.7


def test_directed_edges_keep_their_source() -> None:
    rows = np.arange(40)
    graph = build_graph(rows, (rows + 1) % 40, 40, directed=True)
    split = edge_split(graph, seed=1)
    assert ((split.test[:, 0] + 1) % 40 == split.test[:, 1]).all()


def test_unknown_protocols_and_folds_are_refused() -> None:
    graph = ring([0, 1] * 20, 2)
    for task, name in (("classify", "p3"), ("classify", "links"), ("links", "folds")):
        with pytest.raises(InputError, match=name):
            check_protocol(task, name)
    with pytest.raises(InputError, match="fold 5"):
        node_split(graph, "folds", fold=5)
    assert (num_folds("public_split", 5), num_folds("few5", 5), num_folds("folds", 5)) == (1, 1, 5)
    with pytest.raises(InputError, match="no labels"):
        node_split(build_graph(np.array([0]), np.array([1]), 2), "folds")
