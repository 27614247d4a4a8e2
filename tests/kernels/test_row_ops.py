"""Unit rows, centred states and gathered rows against plain torch."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graphham.kernels.row_ops import beside_centered, take_rows, unit_rows
from tests.kernels.test_group_ops import SIZES, _compare, _numbers


@given(
    **SIZES, width=st.integers(1, 5), dim=st.integers(2, 20), momentum=st.sampled_from([0.0, 0.3])
)
def test_centred_states(nodes: int, seed: int, width: int, dim: int, momentum: float) -> None:
    left, center = _numbers(seed + 1, nodes, width), _numbers(seed + 2, dim, scale=0.1)
    moved: list[Tensor] = []

    def both(x: Tensor) -> Tensor:
        held = center.clone()
        out = beside_centered(x, left, held, momentum)
        moved.append(held.clone())
        held.fill_(9.0)  # the running mean moves on before the backward pass
        return unit_rows(out)

    _compare(both, _numbers(seed, nodes, dim), tolerance=1e-3)
    torch.testing.assert_close(*moved)


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
