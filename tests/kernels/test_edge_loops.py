"""The loops over edges by themselves: rests of four, places of weights, rows without edges."""

import itertools

import numpy as np
import pytest

from graphham.kernels import edge_loops

DEGREES = [0, 1, 4, 7, 0, 9]
INDPTR = np.cumsum([0, *DEGREES])
EDGES, SOURCES, HEADS, DIM = int(INDPTR[-1]), 5, 2, 19
RNG = np.random.default_rng(0)
COLUMNS = RNG.integers(0, SOURCES, EDGES).astype(np.int32)
TARGETS = np.repeat(np.arange(len(DEGREES)), DEGREES)


def draw(*shape):
    return RNG.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("permuted", [False, True])
def test_sums_follow_the_places_of_the_weights(permuted):
    weights, values = draw(EDGES, HEADS), draw(SOURCES, HEADS, DIM)
    places = RNG.permutation(EDGES).astype(np.int32) if permuted else np.empty(0, np.int32)
    out = np.full((len(DEGREES), HEADS, DIM), np.nan, dtype=np.float32)
    edge_loops.gather_sum(INDPTR, COLUMNS, places, weights, values, out)
    expected = np.zeros(out.shape)
    used = weights[places] if permuted else weights
    np.add.at(expected, TARGETS, used[:, :, None] * values[COLUMNS].astype(float))
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


def test_products_of_both_ends():
    left, right = draw(len(DEGREES), HEADS, DIM), draw(SOURCES, HEADS, DIM)
    out = np.empty((EDGES, HEADS), dtype=np.float32)
    edge_loops.edge_inner(INDPTR, COLUMNS, left, right, out)
    expected = (left[TARGETS].astype(float) * right[COLUMNS]).sum(2)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


def test_gradients_of_scores_are_added_up_at_both_ends():
    scores, grad = draw(EDGES, HEADS), draw(EDGES, HEADS)
    left, right = np.full((len(DEGREES), HEADS), np.nan, "f4"), np.zeros((SOURCES, HEADS), "f4")
    edge_loops.score_backward(INDPTR, COLUMNS, scores, grad, 0.3, left, right)
    part = np.where(scores > 0, grad, 0.3 * grad)
    for out, rows in ((left, TARGETS), (right, COLUMNS)):
        expected = np.zeros(out.shape)
        np.add.at(expected, rows, part)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


def test_softmax_and_its_gradient_by_row():
    logits, grad = 5 * draw(EDGES, HEADS), draw(EDGES, HEADS)
    p, back = np.empty_like(logits), np.empty_like(logits)
    edge_loops.softmax_forward(INDPTR, logits, p)
    edge_loops.softmax_backward(INDPTR, p, grad, back)
    for low, high in itertools.pairwise(INDPTR):
        if low == high:
            continue
        power = np.exp(logits[low:high].astype(float))
        share = power / power.sum(0)
        np.testing.assert_allclose(p[low:high], share, rtol=1e-5, atol=1e-7)
        mean = (share * grad[low:high]).sum(0)
        np.testing.assert_allclose(back[low:high], share * (grad[low:high] - mean), atol=1e-6)
