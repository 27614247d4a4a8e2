"""The loops over groups by themselves, against their formulas in float64."""

import numpy as np
import pytest

from graphham.kernels import group_loops

RNG = np.random.default_rng(0)


def draw(*shape):
    return (3 * RNG.normal(size=shape)).astype(np.float32)


def softmax(x):
    power = np.exp(x - x.max(1, keepdims=True))
    return power / power.sum(1, keepdims=True)


@pytest.mark.parametrize("width", [1, 3, 17])
@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_softmax_its_logarithm_and_gradient(width, scale):
    x, grad = draw(6, width), draw(6, width)
    p, logs, plain, back = (np.empty_like(x) for _ in range(4))
    group_loops.softmax(x, np.float32(scale), p)
    group_loops.log_softmax(x, np.float32(scale), logs, plain)
    group_loops.softmax_back(p, grad, np.float32(scale), back)
    expected = softmax(scale * x.astype(float))
    for found in (p, plain, np.exp(logs)):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)
    slope = expected * (grad - (expected * grad).sum(1, keepdims=True)) * scale
    np.testing.assert_allclose(back, slope, rtol=1e-4, atol=1e-5)
    again = np.ones_like(x)
    group_loops.add_softmax_back(p, grad, again)
    np.testing.assert_allclose(again, 1 + slope / scale, rtol=1e-4, atol=1e-5)


def test_parents_are_shared_among_their_children():
    above, share = softmax(draw(5, 2)).astype("f4"), softmax(draw(5, 4)).astype("f4")
    parent, grad = np.array([0, 1, 1, 0]), draw(5, 4)
    out = np.empty((5, 4), dtype=np.float32)
    group_loops.descend(above, share, parent, out)
    np.testing.assert_allclose(out, above[:, parent] * share, rtol=1e-6)
    grad_above, grad_share = np.zeros((5, 2), "f4"), np.empty((5, 4), "f4")
    group_loops.descend_back(above, share, parent, grad, grad_above, grad_share)
    expected = np.zeros((5, 2))
    np.add.at(expected.T, parent, (grad * share).T)
    np.testing.assert_allclose(grad_above, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(grad_share, grad * above[:, parent], rtol=1e-6)
