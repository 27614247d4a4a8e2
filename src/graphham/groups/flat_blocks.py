"""A flat degree-corrected block model of links and features, fitted by mean-field rounds.

A node is in at most four groups, so that sums over links cost what the graph costs however many
groups there are. The search for their number (:mod:`graphham.groups.group_search`) fits many of
these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.groups.description_length import Codes, GroupTables, feature_gains
from graphham.kernels import few_group_loops as loops

Floats = npt.NDArray[np.float32]
_WIDTH = 4  # groups a node may be in
_SPAN = 8192  # nodes handled at once


@dataclass(frozen=True, eq=False)
class BlockData:
    """A graph and its features as the rounds read them.

    Args:
        adjacency: Symmetric CSR; links weigh one on average.
        degrees: ``(num_nodes,)`` sums of its rows.
        x: ``(num_nodes, dim)`` centred features, zero where a node has none; zero wide without.
        seen: ``(num_nodes,)`` 1 for nodes that have features.
        squares: ``(dim,)`` sums of squares of ``x``.
    """

    adjacency: sp.csr_matrix
    degrees: Floats
    x: Floats
    seen: Floats
    squares: npt.NDArray[np.float64]

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.degrees)


@dataclass(frozen=True, eq=False)
class FewGroups:
    """Memberships of all nodes: the few groups each is in, largest share first.

    Args:
        groups: ``(num_nodes, width)`` int32 groups.
        shares: ``(num_nodes, width)`` float32; a row ends with zeros and sums to one.
        count: Number of groups.
    """

    groups: Codes
    shares: Floats
    count: int


def block_data(adjacency: sp.csr_matrix, x: Floats | None) -> BlockData:
    """Bring links to a mean weight of one and centre the features of the nodes that have any."""
    n = adjacency.shape[0]
    if x is not None and len(x) != n:
        raise InputError(f"there are {len(x):,} rows of features for {n:,} nodes; give one each")
    adjacency = sp.csr_matrix(adjacency, dtype=np.float32)
    if adjacency.nnz:
        # The unit of weights is arbitrary, the number of links is the evidence there is.
        mean = np.float32(adjacency.data.mean(dtype=np.float64))
        scaled = (adjacency.data / mean, adjacency.indices, adjacency.indptr)
        adjacency = sp.csr_matrix(scaled, shape=adjacency.shape)
    degrees = np.asarray(adjacency.sum(1), dtype=np.float32).ravel()
    x = np.zeros((n, 0), dtype=np.float32) if x is None else np.asarray(x, dtype=np.float32)
    seen = (x != 0).any(1).astype(np.float32) if x.shape[1] else np.zeros(n, dtype=np.float32)
    mean_row = (seen @ x) / max(float(seen.sum()), 1.0)
    x = (x - mean_row.astype(np.float32)) * seen[:, None]
    return BlockData(adjacency, degrees, x, seen, np.einsum("ir,ir->r", x, x, dtype=np.float64))


def rewired(data: BlockData, generator: np.random.Generator, most: int | None = None) -> BlockData:
    """Return a copy with the same degrees whose links join random ends, and with shuffled features.

    Every feature is dealt out anew by itself: groups that features alone make are structure too,
    and must not count as chance.
    Ends of links are shuffled; pairs drawn twice weigh twice, as the block model counts them, and
    loops trade their end with another link.

    Args:
        data: The graph.
        generator: Source of all draws.
        most: Most nodes of the copy; of a larger graph so many are drawn with all their links,
            which join each other. What chance gains grows with the number of nodes alone.
    """
    if most is not None and data.num_nodes > most:
        chosen = np.sort(generator.choice(data.num_nodes, most, replace=False))
        links = data.adjacency[chosen]
        ends = np.repeat(np.arange(most), np.diff(links.indptr))
        given = generator.permutation(links.data)[: len(ends) // 2]
        ends, x, seen = ends[: 2 * len(given)], data.x[chosen], data.seen[chosen]
    else:
        upper = sp.triu(data.adjacency, 1, format="coo")
        ends, given = np.concatenate([upper.row, upper.col]).astype(np.int64), upper.data
        x, seen = data.x.copy(), data.seen
    first, second = np.split(ends[generator.permutation(len(ends))], 2)
    for _ in range(20):
        loops = np.flatnonzero(first == second)
        if not len(loops):
            break
        others = generator.integers(len(second), size=len(loops))
        for loop, other in zip(loops, others, strict=True):
            second[[loop, other]] = second[[other, loop]]
    kept = first != second
    weights = given[generator.permutation(len(given))][kept]
    half = sp.csr_matrix((weights, (first[kept], second[kept])), shape=(len(x), len(x)))
    adjacency = (half + half.T).tocsr().astype(np.float32)
    degrees = np.asarray(adjacency.sum(1), dtype=np.float32).ravel()
    rows = np.flatnonzero(seen)
    for column in range(x.shape[1]):
        x[rows, column] = x[generator.permutation(rows), column]
    squares = data.squares if len(x) == data.num_nodes else np.square(x, dtype=np.float64).sum(0)
    return BlockData(adjacency, degrees, x, seen, squares)


def in_one_group(codes: Codes) -> FewGroups:
    """Return memberships of nodes that are in one group each."""
    groups, places = np.unique(codes, return_inverse=True)
    held = np.zeros((len(codes), _WIDTH), dtype=np.int32)
    shares = np.zeros((len(codes), _WIDTH), dtype=np.float32)
    held[:, 0], shares[:, 0] = places, 1.0
    return FewGroups(held, shares, len(groups))


def regrouped(held: FewGroups, parents: Codes, count: int) -> FewGroups:
    """Return memberships in groups of groups."""
    groups, shares = held.groups.copy(), held.shares.copy()
    loops.regroup(groups, shares, parents)
    return FewGroups(groups, shares, count)


def fit_rounds(data: BlockData, held: FewGroups, rounds: int) -> FewGroups:
    """Return memberships after some mean-field rounds; groups that lose all nodes go."""
    for _ in range(rounds):
        around = surroundings(data, held)
        rates = estimate_rates(group_tables(data, held, around))
        previous = held.groups[:, 0].copy()
        held = one_round(data, held, rates, around)
        if (held.groups[:, 0] != previous).mean() < 1e-3:
            break
        sizes = np.bincount(held.groups[:, 0], minlength=held.count)
        if not sizes.all():
            kept = np.flatnonzero(sizes)
            held = one_round(data, held, rates, surroundings(data, held), kept)
    return held


def one_round(
    data: BlockData,
    held: FewGroups,
    rates: Rates,
    around: Floats,
    kept: npt.NDArray[np.int64] | None = None,
) -> FewGroups:
    """Return memberships after one mean-field round, in some of the groups only if asked."""
    groups, shares = np.empty_like(held.groups), np.empty_like(held.shares)
    for first, last in spans(data):
        logits = group_logits(data, first, last, around[first:last], rates)
        if kept is not None:
            logits = np.ascontiguousarray(logits[:, kept])
        loops.keep_largest(logits, groups[first:last], shares[first:last])
    return FewGroups(groups, shares, held.count if kept is None else len(kept))


def spans(data: BlockData) -> list[tuple[int, int]]:
    """Return the bounds of the nodes that are handled at once."""
    starts = range(0, data.num_nodes, _SPAN)
    return [(first, min(first + _SPAN, data.num_nodes)) for first in starts]


def surroundings(data: BlockData, held: FewGroups) -> Floats:
    """Return ``(num_nodes, B)`` memberships summed over the links of every node.

    Both the table of links and the next memberships are made of these: links are passed once.
    """
    links = data.adjacency
    around = np.zeros((data.num_nodes, held.count), dtype=np.float32)
    loops.gather(links.indptr, links.indices, links.data, held.groups, held.shares, around)
    return around


@dataclass(frozen=True, eq=False)
class Rates:
    """What the groups look like: M-step of the block model.

    Args:
        prior: ``(B,)`` log shares of nodes.
        odds: ``(B, B)`` links between two groups over what their degrees let expect.
        expected: ``(B,)`` links of a group's node over its degree, as the odds have it.
        means: ``(B, open)`` feature means in the dimensions that tell groups apart.
        precision: ``(open,)`` one over the variance inside groups.
        is_open: ``(open,)`` which dimensions those are.
    """

    prior: Floats
    odds: npt.NDArray[np.float64]
    expected: Floats
    means: npt.NDArray[np.float64]
    precision: npt.NDArray[np.float64]
    is_open: npt.NDArray[np.int64]


def estimate_rates(tables: GroupTables) -> Rates:
    """Return what the groups look like by their tables."""
    rows = tables.links.sum(1)
    total = rows.sum()
    odds = (tables.links + 1.0) / (rows[:, None] * rows[None, :] / total + 1.0)
    prior = np.log(np.maximum(tables.sizes, 1e-3) / tables.sizes.sum())
    is_open = np.flatnonzero(feature_gains(tables) > 0)
    seen = np.maximum(tables.seen, 1e-6)
    means = tables.sums[:, is_open] / seen[:, None]
    within = tables.squares[is_open] - seen @ means**2
    within = np.maximum(within, 1e-6 * tables.squares[is_open] + 1e-12)
    expected = (odds @ rows / total).astype(np.float32)
    precision = tables.seen.sum() / within
    return Rates(prior.astype(np.float32), odds, expected, means, precision, is_open)


def group_logits(data: BlockData, first: int, last: int, around: Floats, rates: Rates) -> Floats:
    """Return what links and features say about the groups of some nodes."""
    logits: Floats = around @ np.log(rates.odds).astype(np.float32)
    logits -= data.degrees[first:last, None] * rates.expected
    logits += rates.prior
    if len(rates.is_open):
        logits += feature_logits(data, np.arange(first, last), rates.means, rates)
    return logits


def feature_logits(
    data: BlockData, rows: Any, means: npt.NDArray[np.float64], rates: Rates
) -> Floats:
    """Return the log likelihood of nodes' features under some means, up to a constant."""
    scaled = means * rates.precision
    told: Floats = data.x[np.ix_(rows, rates.is_open)] @ scaled.T.astype(np.float32)
    told -= data.seen[rows, None] * ((means * scaled).sum(1) / 2).astype(np.float32)
    return told


def group_tables(data: BlockData, held: FewGroups, around: Floats | None = None) -> GroupTables:
    """Add up links, sizes, features and what is left open, group by group.

    Args:
        data: The graph.
        held: Memberships.
        around: What :func:`surroundings` returned for them, where it is at hand.
    """
    count = held.count
    around = surroundings(data, held) if around is None else around
    table, shared = np.zeros((count, count)), np.zeros((count, count))
    sizes, seen = np.zeros(count), np.zeros(count)
    sums = np.zeros((count, data.x.shape[1]))
    loops.add_links(around, held.groups, held.shares, table)
    entropy = loops.add_nodes(
        held.groups, held.shares, data.x, data.seen, sizes, seen, sums, shared
    )
    symmetric = (table + table.T) / 2
    return GroupTables(symmetric, sizes, sums, seen, data.squares, entropy, shared + shared.T)
