"""How much shorter groups make the description of a graph: links, features, and the table itself.

A partition into groups is worth having where what it saves on links (a degree-corrected block
model) and on features (a spread within groups smaller than the spread over all) exceeds what it
costs to write down: the group of every node and the table of link counts between groups. The gain
over one group for all, in nats, decides how many groups there are, whether a level lies above them,
and whether there is anything at all. Everything here works on tables of groups x groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, xlogy

Table = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class GroupTables:
    """What the gain of a partition needs to know of a graph.

    Args:
        links: ``(B, B)`` link weight between groups; a link inside a group counts twice.
        sizes: ``(B,)`` nodes per group; shares of nodes where memberships are soft.
        sums: ``(B, dim)`` sums of centred features; zero wide without features.
        seen: ``(B,)`` nodes that have features.
        squares: ``(dim,)`` sums of squared centred features over all nodes.
        entropy: What soft memberships leave open, in nats; 0 where every node is in one group.
        shared: ``(B, B)`` how much of the entropy goes when two groups are joined.
    """

    links: Table
    sizes: Table
    sums: Table
    seen: Table
    squares: Table
    entropy: float
    shared: Table

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.sizes)


def log_multiset(kinds: Any, items: Any) -> Any:
    """Return the log of the number of ways to spread ``items`` over ``kinds`` bins."""
    return gammaln(kinds + items) - gammaln(kinds) - gammaln(items + 1.0)


def link_gain(links: Table) -> float:
    """Return what a degree-corrected block model saves on links against one group."""
    rows = links.sum(1)
    total = rows.sum()
    saved = xlogy(links, links).sum() - 2 * xlogy(rows, rows).sum() + xlogy(total, total)
    return float(saved) / 2


def partition_cost(sizes: Table) -> float:
    """Return what it costs to say which group every node is in."""
    n, count = float(sizes.sum()), len(sizes)
    choose = gammaln(n) - gammaln(count) - gammaln(max(n - count, 0.0) + 1.0)
    return float(choose + gammaln(n + 1.0) - gammaln(sizes + 1.0).sum() + np.log(max(n, 1.0)))


def table_cost(count: int, num_links: float) -> float:
    """Return what it costs to say how many links run between every two groups."""
    return float(log_multiset(count * (count + 1) / 2, num_links))


def feature_gains(tables: GroupTables) -> Table:
    """Return per feature dimension what groups save on it; 0 where a dimension pays for nothing.

    Every dimension has a gate of its own: without it dozens of dimensions of noise would each
    charge for means that say nothing, and drown the few that tell groups apart.
    """
    n = tables.seen.sum()
    if n < 2 or not tables.sums.shape[1]:
        return np.zeros(tables.sums.shape[1])
    return np.asarray(_gated(_within(tables), tables.squares, n, tables.count))


def gain(tables: GroupTables) -> float:
    """Return how many nats the groups save against one group for all nodes."""
    num_links = float(tables.links.sum()) / 2
    return (
        link_gain(tables.links)
        - partition_cost(tables.sizes)
        + tables.entropy
        - table_cost(tables.count, num_links)
        + float(feature_gains(tables).sum())
    )


def _within(tables: GroupTables) -> Table:
    """Return the scatter of every feature dimension inside the groups."""
    means = tables.sums**2 / np.maximum(tables.seen, 1e-12)[:, None]
    within: Table = tables.squares - means.sum(0)
    return within


def _gated(within: Any, squares: Table, n: float, count: int) -> Any:
    # A dimension without any spread says nothing; one that groups explain to the last digit would
    # say infinitely much.
    # Features of few values can be explained without a rest, which no number of groups should
    # be paid for. With a quarter left, a cut in two by one feature never pays for itself.
    floor = 0.25 * squares + 1e-12
    ratio = np.log((squares + 1e-12) / np.maximum(within, floor))
    return np.maximum(n / 2 * ratio - (count - 1) / 2 * np.log(n), 0.0)


@dataclass(frozen=True, eq=False)
class MergePath:
    """Groups joined two at a time, always the two whose union is worth most.

    Args:
        gains: ``(B,)`` gain with 1, 2, ... B groups.
        pairs: ``(B - 1, 2)`` the joined groups, by their first member's number, in order.
    """

    gains: Table
    pairs: Codes

    @property
    def best(self) -> int:
        """The number of groups with the largest gain."""
        return int(self.gains.argmax()) + 1

    def groups(self, count: int) -> Codes:
        """Return the ``(B,)`` group of each start group when ``count`` groups are left."""
        start = len(self.gains)
        owner = np.arange(start, dtype=np.int32)
        for keep, gone in self.pairs[: start - count]:
            owner[owner == gone] = keep
        codes: Codes = np.unique(owner, return_inverse=True)[1].astype(np.int32)
        return codes


class _JoinedRows:
    """Keeps, for every two groups, how a sum over cells of a table changes when they are joined.

    The sum is over all cells (r, s) of f(cell). Joining a and b adds g(a, b, l) = f(al + bl) -
    f(al) - f(bl) for every other group l, twice; after a join only two columns l go and one comes,
    so all pairs are brought up to date in groups x groups operations.
    """

    def __init__(self, cells: list[Table], f: Any) -> None:
        self.cells, self.f = cells, f
        count = len(cells[0])
        self.rows = np.zeros((count, count))
        for column in range(count):
            self.rows += self._column(column)

    def _column(self, column: int) -> Table:
        values = [cell[:, column] for cell in self.cells]
        alone = self.f(*values)
        joined = self.f(*(v[:, None] + v[None, :] for v in values))
        found: Table = joined - alone[:, None] - alone[None, :]
        return found

    def other_columns(self) -> Table:
        """Return for every pair the change over the columns of all other groups, once."""
        cells = self.cells
        at_first = self.f(*(c.diagonal()[:, None] + c.T for c in cells))
        at_first = at_first - self.f(*(c.diagonal() for c in cells))[:, None] - self.f(*cells).T
        # Column a of pair (a, b) joins the cells (a, a) and (b, a); column b is its mirror image.
        return np.asarray(self.rows - at_first - at_first.T)

    def join(self, keep: int, gone: int) -> None:
        """Join two groups."""
        self.rows -= self._column(keep) + self._column(gone)
        for i, cell in enumerate(self.cells):
            cell = cell.copy()
            cell[keep] += cell[gone]
            cell[:, keep] += cell[:, gone]
            self.cells[i] = np.delete(np.delete(cell, gone, 0), gone, 1)
        self.rows = np.delete(np.delete(self.rows, gone, 0), gone, 1)
        keep -= keep > gone
        self.rows += self._column(keep)
        # The joined group's own row is new altogether.
        values = [cell[keep] for cell in self.cells]
        row = self.f(*(v[None, :] + cell for v, cell in zip(values, self.cells, strict=True)))
        row = (row - self.f(*values)[None, :] - self.f(*self.cells)).sum(1)
        self.rows[keep], self.rows[:, keep] = row, row


def _entropy_cell(links: Any) -> Any:
    return xlogy(links, links)


def merge_path(tables: GroupTables) -> MergePath:
    """Join groups greedily down to one and return the gain at every number of groups."""
    labels = np.arange(tables.count, dtype=np.int32)
    gains = np.zeros(tables.count)
    pairs = np.zeros((tables.count - 1, 2), dtype=np.int32)
    joined = _JoinedRows([tables.links], _entropy_cell)
    for step in range(tables.count - 1):
        gains[tables.count - 1] = gain(tables)
        change = _join_changes(tables, joined)
        change[np.tril_indices(tables.count)] = -np.inf
        first, second = divmod(int(change.argmax()), tables.count)
        pairs[step] = labels[first], labels[second]
        joined.join(first, second)
        tables = _joined(tables, first, second, joined.cells[0])
        labels = np.delete(labels, second)
    gains[0] = gain(tables)
    return MergePath(gains, pairs)


def _joined(tables: GroupTables, keep: int, gone: int, links: Table) -> GroupTables:
    def add(values: Table) -> Table:
        values = values.copy()
        values[keep] += values[gone]
        return np.delete(values, gone, 0)

    shared = add(add(tables.shared).T)
    np.fill_diagonal(shared, 0.0)
    return GroupTables(
        links,
        add(tables.sizes),
        add(tables.sums),
        add(tables.seen),
        tables.squares,
        max(tables.entropy - float(tables.shared[keep, gone]), 0.0),
        shared,
    )


def _join_changes(tables: GroupTables, joined: _JoinedRows) -> Table:
    """Return how the gain changes by every join, up to what all joins have in common."""
    links, sizes = tables.links, tables.sizes
    rows, own = links.sum(1), links.diagonal()
    change = joined.other_columns()
    # The cells inside and between the two become one.
    inside = own[:, None] + own[None, :] + 2 * links
    alone = xlogy(own, own)
    change += (xlogy(inside, inside) - alone[:, None] - alone[None, :]) / 2 - xlogy(links, links)
    both, alone = rows[:, None] + rows[None, :], xlogy(rows, rows)
    change -= xlogy(both, both) - alone[:, None] - alone[None, :]
    alone = gammaln(sizes + 1.0)
    change += gammaln(sizes[:, None] + sizes[None, :] + 1.0) - alone[:, None] - alone[None, :]
    change -= tables.shared
    return np.asarray(change + _feature_changes(tables))


def _feature_changes(tables: GroupTables) -> Any:
    count, n = tables.count, float(tables.seen.sum())
    if n < 2 or not tables.sums.shape[1]:
        return 0.0
    within = _within(tables)
    # A dimension whose gate is shut now opens by no join.
    is_open = _gated(within, tables.squares, n, count - 1) > 0
    if not is_open.any():
        return 0.0
    first, second = np.triu_indices(count, 1)
    seen = np.maximum(tables.seen, 1e-12)
    means = tables.sums[:, is_open] / seen[:, None]
    weight = seen[first] * seen[second] / (seen[first] + seen[second])
    apart = weight[:, None] * (means[first] - means[second]) ** 2
    squares = tables.squares[is_open]
    change = np.zeros((count, count))
    change[first, second] = _gated(within[is_open] + apart, squares, n, count - 1).sum(1)
    return change


@dataclass(frozen=True, eq=False)
class UpperLevel:
    """A level above some groups.

    Args:
        parents: ``(B,)`` parent of every group.
        gain: Nats saved by describing the groups' own table through the parents.
    """

    parents: Codes
    gain: float


def upper_gain(tables: GroupTables, parents: Codes) -> float:
    """Return what a level above the groups explains of their links to each other and their means.

    Log-odds of links between different groups are compared with their mean over each two parents.
    Links inside groups do not count: they are there with or without parents, and wherever groups
    hold together they would make any parents look good.
    """
    count, upper = tables.count, int(parents.max()) + 1
    held = np.zeros((upper, count))
    held[parents, np.arange(count)] = 1.0
    odds, sizes = between_odds(tables.links), held.sum(1)
    pairs = np.triu(sizes[:, None] * sizes[None, :])
    np.fill_diagonal(pairs, sizes * (sizes - 1) / 2)
    sums = np.triu(held @ odds @ held.T)
    np.fill_diagonal(sums, sums.diagonal() / 2)
    within = (odds**2).sum() / 2 - _explained(pairs, sums).sum()
    saved = _odds_gain(within, odds, int((pairs > 0).sum()), _chance(tables.links))
    return max(float(saved), 0.0) + _mean_gain(tables, held) - partition_cost(sizes)


def between_odds(links: Table) -> Table:
    """Return log-odds of links between different groups about their mean; 0 inside groups."""
    rows = links.sum(1)
    expected = rows[:, None] * rows[None, :] / max(rows.sum(), 1e-12)
    odds = np.log((links + 1.0) / (expected + 1.0))
    np.fill_diagonal(odds, 0.0)
    odds -= odds.sum() / (len(odds) * (len(odds) - 1))
    np.fill_diagonal(odds, 0.0)
    return np.asarray(odds)


def _chance(links: Table) -> float:
    """Return the squares by which log-odds of counted links scatter by chance."""
    noise = 1 / (links + 1.0)
    return float(noise.sum() - noise.trace()) / 2


def _odds_gain(within: Any, odds: Table, blocks: int, chance: float) -> Any:
    # What chance scatters is counted on both sides: parents must not be made to explain it.
    cells = len(odds) * (len(odds) - 1) / 2
    total = float((odds**2).sum()) / 2 + chance
    ratio = np.log(total / (np.maximum(within, 0.0) + chance))
    return cells / 2 * ratio - (blocks - 1) / 2 * np.log(cells)


def _explained(pairs: Any, sums: Any) -> Any:
    """Return the squares that the mean of a block of cells explains."""
    return sums**2 / np.maximum(pairs, 1e-12) * (pairs > 0)


def _mean_gain(tables: GroupTables, held: Table) -> float:
    """Return what parents save on the scatter of the group means.

    All dimensions are judged together, each in units of its spread inside groups: a dozen means
    scatter over a dozen dimensions, and some of those fit any parents by chance.
    """
    points = _group_points(tables)
    if not points.shape[1]:
        return 0.0
    squares = float((points**2).sum())
    within = squares - float(((held @ points) ** 2 / held.sum(1)[:, None]).sum())
    return float(_scatter_gain(within, squares, _width(points), tables.count, len(held)))


def _scatter_gain(within: Any, squares: float, width: float, count: int, upper: int) -> Any:
    ratio = np.log(squares / np.maximum(within, 1e-6 * squares))
    return np.maximum(width / 2 * (count * ratio - (upper - 1) * np.log(count)), 0.0)


def _width(points: Table) -> float:
    """Return over how many dimensions points scatter: 1 on a line, all of them in a ball."""
    spread = (points**2).sum(0)
    return float(spread.sum() ** 2 / (spread**2).sum())


def _group_points(tables: GroupTables) -> Table:
    """Return the groups' centred means, in units of the spread inside groups."""
    if not tables.sums.shape[1] or not feature_gains(tables).any():
        return np.zeros((tables.count, 0))
    means = tables.sums / np.maximum(tables.seen, 1e-12)[:, None]
    within = np.maximum(_within(tables), 1e-6 * tables.squares + 1e-12)
    points: Table = (means - means.mean(0)) / np.sqrt(within / tables.seen.sum())
    return points


def find_upper_level(tables: GroupTables) -> UpperLevel | None:
    """Return the best level above some groups, or ``None`` where none pays for itself.

    Groups are joined greedily as nodes are, once by links and group means and once by links alone;
    the best number of parents, at most half the number of groups, is then improved by moving
    single groups.
    """
    if tables.count < 4:
        return None
    best = _upper_path(tables, np.zeros((tables.count, 0)))
    points = _group_points(tables)
    if points.shape[1]:
        best = max(best, _upper_path(tables, points), key=lambda level: level.gain)
    return _improved(tables, best) if best.gain > 0 else None


def _upper_path(tables: GroupTables, points: Table) -> UpperLevel:
    """Join groups greedily and return the best level on the way; gain 0 where there is none."""
    count, odds = tables.count, between_odds(tables.links)
    ones, squares = np.ones(count), (points**2).sum(0)
    graph = GroupTables(odds, ones, points, ones, squares, 0.0, np.zeros((count, count)))
    joined = _JoinedRows([np.ones((count, count)), odds], _explained)
    width = _width(points) if points.shape[1] else 0.0
    parents = np.arange(count, dtype=np.int32)
    best = UpperLevel(parents, 0.0)
    while graph.count > 2:
        change = _upper_changes(graph, odds, joined, width, _chance(tables.links))
        change[np.tril_indices(graph.count)] = -np.inf
        first, second = divmod(int(change.argmax()), graph.count)
        parents = np.where(parents == second, first, parents)
        parents = (parents - (parents > second)).astype(np.int32)
        joined.join(first, second)
        graph = _joined(graph, first, second, joined.cells[1])
        saved = upper_gain(tables, parents) if graph.count <= count // 2 else 0.0
        if saved > best.gain:
            best = UpperLevel(parents, saved)
    return best


def _upper_changes(
    graph: GroupTables, odds: Table, joined: _JoinedRows, width: float, chance: float
) -> Table:
    """Return the gain of an upper level after every join, up to what all have in common."""
    sums, sizes = graph.links, graph.sizes
    pairs, own = sizes[:, None] * sizes[None, :], sums.diagonal() / 2
    held = sizes[:, None] + sizes[None, :]
    alone, between = _explained(sizes * (sizes - 1) / 2, own), _explained(pairs, sums)
    now = np.triu(between, 1).sum() + alone.sum()
    explained = now + joined.other_columns() - alone[:, None] - alone[None, :] - between
    explained += _explained(held * (held - 1) / 2, own[:, None] + own[None, :] + sums)
    within = (odds**2).sum() / 2 - explained
    change = _odds_gain(within, odds, graph.count * (graph.count - 1) // 2, chance)
    alone = gammaln(sizes + 1.0)
    change += gammaln(held + 1.0) - alone[:, None] - alone[None, :]
    if width:
        means = graph.sums / sizes[:, None]
        apart = ((means[:, None] - means[None, :]) ** 2).sum(2) * pairs / held
        inside, squares = float(_within(graph).sum()), float(graph.squares.sum())
        count = int(sizes.sum())
        change += _scatter_gain(inside + apart, squares, width, count, graph.count - 1)
    return np.asarray(change)


def _improved(tables: GroupTables, level: UpperLevel) -> UpperLevel:
    """Move single groups to other parents while that gains."""
    parents, best = level.parents.copy(), level.gain
    upper = int(parents.max()) + 1
    moved = True
    while moved:
        moved = False
        for group in range(len(parents)):
            for parent in range(upper):
                home = parents[group]
                if parent == home or (parents == home).sum() == 1:
                    continue
                parents[group] = parent
                saved = upper_gain(tables, parents)
                if saved > best + 1e-9:
                    best, moved = saved, True
                else:
                    parents[group] = home
    return UpperLevel(parents, best)
