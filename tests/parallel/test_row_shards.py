"""Rows of a context table in ranges: one process alone does what a whole table does."""

import numpy as np
import pytest
import torch

from graphham.parallel.ranks import ALONE, Ranks
from graphham.parallel.row_shards import RowShards


@pytest.mark.parametrize("per_node", [1, 3])
def test_a_table_makes_one_adagrad_step_with_the_sum_of_all_shards(per_node):
    table = RowShards(40, per_node, 5, 7, ALONE, "cpu")
    before = table.weight.clone()
    rng = np.random.default_rng(0)
    nodes = [torch.from_numpy(rng.integers(-1, 40, (6, 2))) for _ in range(4)]
    table.fetch(nodes)
    expected = torch.zeros_like(before)
    for shard in range(2):
        total = torch.zeros(())
        for looked in nodes[2 * shard : 2 * shard + 2]:
            rows = looked[looked >= 0] * per_node + int(rng.integers(per_node))
            factor = torch.from_numpy(rng.standard_normal((len(rows), 5)).astype("f4"))
            found = table.look_up(rows)
            torch.testing.assert_close(found.detach(), before[rows], atol=0, rtol=0)
            total = total + (found * factor).sum()
            expected.index_add_(0, rows, factor)
        total.backward()
        table.end_shard()
    table.send()
    table.step(0.1)
    squares = expected.square().mean(1)
    moved = before - 0.1 * expected / (squares.sqrt() + 1e-8)[:, None]
    torch.testing.assert_close(table.weight, moved)
    torch.testing.assert_close(table.squares, squares)


def test_ranges_of_a_table_are_drawn_alike_whoever_owns_them():
    whole = RowShards(10_000, 2, 4, 7, ALONE, "cpu").weight
    parts = [RowShards(10_000, 2, 4, 7, Ranks(r, 3), "cpu") for r in range(3)]
    assert [p.last for p in parts[:-1]] == [p.first for p in parts[1:]]
    torch.testing.assert_close(torch.cat([p.weight for p in parts]), whole, atol=0, rtol=0)
