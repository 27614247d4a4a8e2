"""Links as inputs: a node's row of the adjacency matrix, and what points at it."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from graphham.graph.graph import build_graph
from graphham.kernels import SparseMatrix
from graphham.model.link_columns import LinkColumns, link_rows

SOURCES = np.array([0, 0, 1, 2, 3, 3, 4])
TARGETS = np.array([1, 2, 2, 3, 0, 1, 0])
WEIGHTS = np.array([1, 2, 3, 1, 1, 2, 4], dtype=np.float32)


def graph(directed: bool, weighted: bool = False):
    weights = WEIGHTS if weighted else None
    return build_graph(SOURCES, TARGETS, 6, weights=weights, directed=directed)


def features(form: str):
    x = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    return SparseMatrix.from_scipy(sp.csr_matrix(x)) if form == "sparse" else torch.from_numpy(x)


def dense(x) -> np.ndarray:
    if isinstance(x, SparseMatrix):
        return sp.csr_matrix((x.values, x.indices, x.indptr), x.shape).toarray()
    return x.numpy()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", ["sparse", "dense"])
@pytest.mark.parametrize("directed", [False, True])
def test_columns_are_what_plain_loops_say(directed: bool, form: str, weighted: bool) -> None:
    g, x, basis = graph(directed, weighted), features(form), np.eye(4, 3, dtype=np.float32)
    columns = LinkColumns.fit(g, x, basis, has_rows=True)
    found = dense(columns.join(x, g))
    a = g.adjacency().toarray().astype(np.float64)
    if weighted:
        a /= a[a > 0].mean()
    expected = [dense(x)]
    if directed:
        arrived = np.zeros((6, 3))
        for i in range(6):
            if a[:, i].sum():
                arrived[i] = a[:, i] @ dense(x)[:, :3] / a[:, i].sum()
        expected.append(arrived / np.sqrt((arrived**2).sum(1).mean()))
    for rows in [a, a.T] if directed else [a]:
        rarity = np.log(7 / (1 + (rows > 0).sum(0))) + 1
        scaled = rows * rarity
        has_links = (rows > 0).any(1)
        expected.append(scaled / np.sqrt((scaled[has_links] ** 2).sum(1).mean()))
    np.testing.assert_allclose(found, np.concatenate(expected, axis=1), atol=1e-5)
    of_links = np.concatenate(expected[2 if directed else 1 :], axis=1)
    np.testing.assert_allclose(link_rows(g).toarray(), of_links, atol=1e-5)


def test_without_directions_and_rows_nothing_is_added() -> None:
    columns = LinkColumns.fit(graph(False), features("dense"), np.eye(4, dtype="f4"), False)
    assert columns.is_empty
    assert LinkColumns.from_state({}).is_empty


@pytest.mark.parametrize("directed", [False, True])
def test_known_nodes_keep_their_columns_in_another_graph(directed: bool) -> None:
    g, x = graph(directed), features("dense")
    columns = LinkColumns.fit(g, x, np.eye(4, dtype=np.float32), has_rows=True)
    columns = LinkColumns.from_state(columns.state())
    order = np.array([3, 1, 5, 0, 4, 2])
    there = columns.join(x[torch.from_numpy(order)], g.permuted(order), order)
    np.testing.assert_allclose(dense(there), dense(columns.join(x, g))[order], atol=1e-6)


def test_a_link_to_a_new_node_counts_nothing() -> None:
    g, x = graph(False), features("dense")
    columns = LinkColumns.fit(g, x, np.eye(4, dtype=np.float32), has_rows=True)
    more = build_graph(np.append(SOURCES, 0), np.append(TARGETS, 6), 7)
    wide = torch.cat([x, torch.ones(1, 4)])
    known = np.append(np.arange(6), -1)
    found = dense(columns.join(wide, more, known))
    np.testing.assert_allclose(found[:6], dense(columns.join(x, g)), atol=1e-6)
    assert found.shape[1] == 4 + 6
    assert (found[6, 4:] > 0).tolist() == [True] + [False] * 5


def test_the_unit_of_weights_does_not_matter() -> None:
    g = graph(True, weighted=True)
    other = replace(g, weights=np.asarray(g.weights) * 1000)
    np.testing.assert_allclose(link_rows(g).toarray(), link_rows(other).toarray(), rtol=1e-4)
