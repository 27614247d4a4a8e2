"""Description length: every term against plain loops, greedy joins against trying all of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graphham.groups.description_length import (
    GroupTables,
    feature_gains,
    find_upper_level,
    gain,
    link_gain,
    merge_path,
    upper_gain,
)


def log_multiset(kinds: float, items: float) -> float:
    return math.lgamma(kinds + items) - math.lgamma(kinds) - math.lgamma(items + 1)


def plain_gain(dense, codes, x):
    """Gain of section 7 of the note, one link and one node at a time."""
    n, count = len(codes), int(codes.max()) + 1
    links = [[0.0] * count for _ in range(count)]
    for i in range(n):
        for j in range(n):
            links[codes[i]][codes[j]] += dense[i, j]
    total = sum(map(sum, links)) / 2

    def h(value):
        return value * math.log(value) if value > 0 else 0.0

    saved = sum(h(cell) for row in links for cell in row)
    saved = (saved - 2 * sum(h(sum(row)) for row in links) + h(2 * total)) / 2
    sizes = [int((codes == k).sum()) for k in range(count)]
    cost = math.lgamma(n) - math.lgamma(count) - math.lgamma(n - count + 1)
    cost += math.lgamma(n + 1) - sum(math.lgamma(size + 1) for size in sizes) + math.log(n)
    cost += log_multiset(count * (count + 1) / 2, total)
    features = 0.0
    for r in range(x.shape[1]):
        column = x[:, r] - x[:, r].mean()
        inside = sum(
            ((column[codes == k] - column[codes == k].mean()) ** 2).sum() for k in set(codes)
        )
        inside = max(inside, 0.25 * (column**2).sum())
        part = n / 2 * math.log((column**2).sum() / inside) - (count - 1) / 2 * math.log(n)
        features += max(0.0, part)
    return saved - cost + features


def tables_of(dense, codes, x):
    count = int(codes.max()) + 1
    held = np.eye(count)[codes]
    x = x - x.mean(0)
    return GroupTables(
        held.T @ dense @ held,
        held.sum(0),
        held.T @ x,
        held.sum(0),
        (x**2).sum(0),
        0.0,
        np.zeros((count, count)),
    )


def example(seed, n=40, count=7, dim=3, weighted=False):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(count), rng.integers(0, count, n - count)])
    near = codes[:, None] % 3 == codes[None, :] % 3
    dense = np.triu(rng.random((n, n)) < np.where(near, 0.3, 0.05), 1).astype(float)
    if weighted:
        dense *= rng.integers(1, 5, size=dense.shape)
    x = rng.normal(size=(n, dim)) + 3 * (codes % 2)[:, None] * (np.arange(dim) == 0)
    return dense + dense.T, codes, x


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_gain_is_that_of_plain_loops(seed, weighted):
    dense, codes, x = example(seed, weighted=weighted)
    assert gain(tables_of(dense, codes, x)) == pytest.approx(plain_gain(dense, codes, x), abs=1e-6)
    none = x[:, :0]
    assert gain(tables_of(dense, codes, none)) == pytest.approx(
        plain_gain(dense, codes, none), abs=1e-6
    )


def test_one_group_saves_nothing_but_costs_its_announcement():
    dense, codes, x = example(0)
    tables = tables_of(dense, codes * 0, x)
    assert link_gain(tables.links) == pytest.approx(0, abs=1e-9)
    assert gain(tables) == pytest.approx(-math.log(len(codes)))


@pytest.mark.parametrize("dim", [0, 3])
@pytest.mark.parametrize("seed", range(4))
def test_every_step_takes_the_best_of_all_joins(seed, dim):
    dense, codes, x = example(seed, dim=dim)
    path = merge_path(tables_of(dense, codes, x))
    for count in range(7, 1, -1):
        now = path.groups(count)[codes]
        assert path.gains[count - 1] == pytest.approx(plain_gain(dense, now, x), abs=1e-6)
        best = -np.inf
        for a in range(count):
            for b in range(a + 1, count):
                joined = np.where(now == b, a, now)
                joined = joined - (joined > b)
                best = max(best, plain_gain(dense, joined, x))
        assert path.gains[count - 2] == pytest.approx(best, abs=1e-6)


def test_levels_of_a_path_are_nested():
    dense, codes, x = example(5, n=80, count=12)
    path = merge_path(tables_of(dense, codes, x))
    for count in range(12, 1, -1):
        fine, coarse = path.groups(count), path.groups(count - 1)
        assert len(set(fine)) == count
        assert len(set(zip(fine, coarse, strict=True))) == count


def test_a_dimension_of_noise_is_shut_and_one_of_groups_open():
    dense, codes, x = example(1, n=300)
    gains = feature_gains(tables_of(dense, codes, x))
    assert gains[0] > 50
    assert (gains[1:] < 5).all()


def plain_upper(links, parents):
    """What parents explain of the log-odds of links between groups, cell by cell."""
    count, upper = len(links), int(parents.max()) + 1
    blocks: dict[tuple[int, int], list[float]] = {}
    for a in range(count):
        for b in range(a + 1, count):
            expected = links[a].sum() * links[b].sum() / links.sum()
            odds = math.log((links[a, b] + 1) / (expected + 1))
            pair = tuple(sorted((int(parents[a]), int(parents[b]))))
            blocks.setdefault(pair, []).append(odds)
    cells = [value for block in blocks.values() for value in block]
    within = sum(((np.array(block) - np.mean(block)) ** 2).sum() for block in blocks.values())
    chance = sum(1 / (links[a, b] + 1) for a in range(count) for b in range(a))
    saved = len(cells) * np.var(cells) + chance
    saved = len(cells) / 2 * math.log(saved / (within + chance))
    saved -= (len(blocks) - 1) / 2 * math.log(len(cells))
    inside = [int((parents == r).sum()) for r in range(upper)]
    cost = math.lgamma(count) - math.lgamma(upper) - math.lgamma(count - upper + 1)
    cost += math.lgamma(count + 1) - sum(math.lgamma(size + 1) for size in inside)
    return max(saved, 0.0) - cost - math.log(count)


def group_graph(shares, seed=0, fine=12, coarse=3, num_links=6000):
    """Tables of a graph whose links fall on groups of a planted tree."""
    rng = np.random.default_rng(seed)
    parent = np.arange(fine) // (fine // coarse)
    same, near = np.eye(fine), (parent[:, None] == parent[None, :]).astype(float) - np.eye(fine)
    rate = shares[0] * same / fine + shares[1] * near / max(near.sum(), 1)
    rate += shares[2] * (1 - same - near) / max((1 - same - near).sum(), 1)
    drawn = rng.multinomial(num_links, (rate / rate.sum()).ravel()).reshape(fine, fine)
    links = (drawn + drawn.T).astype(float)
    sizes = np.full(fine, 170.0)
    empty = np.zeros((fine, 0))
    return GroupTables(links, sizes, empty, sizes, np.zeros(0), 0.0, np.zeros((fine, fine))), parent


def test_upper_gain_is_that_of_plain_loops():
    tables, parent = group_graph((0.6, 0.25, 0.15))
    rng = np.random.default_rng(0)
    for parents in (parent, np.arange(12) % 5, rng.permutation(np.arange(12) % 4)):
        expected = plain_upper(tables.links, parents)
        assert upper_gain(tables, parents) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_the_planted_upper_level_is_found_and_none_above_a_flat_graph(seed):
    tables, parent = group_graph((0.6, 0.25, 0.15), seed)
    found = find_upper_level(tables)
    assert found is not None
    assert found.parents.max() + 1 == 3
    assert len(set(zip(found.parents, parent, strict=True))) == 3
    # Links outside the own group fall anywhere: 12 x 11 pairs, 8 x 12 of them across.
    flat, _ = group_graph((0.6, 0.4 * 36 / 132, 0.4 * 96 / 132), seed)
    assert find_upper_level(flat) is None
