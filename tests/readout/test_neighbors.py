"""Nearest nodes, compared with all pairs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.readout import neighbors
from graphham.readout.neighbors import CellSearch, all_nearest, nearest_to, unit_rows
from tests.outputs import blobs


@given(st.integers(2, 60), st.integers(0, 5), st.integers(1, 70))
@settings(max_examples=30)
def test_nearest_agree_with_all_pairs(count: int, seed: int, count_near: int) -> None:
    rng = np.random.default_rng([count, seed])
    vectors = rng.normal(size=(count, 5)).astype(np.float32)
    unit = vectors.astype(np.float64) / np.linalg.norm(vectors, axis=1, keepdims=True)
    table = unit @ unit.T
    np.fill_diagonal(table, -2)
    rows, values = all_nearest(vectors, count_near)
    assert rows.shape == (count, min(count_near, count - 1))
    for row in range(count):
        np.testing.assert_allclose(
            values[row], np.sort(table[row])[::-1][: rows.shape[1]], atol=1e-5
        )
        assert row not in rows[row]
        one, similar = nearest_to(vectors, row, count_near)
        np.testing.assert_allclose(similar, values[row], atol=1e-5)
        np.testing.assert_allclose(table[row, one], values[row], atol=1e-5)


def test_cells_find_nearly_all_true_neighbours() -> None:
    vectors, _ = blobs(3200)
    points, queries = vectors[:3000], vectors[3000:]
    rows, away = CellSearch(points, seed=0).query(queries, 5)
    table = ((queries[:, None, :] - points[None, :, :]) ** 2).sum(2)
    true = np.argsort(table, axis=1)[:, :5]
    hit = np.mean([len(set(a) & set(b)) / 5 for a, b in zip(rows, true, strict=True)])
    assert hit > 0.95
    np.testing.assert_allclose(away, np.take_along_axis(table, rows, 1), rtol=1e-3, atol=1e-3)


def test_equal_vectors_are_listed_by_row_and_zeros_are_like_nobody() -> None:
    vectors = np.array([[1, 0], [2, 0], [0, 3], [3, 0], [0, 0]], dtype=np.float32)
    rows, similar = nearest_to(vectors, 1, 3)
    assert rows.tolist() == [0, 3, 2]
    assert similar.tolist() == [1, 1, 0]
    all_rows, all_similar = all_nearest(vectors, 2)
    assert all_rows[3].tolist() == [0, 1]
    assert all_similar[4].tolist() == [0, 0]
    np.testing.assert_array_equal(unit_rows(vectors), [[1, 0], [1, 0], [0, 1], [1, 0], [0, 0]])
    for row in (-1, 5):
        with pytest.raises(InputError, match=rf"no row {row}; rows are 0\.\.4"):
            nearest_to(vectors, row)


def test_reading_in_pieces_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, _ = blobs(150)
    whole = (*all_nearest(vectors, 6), *nearest_to(vectors, 17, 6), unit_rows(vectors))
    monkeypatch.setattr(neighbors, "_CHUNK", 11)
    monkeypatch.setattr(neighbors, "_TABLE_BYTES", 4 * 150 * 13)
    pieces = (*all_nearest(vectors, 6), *nearest_to(vectors, 17, 6), unit_rows(vectors))
    for one, other in zip(whole, pieces, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("count", [1, 2, 3, 30])
def test_few_points_are_searched_exactly(count: int) -> None:
    points, asked = np.split(np.random.default_rng(count).normal(size=(count + 9, 3)), [count])
    rows, away = CellSearch(points.astype(np.float32)).query(asked, 5)
    table = ((asked[:, None] - points[None]) ** 2).sum(2)
    np.testing.assert_array_equal(rows, np.argsort(table, axis=1)[:, :5])
    np.testing.assert_allclose(away, np.sort(table, axis=1)[:, :5], rtol=1e-3, atol=1e-4)
