"""The loops over pairs by themselves: the loss of each pair, owners, and the order of rows."""

import numpy as np
import pytest

from graphham.kernels import skipgram_loops

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("size", [0.3, 60.0])  # where the sigmoid bends, and far beyond
def test_loss_and_gradients_of_pairs(sign, size):
    values = RNG.normal(size=(6, 9)).astype("f4")
    target = (size * RNG.normal(size=(4, 9))).astype("f4")
    rows = RNG.integers(-1, 6, (4, 5))
    slopes, grad, gate = np.empty((4, 5), "f4"), np.empty((4, 9), "f4"), np.empty(4, "f4")
    total, count = skipgram_loops.pair_forward(values, target, rows, sign, slopes, grad, gate)
    real = rows >= 0
    scores = np.where(real, np.einsum("ad,acd->ac", target.astype(float), values[rows]), 0)
    assert count == real.sum()
    assert total == pytest.approx(np.logaddexp(0, -sign * scores)[real].sum(), rel=1e-4)
    slope = np.where(real, -sign * np.exp(-np.logaddexp(0, sign * scores)), 0)
    np.testing.assert_allclose(slopes, slope, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(grad, np.einsum("ac,acd->ad", slope, values[rows]), atol=1e-4)
    np.testing.assert_allclose(gate, (slope * scores).sum(1), rtol=1e-3, atol=1e-4)


def test_pairs_go_to_the_owners_of_their_rows_in_the_order_they_came():
    rows = np.array([7, -1, 2, 9, 0, 2, 5])
    slopes, anchors = np.arange(7, dtype="f4"), np.arange(7, dtype="i4")
    out = skipgram_loops.sort_pairs(rows, slopes, anchors, np.array([0, 3, 3, 10]))
    assert [part.tolist() for part in out] == [
        [2, 0, 2, 7, 9, 5],
        [2, 4, 5, 0, 3, 6],
        [2, 4, 5, 0, 3, 6],
        [0, 3, 3, 6],
    ]


def test_keys_sort_by_row_and_then_by_pair():
    rows = np.array([4, -1, 0, 4])
    keys = np.sort(skipgram_loops.pair_keys(rows, 3))
    assert (keys >> 3).tolist() == [0, 4, 4]
    assert (keys & 7).tolist() == [2, 0, 3]
