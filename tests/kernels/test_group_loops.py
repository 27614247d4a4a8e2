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
def test_softmax_and_its_gradient(width, scale):
    x, grad = draw(6, width), draw(6, width)
    p, back = np.empty_like(x), np.empty_like(x)
    group_loops.softmax(x, np.float32(scale), p)
    group_loops.softmax_back(p, grad, np.float32(scale), back)
    expected = softmax(scale * x.astype(float))
    np.testing.assert_allclose(p, expected, rtol=1e-4, atol=1e-7)
    slope = expected * (grad - (expected * grad).sum(1, keepdims=True)) * scale
    np.testing.assert_allclose(back, slope, rtol=1e-4, atol=1e-5)
