"""A product in tiles against numpy's."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphham.kernels.tiles import COLUMNS, ROWS, add_tile
from graphham.system.jit import jit


@jit
def _multiply(left, right, out):
    count, inner = left.shape
    columns = right.shape[1]
    for r in range(0, count, ROWS):
        a, b, c, d = r * inner, (r + 1) * inner, (r + 2) * inner, (r + 3) * inner
        for k in range(0, columns, COLUMNS):
            add_tile(left, a, b, c, d, 1, right, k, columns, inner, out, r * columns + k)


@given(st.integers(0, 4), st.integers(0, 30), st.integers(0, 3), st.integers(0, 10**6))
def test_tiles_add_a_product_to_what_is_there(high, inner, wide, seed):
    rng = np.random.default_rng(seed)
    left = rng.standard_normal((ROWS * high, inner)).astype("f4")
    right = rng.standard_normal((inner, COLUMNS * wide)).astype("f4")
    out = rng.standard_normal((ROWS * high, COLUMNS * wide)).astype("f4")
    expected = out + left @ right
    _multiply(left, right, out)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
