"""Updates of a table's rows: against a slow loop, and whatever order they come in."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphham.kernels.skipgram_loss import RowPairs, pair_loss


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
    named = torch.tensor(rows, dtype=torch.long)
    RowPairs.plain(named, torch.from_numpy(grads)).update(table, power, 0.1)
    np.testing.assert_allclose(table.numpy(), wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(power.numpy(), held, rtol=1e-4, atol=1e-6)


def test_the_order_of_equal_rows_is_the_order_of_their_sum() -> None:
    """Shards come in their order, so that the number of processes does not matter, bit by bit."""
    grads = torch.tensor([[1e8], [1.0], [-1e8]])
    table, power = torch.zeros(2, 1), torch.zeros(2)
    RowPairs.plain(torch.tensor([1, 1, 1]), grads).update(table, power, 1.0)
    assert table[1, 0] == 0.0  # (1e8 + 1) - 1e8 in single precision
    table, power = torch.zeros(2, 1), torch.zeros(2)
    RowPairs.plain(torch.tensor([1, 1, 1]), grads[[0, 2, 1]]).update(table, power, 1.0)
    assert table[1, 0] != 0.0


@given(
    rows=st.lists(st.integers(-1, 11), max_size=60),
    cuts=st.lists(st.integers(0, 12), max_size=3),
    seed=st.integers(0, 1000),
)
def test_owners_get_their_pairs_in_order_and_add_up_to_the_whole(rows, cuts, seed) -> None:
    draw = np.random.default_rng(seed)
    pairs = RowPairs(
        torch.tensor(rows, dtype=torch.long),
        torch.from_numpy(draw.standard_normal(len(rows)).astype("f4")),
        torch.from_numpy(draw.integers(0, 5, len(rows)).astype("i4")),
        torch.from_numpy(draw.standard_normal((5, 7)).astype("f4")),
    )
    bounds = [0, *sorted(cuts), 12]
    weight = torch.from_numpy(draw.standard_normal((12, 7)).astype("f4"))
    found, wanted = (weight.clone(), torch.zeros(12)), (weight.clone(), torch.zeros(12))
    pairs.update(*wanted, 0.1)
    for low, high, own in zip(bounds, bounds[1:], pairs.by_owner(bounds), strict=False):
        keep = [p for p, row in enumerate(rows) if low <= row < high]
        assert own.rows.tolist() == [rows[p] for p in keep]
        assert torch.equal(own.targets[own.anchors], pairs.targets[pairs.anchors[keep]])
        # What travels comes back, and parts may come from several senders.
        half = len(keep) // 2
        packed = own.packed()
        parts = [RowPairs.unpacked(part, own.targets) for part in (packed[:half], packed[half:])]
        RowPairs.joined(parts).update(*found, 0.1)
    assert torch.equal(found[0], wanted[0])
    assert torch.equal(found[1], wanted[1])


def test_gradients_written_out_go_to_their_owners_alone() -> None:
    grads = torch.arange(12.0).view(6, 2)
    parts = RowPairs.plain(torch.tensor([4, 0, 3, 1, 5, 2]), grads).by_owner([0, 3, 6])
    assert [part.rows.tolist() for part in parts] == [[0, 1, 2], [4, 3, 5]]
    for part, rows in zip(parts, ([1, 3, 5], [0, 2, 4]), strict=True):
        assert torch.equal(part.targets[part.anchors], grads[rows])
        assert len(part.targets) == 3


def test_true_and_sampled_contexts_keep_one_copy_of_their_targets() -> None:
    targets = torch.randn(3, 4, requires_grad=True)
    table = torch.randn(6, 4)
    held = [
        pair_loss(targets, None, table, torch.tensor([[r, 5]] * 3), s)
        for r, s in ((1, 1.0), (-1, -1.0))
    ]
    (held[0][0] + held[1][0]).backward()
    parts = [gradient.pairs() for _, gradient in held]
    joined = RowPairs.joined(parts)
    assert len(joined.targets) == 3
    assert not joined.targets.requires_grad
    assert joined.rows.tolist() == [1, 5] * 3 + [-1, 5] * 3
    assert (
        len(
            RowPairs.joined(
                [parts[0], RowPairs.plain(parts[1].rows[:2], targets[:2]), parts[1]]
            ).targets
        )
        == 8
    )
