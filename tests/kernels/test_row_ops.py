"""Unit rows and gathered rows against plain torch."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphham.kernels.row_ops import take_rows, unit_rows
from tests.kernels.test_group_ops import SIZES, _compare, _numbers


@given(**SIZES, dim=st.integers(1, 20))
def test_unit_rows(nodes: int, seed: int, dim: int) -> None:
    _compare(unit_rows, _numbers(seed, nodes, dim), tolerance=1e-3)


def test_a_row_of_zeros_stays() -> None:
    x = torch.zeros(2, 3, requires_grad=True)
    out = unit_rows(x)
    assert not out.any()
    out.sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert x.grad.isfinite().all()


@given(**SIZES, count=st.integers(0, 40))
def test_rows_taken_several_times(nodes: int, seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    chosen = [torch.from_numpy(rng.integers(0, nodes, size)) for size in (count, 3)]
    _compare(lambda x: take_rows(x, *chosen), _numbers(seed, nodes, 5))
