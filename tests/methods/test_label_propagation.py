"""Label propagation: against the closed form, and nodes no label reaches."""

from __future__ import annotations

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.graph.graph import Labels, build_graph
from graphham.graph.planted import planted_hierarchy
from graphham.methods.label_propagation import LabelPropagation, propagated
from tests.methods.accuracy import held_out_accuracy


@pytest.mark.parametrize("directed", [False, True])
def test_spreading_ends_at_the_closed_form(directed: bool) -> None:
    draw = np.random.default_rng(0)
    graph = build_graph(
        draw.integers(30, size=60), draw.integers(30, size=60), 30, directed=directed
    )
    start = np.zeros((30, 3))
    start[:6] = np.eye(3)[[0, 1, 2, 0, 1, 2]]
    links = graph.adjacency().toarray().astype(float)
    links = links + links.T if directed else links
    root = 1 / np.sqrt(np.maximum(links.sum(1), 1e-12)) * (links.sum(1) > 0)
    walk = root[:, None] * links * root
    wanted = 0.2 * np.linalg.solve(np.eye(30) - 0.8 * walk, start)
    np.testing.assert_allclose(propagated(graph, start, 0.8, 500), wanted, atol=1e-5)


def test_a_node_that_no_label_reaches_gets_the_shares_of_the_classes() -> None:
    codes = np.array([0, 0, 1, -1, -1], dtype=np.int32)
    graph = build_graph(
        np.array([0, 1]), np.array([3, 2]), 5, labels=Labels(("a", "b"), codes=codes)
    )
    rows = {"train_rows": [0, 1, 2], "validation_rows": []}
    found = LabelPropagation(dim=2).fit(graph, task="classify", **rows).class_scores_
    assert found is not None
    np.testing.assert_allclose(found[3], [1, 0], atol=1e-6)
    np.testing.assert_allclose(found[4], [2 / 3, 1 / 3], atol=1e-6)


def test_planted_classes_are_found_by_links_alone() -> None:
    graph = planted_hierarchy(
        (2, 3), 600, mean_degree=12, edge_shares=(0.8, 0.1, 0.1), seed=2
    ).graph
    assert held_out_accuracy(LabelPropagation(dim=4), graph) > 0.9


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_share_that_never_ends_or_never_starts_is_refused(alpha: float) -> None:
    graph = planted_hierarchy((2, 3), num_nodes=90, seed=3).graph
    with pytest.raises(InputError, match="alpha must lie between 0 and 1"):
        LabelPropagation(alpha=alpha).fit(graph, task="classify")
