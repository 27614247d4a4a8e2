"""Updates of a table's rows: against a slow loop, and whatever order they come in."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphham.ops.pairs import update_rows


@given(
    rows=st.lists(st.integers(0, 11), max_size=40),
    dim=st.sampled_from([1, 5, 16, 40]),
    seed=st.integers(0, 1000),
)
def test_rows_are_updated_as_a_plain_loop_would(rows: list[int], dim: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    weight = draw.standard_normal((12, dim)).astype(np.float32)
    squares = draw.random(12).astype(np.float32)
    grads = draw.standard_normal((len(rows), dim)).astype(np.float32)
    wanted, held = weight.astype(np.float64), squares.astype(np.float64)
    for row in set(rows):
        total = grads[[k for k, r in enumerate(rows) if r == row]].astype(np.float64).sum(0)
        held[row] += np.mean(total**2)
        wanted[row] -= 0.1 * total / (np.sqrt(held[row]) + 1e-8)
    table, power = torch.from_numpy(weight), torch.from_numpy(squares)
    update_rows(table, power, torch.tensor(rows, dtype=torch.long), torch.from_numpy(grads), 0.1)
    np.testing.assert_allclose(table.numpy(), wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(power.numpy(), held, rtol=1e-4, atol=1e-6)


def test_the_order_of_equal_rows_is_the_order_of_their_sum() -> None:
    """Shards come in their order, so that the number of processes does not matter, bit by bit."""
    grads = torch.tensor([[1e8], [1.0], [-1e8]])
    table, power = torch.zeros(2, 1), torch.zeros(2)
    update_rows(table, power, torch.tensor([1, 1, 1]), grads, 1.0)
    assert table[1, 0] == 0.0  # (1e8 + 1) - 1e8 in single precision
    table, power = torch.zeros(2, 1), torch.zeros(2)
    update_rows(table, power, torch.tensor([1, 1, 1]), grads[[0, 2, 1]], 1.0)
    assert table[1, 0] != 0.0
