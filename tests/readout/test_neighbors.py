"""Nearest nodes, compared with all pairs."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from graphham.readout.neighbors import CellSearch, all_nearest, nearest_to
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
