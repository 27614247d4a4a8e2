"""Sparse rows, their dot products and their averages, against dense algebra."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from graphham.graph.graph import build_graph
from graphham.methods.sparse_dots import SparseRows, smoothed_rows, unit_rows, walk_matrix


@given(seed=st.integers(0, 1000))
def test_pair_dots_equal_the_dense_product(seed: int) -> None:
    draw = np.random.default_rng(seed)
    dense = draw.normal(size=(6, 9)) * (draw.random((6, 9)) < 0.4)
    pairs = draw.integers(6, size=(20, 2))
    found = SparseRows(sp.csr_matrix(dense)).dots(pairs)
    np.testing.assert_allclose(found, (dense @ dense.T)[pairs[:, 0], pairs[:, 1]], atol=1e-5)


def test_smoothing_is_the_mean_over_a_node_and_its_neighbours() -> None:
    # A path 0 - 1 - 2 and a lonely 3, one feature per node.
    graph = build_graph(np.array([0, 1]), np.array([1, 2]), 4)
    smoothed = smoothed_rows(np.eye(4), graph, 1).toarray()
    wanted = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]], float)
    np.testing.assert_allclose(
        smoothed, wanted / np.linalg.norm(wanted, axis=1, keepdims=True), rtol=1e-6
    )
    weighted = build_graph(np.array([0, 1]), np.array([1, 2]), 4, weights=np.array([10.0, 30.0]))
    rows = walk_matrix(weighted).toarray()
    np.testing.assert_allclose(rows.sum(1), 1, rtol=1e-6)
    np.testing.assert_allclose(rows[1], [10 / 60, 20 / 60, 30 / 60, 0], rtol=1e-6)
    symmetric = walk_matrix(graph, symmetric=True).toarray()
    np.testing.assert_allclose(symmetric, symmetric.T)
    np.testing.assert_allclose(symmetric[0, 1], 1 / math.sqrt(2 * 3), rtol=1e-6)


def test_saved_rows_score_the_same() -> None:
    draw = np.random.default_rng(0)
    # The last columns are empty: their number must be saved, not guessed.
    rows = SparseRows(sp.random(7, 5, 0.5, "csr", random_state=1, data_rvs=draw.standard_normal))
    again = SparseRows.from_state(rows.state())
    pairs = draw.integers(7, size=(30, 2))
    np.testing.assert_array_equal(again.dots(pairs), rows.dots(pairs))
    wide = SparseRows(sp.csr_matrix(([1.0], ([0], [0])), shape=(2, 9)))
    assert SparseRows.from_state(wide.state()).matrix.shape == (2, 9)


def test_unit_rows_have_length_one_or_none() -> None:
    scaled = unit_rows(sp.csr_matrix(np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 1e-6]]))).toarray()
    np.testing.assert_allclose(scaled, [[0.6, 0.8], [0, 0], [0, 1]], rtol=1e-6)
