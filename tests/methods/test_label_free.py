"""Methods that never see labels, and the regression on their finished vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.graph import Graph, Labels, build_graph
from graphham.graph.undirected import undirected
from graphham.methods.label_free import LabelFreeMethod
from tests.outputs import blobs

VECTORS, CODES = blobs(160)
ORDER = np.random.default_rng(0).permutation(160)
ROWS = {"train_rows": ORDER[:60], "validation_rows": ORDER[60:90]}
TEST = ORDER[90:]


def graph_of(vectors: np.ndarray = VECTORS, codes: np.ndarray = CODES) -> Graph:
    """A ring of points whose features are what the method below takes for its vectors."""
    source = np.arange(160)
    labels = Labels(tuple("abcd"), codes=codes.astype(np.int32))
    target = (source + 1) % 160
    return build_graph(source, target, 160, features=vectors.astype(np.float32), labels=labels)


class Given(LabelFreeMethod):
    """A method that finds the features."""

    name: ClassVar[str] = "given"
    tasks: ClassVar[frozenset[str]] = frozenset({"classify", "links"})
    seen: Graph | None = None

    def _embed(self, graph: Graph, listener: Any) -> None:
        self.seen = graph
        self.embedding_ = np.asarray(graph.features)


def test_the_labels_are_taken_away_before_the_work() -> None:
    method = Given().fit(graph_of(), task="classify", **ROWS)
    assert method.seen is not None
    assert method.seen.labels is None
    assert not method.seen.splits
    assert (method.class_scores_[TEST].argmax(1) == CODES[TEST]).mean() > 0.95


def test_one_fit_serves_every_split() -> None:
    graph = graph_of()
    once = Given().fit(graph)
    later = once.classified(graph, **ROWS)
    whole = Given().fit(graph, task="classify", **ROWS)
    np.testing.assert_array_equal(later.class_scores_, whole.class_scores_)
    assert later.validation_ == whole.validation_
    assert later.classes_.tolist() == whole.classes_.tolist() == list("abcd")
    assert later.embedding_ is once.embedding_
    assert later.cost_["seconds"] > once.cost_["seconds"]
    # The fit that was asked stays as it was.
    assert once.class_scores_ is None
    with pytest.raises(InputError, match="row 2 is in train_rows and in validation_rows"):
        once.classified(graph, [0, 1, 2], [2, 3])


def test_labels_of_other_rows_do_not_matter() -> None:
    changed = CODES.copy()
    changed[TEST] = (changed[TEST] + 1) % 4
    one, other = (
        Given().fit(graph_of(codes=codes), task="classify", **ROWS).class_scores_
        for codes in (CODES, changed)
    )
    np.testing.assert_array_equal(one, other)


def test_the_scale_of_the_vectors_does_not_matter() -> None:
    # Each column in a unit of its own, and one that says nothing.
    scaled = VECTORS * np.geomspace(0.01, 100, VECTORS.shape[1])
    scaled = np.concatenate([scaled, np.full((160, 1), 7.0)], axis=1)
    one, other = (
        Given().fit(graph_of(vectors), task="classify", **ROWS).class_scores_
        for vectors in (VECTORS, scaled)
    )
    np.testing.assert_allclose(one, other, atol=1e-3)


def test_several_labels_are_scored_one_by_one() -> None:
    matrix = sp.csr_matrix(np.stack([CODES < 2, CODES % 2 == 0, np.ones(160)], 1).astype(bool))
    graph = replace(graph_of(), labels=Labels(("low", "even", "all"), matrix=matrix))
    scores = Given().fit(graph, task="classify", **ROWS).class_scores_
    assert ((scores > 0.5) == matrix.toarray())[TEST].mean() > 0.95


def test_memory_beyond_the_limit_is_refused_with_advice() -> None:
    with pytest.raises(InputError, match=r"given would need about .*lower dim"):
        Given(memory_gib=0.001)._check_memory(1 << 30, "lower dim")
    Given(memory_gib=2)._check_memory(1 << 30, "lower dim")


@pytest.mark.parametrize("weighted", [False, True])
def test_walks_may_go_both_ways(weighted: bool) -> None:
    ends = np.array([[0, 1], [1, 0], [1, 2], [3, 1]])
    weights = np.array([1.0, 2.0, 5.0, 7.0]) if weighted else None
    graph = build_graph(ends[:, 0], ends[:, 1], 5, directed=True, weights=weights)
    both = undirected(graph)
    assert not both.directed
    dense = both.adjacency().toarray()
    np.testing.assert_array_equal(dense, dense.T)
    one_way = graph.adjacency().toarray()
    np.testing.assert_array_equal(dense > 0, (one_way + one_way.T) > 0)
    if weighted:
        assert (dense[1, 2], dense[1, 3]) == (5, 7)
    assert undirected(both) is both
