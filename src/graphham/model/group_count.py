"""Find out without labels how many groups a graph has, on how many levels, and whether it has any.

Groups start from k-means on the graph's eigenvectors and on its features, are fitted as a flat
degree-corrected block model by mean-field rounds, and are joined or dropped while that shortens the
description of the graph (:mod:`graphham.model.description_length`). One group for all is always
among the answers. Whatever is found has to be found again from other starts and must not be found
in a copy whose links are drawn anew with the same degrees.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.metrics import adjusted_mutual_info_score

from graphham.errors import InputError
from graphham.model.description_length import (
    Codes,
    GroupTables,
    MergePath,
    feature_gains,
    find_upper_level,
    gain,
    link_gain,
    merge_path,
    table_cost,
)
from graphham.model.kmeans import kmeans, nearest
from graphham.model.spectral import leading_directions
from graphham.sampling.keys import derive_key, numpy_generator
from graphham.system.jit import Array, jit
from graphham.system.threads import single_threaded

Floats = npt.NDArray[np.float32]
_EIGENVECTORS = 24
_SAMPLE = 20_000  # nodes on which the centres of k-means are found
_LARGE = 50_000  # nodes from which on fewer starts are tried
_ROUNDS = 6  # mean-field rounds between joins
_KEPT = 0.75  # share of the groups that joins leave before the next rounds
_WIDTH = 4  # groups a node may be in
_SPLITS = 3  # times that groups are split into what is inside them
_SPLIT_FROM = 4  # times the mean size of a start group from which on a group is split
_FEW = 24  # groups to start with where splits do the rest
_SPAN = 8192  # nodes handled at once
_AGREE = 0.5  # least AMI of two restarts; noise has 0.1 to 0.2, structure 0.65 and more
_ABOVE_CHANCE = 1.2  # least gain over that of the rewired copy
_READABLE = 24  # most groups a person reads at once


@dataclass(frozen=True, eq=False)
class Structure:
    """What there is in a graph.

    Args:
        found: Whether the graph has groups at all.
        groups: Number of groups per level, fine to coarse; empty where nothing was found.
        assignments: Per level the ``(num_nodes,)`` int32 group of every node; levels nest exactly.
        parents: Per level but the last, the group above each group.
        curve: ``{"groups", "gain"}`` at every number of groups on the way down to one.
        displayed: Numbers of groups a person can read, fine to coarse, all of them on the way down.
        gain: Nats by which the finest level shortens the description of the graph.
        rewired_gain: The same of a copy with the same degrees and random links.
        agreement: Adjusted mutual information of the finest level with that of other starts.
        stability: Per group of the finest level, its mean best Jaccard index over other starts.
        path: How the groups of the finest level are joined.
    """

    found: bool
    groups: tuple[int, ...]
    assignments: list[Codes]
    parents: list[Codes]
    curve: list[dict[str, float]]
    displayed: tuple[int, ...]
    gain: float
    rewired_gain: float
    agreement: float
    stability: npt.NDArray[np.float64]
    path: MergePath | None = None

    def level(self, count: int) -> Codes:
        """Return the groups of all nodes when ``count`` of them are left on the way down.

        Whatever sizes are asked for, these levels nest in each other.
        """
        if self.path is None or not 1 <= count <= self.groups[0]:
            raise InputError(f"{count} groups are not on the way from {self.groups} down to 1")
        return self.path.groups(count)[self.assignments[0]]


@dataclass(frozen=True, eq=False)
class _Data:
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
class _Held:
    """Memberships of all nodes: the few groups each is in, largest share first.

    Args:
        groups: ``(num_nodes, width)`` int32 groups.
        shares: ``(num_nodes, width)`` float32; a row ends with zeros and sums to one.
        count: Number of groups.
    """

    groups: Codes
    shares: Floats
    count: int


@dataclass(frozen=True, eq=False)
class _Fit:
    """Groups found from one start: memberships, their tables, their gain."""

    held: _Held
    tables: GroupTables
    gain: float

    @property
    def codes(self) -> Codes:
        """The group of every node."""
        return self.held.groups[:, 0]


@single_threaded()
def find_structure(
    adjacency: sp.csr_matrix,
    x: Floats | None = None,
    f: Floats | None = None,
    seed: int = 0,
    *,
    most_groups: int | None = None,
    restarts: int | None = None,
) -> Structure:
    """Find the groups of a graph: how many, on how many levels, or none.

    Args:
        adjacency: ``(num_nodes, num_nodes)`` symmetric, without self loops; entries are weights.
        x: ``(num_nodes, dim)`` features of the nodes themselves, rows of unit length or zero.
        f: ``(num_nodes, dim)`` features averaged over neighbours; only starts look at them.
        seed: Decides every random choice.
        most_groups: Groups to start with; ``4 n^(1/4) + 8`` when not given.
        restarts: Starts with other random choices that the result is compared with; 2, or 1 beyond
            fifty thousand nodes.
    """
    n = adjacency.shape[0]
    data = _prepare(adjacency, x)
    if n < 4 or adjacency.nnz == 0:
        return _nothing()
    points = {"features": data.x, "averaged": f}
    most = min(most_groups or round(4 * n**0.25) + 8, n // 2)
    search = _Search(data, points, most, derive_key(seed, "structure"))
    best = search.best()
    if best.tables.count < 2:
        return _nothing(best.gain)
    if restarts is None:
        restarts = 2 if n <= _LARGE else 1
    fits = [search.again(run) for run in range(restarts)]
    fits.sort(key=lambda fit: -fit.gain)
    if fits and fits[0].gain > best.gain:
        best, fits[0] = fits[0], best
    rewired = _rewired(data, numpy_generator(derive_key(seed, "rewired")))
    kinds: dict[str, Floats | None] = {} if n > _LARGE else {"features": data.x}
    chance = _Search(rewired, kinds, most, derive_key(seed, "chance")).best(splits=0).gain
    return _describe(data, best, [fit.codes for fit in fits], chance)


def _prepare(adjacency: sp.csr_matrix, x: Floats | None) -> _Data:
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
    return _Data(adjacency, degrees, x, seen, np.einsum("ir,ir->r", x, x, dtype=np.float64))


def _rewired(data: _Data, generator: np.random.Generator) -> _Data:
    """Return a copy with the same degrees whose links join random ends.

    Ends of links are shuffled; pairs drawn twice weigh twice, as the block model counts them, and
    loops trade their end with another link.
    """
    upper = sp.triu(data.adjacency, 1, format="coo")
    ends = np.concatenate([upper.row, upper.col])
    ends = ends[generator.permutation(len(ends))].reshape(2, -1)
    for _ in range(20):
        loops = np.flatnonzero(ends[0] == ends[1])
        if not len(loops):
            break
        others = generator.integers(ends.shape[1], size=len(loops))
        for loop, other in zip(loops, others, strict=True):
            ends[1, [loop, other]] = ends[1, [other, loop]]
    kept = ends[0] != ends[1]
    weights = upper.data[generator.permutation(len(upper.data))][kept]
    half = sp.csr_matrix((weights, ends[:, kept]), shape=data.adjacency.shape)
    adjacency = (half + half.T).tocsr().astype(np.float32)
    degrees = np.asarray(adjacency.sum(1), dtype=np.float32).ravel()
    return _Data(adjacency, degrees, data.x, data.seen, data.squares)


def _spectral(data: _Data, key: Any, power: int = 1) -> Floats:
    """Return unit rows of the eigenvectors of largest absolute value, heterophily included.

    Odd powers of the matrix have the same eigenvectors, further apart.
    """
    n = data.num_nodes
    # The mean degree on top keeps crumbs and leaves from having eigenvectors of their own.
    root = 1 / np.sqrt(data.degrees + data.degrees.mean())

    def multiply(v: Floats) -> Any:
        for _ in range(power):
            v = (data.adjacency @ (v * root[:, None])) * root[:, None]
        return v

    vectors = leading_directions(multiply, multiply, (n, n), _EIGENVECTORS, key)
    vectors = vectors * np.linalg.norm(multiply(vectors), axis=0)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Floats = (vectors / np.maximum(length, 1e-12)).astype(np.float32)
    return unit


def _clustered(points: Floats, count: int, key: Any) -> Codes:
    if len(points) > _SAMPLE:
        rows = numpy_generator(derive_key(key, "rows")).choice(len(points), _SAMPLE, replace=False)
        centers, _ = kmeans(points[np.sort(rows)], count, key, starts=1, rounds=20)
        return np.concatenate(
            [nearest(part, centers)[0] for part in np.array_split(points, len(points) // _SAMPLE)]
        ).astype(np.int32)
    return kmeans(points, count, key, starts=1, rounds=20)[1].astype(np.int32)


class _Search:
    """Looks for the groups with the largest gain.

    Args:
        data: The graph.
        points: What groups may start from besides links, by name.
        most: Number of groups to start with.
        key: Decides every random choice.
    """

    def __init__(self, data: _Data, points: dict[str, Floats | None], most: int, key: Any) -> None:
        self.data, self.points, self.most, self.key = data, points, most, key
        self.is_large = data.num_nodes > _LARGE
        # Splits find what lies inside a group of a large graph at a fraction of the cost.
        self.count = min(most, _FEW) if self.is_large else most
        self.vectors: Floats | None = None
        self.kind, self.coarse = "links", np.zeros(data.num_nodes, dtype=np.int32)

    def best(self, splits: int = _SPLITS) -> _Fit:
        """Return the best fit over all kinds of starts, split where that gains.

        A start whose groups say nothing about links is left: features alone have clusters too.
        """
        best = self.fit("links", 0)
        for kind, points in self.points.items():
            if points is None or not points.shape[1] or (self.is_large and _rank(best)[0]):
                continue
            fit = self.fit(kind, 0)
            if _rank(fit) > _rank(best):
                best, self.kind = fit, kind
        self.coarse = best.codes
        return self.refined(best, splits, derive_key(self.key, "refine"))

    def again(self, run: int) -> _Fit:
        """Return a fit from another start of the kind that was best.

        A large graph is only split anew: its upper groups are many links strong.
        """
        key = derive_key(self.key, "again", run)
        if self.is_large and _rank(self.again_from())[0]:
            return self.refined(self.again_from(), _SPLITS, key)
        return self.refined(self.fit(self.kind, run + 1), _SPLITS, key)

    def again_from(self) -> _Fit:
        """Return the groups of the first search before any split."""
        held = _in_one(self.coarse)
        tables = _group_tables(self.data, held)
        return _Fit(held, tables, gain(tables))

    def fit(self, kind: str, run: int) -> _Fit:
        """Fit groups that start from one kind of points."""
        if kind == "links" and self.vectors is None:
            self.vectors = _spectral(self.data, derive_key(self.key, "vectors"))
        points = self.vectors if kind == "links" else self.points[kind]
        assert points is not None
        codes = _clustered(points, self.count, derive_key(self.key, kind, run))
        return _fit_from(self.data, codes)

    def refined(self, fit: _Fit, splits: int, key: Any) -> _Fit:
        """Split groups while that gains, then drop those made of mixed nodes."""
        for depth in range(splits):
            finer = _split(self.data, fit.codes, self.most, derive_key(key, depth))
            if finer is None:
                break
            split = _fit_from(self.data, finer)
            if split.gain <= fit.gain:
                break
            fit = split
        return _without_mixed(self.data, fit)


def _rank(fit: _Fit) -> tuple[bool, float]:
    return _link_evidence(fit.tables) > 0, fit.gain


def _link_evidence(tables: GroupTables) -> float:
    """Return what the groups save on links, their table paid for."""
    return link_gain(tables.links) - table_cost(tables.count, float(tables.links.sum()) / 2)


def _split(data: _Data, codes: Codes, most: int, key: Any) -> Codes | None:
    """Return finer groups: what is found inside large groups by the links inside them alone.

    Small groups of a large graph are drowned by the noise of all its links; inside the group above
    them they stand out. ``None`` where nothing is large or nothing is inside.
    """
    finer, total = np.zeros(len(codes), dtype=np.int32), 0
    count = int(codes.max()) + 1
    for group in range(count):
        rows = np.flatnonzero(codes == group)
        inside = np.zeros(len(rows), dtype=np.int32)
        if len(rows) > _SPLIT_FROM * len(codes) / most:
            links = data.adjacency[rows][:, rows]
            if links.nnz:
                part = _prepare(links, data.x[rows])
                vectors = _spectral(part, derive_key(key, group, "vectors"), 3)
                start = round(2 * len(rows) ** 0.25) + 4
                inside = _fit_from(part, _clustered(vectors, start, derive_key(key, group))).codes
        finer[rows] = total + inside
        total += int(inside.max(initial=0)) + 1
    return finer if total > count else None


def _fit_from(data: _Data, codes: Codes) -> _Fit:
    """Alternate mean-field rounds with joins until no join gains, and return the best on the way.

    Joins are made a few at a time: groups that are still blurred seem worth joining and are not
    once the rounds have sharpened them.
    """
    held = _in_one(codes)
    best: _Fit | None = None
    while True:
        held = _fit_rounds(data, held, _ROUNDS)
        path = merge_path(tables := _group_tables(data, held))
        reached = float(path.gains[-1])
        if best is None or reached > best.gain:
            best = _Fit(held, tables, reached)
        if path.best == held.count:
            return best
        fewer = max(path.best, int(_KEPT * held.count))
        held = _regrouped(held, path.groups(fewer), fewer)


def _in_one(codes: Codes) -> _Held:
    """Return memberships of nodes that are in one group each."""
    groups, places = np.unique(codes, return_inverse=True)
    held = np.zeros((len(codes), _WIDTH), dtype=np.int32)
    shares = np.zeros((len(codes), _WIDTH), dtype=np.float32)
    held[:, 0], shares[:, 0] = places, 1.0
    return _Held(held, shares, len(groups))


def _regrouped(held: _Held, parents: Codes, count: int) -> _Held:
    """Return memberships in groups of groups."""
    groups, shares = held.groups.copy(), held.shares.copy()
    _regroup(groups, shares, parents)
    return _Held(groups, shares, count)


def _fit_rounds(data: _Data, held: _Held, rounds: int) -> _Held:
    """Return memberships after some mean-field rounds; groups that lose all nodes go."""
    for _ in range(rounds):
        rates = _rates(_group_tables(data, held))
        previous = held.groups[:, 0].copy()
        held = _updated(data, held, rates)
        if (held.groups[:, 0] != previous).mean() < 1e-3:
            break
        sizes = np.bincount(held.groups[:, 0], minlength=held.count)
        if not sizes.all():
            held = _updated(data, held, rates, np.flatnonzero(sizes))
    return held


def _updated(
    data: _Data, held: _Held, rates: _Rates, kept: npt.NDArray[np.int64] | None = None
) -> _Held:
    """Return memberships after one mean-field round, in some of the groups only if asked."""
    groups, shares = np.empty_like(held.groups), np.empty_like(held.shares)
    for first, last, around in _surroundings(data, held):
        logits = _logits(data, first, last, around, rates)
        if kept is not None:
            logits = np.ascontiguousarray(logits[:, kept])
        _keep_largest(logits, groups[first:last], shares[first:last])
    return _Held(groups, shares, held.count if kept is None else len(kept))


def _surroundings(data: _Data, held: _Held) -> Iterator[tuple[int, int, Floats]]:
    """Yield, some nodes at a time, the memberships summed over the links of every node."""
    links = data.adjacency
    for first in range(0, data.num_nodes, _SPAN):
        last = min(first + _SPAN, data.num_nodes)
        around = np.zeros((last - first, held.count), dtype=np.float32)
        _gather(links.indptr, links.indices, links.data, held.groups, held.shares, first, around)
        yield first, last, around


@dataclass(frozen=True, eq=False)
class _Rates:
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


def _rates(tables: GroupTables) -> _Rates:
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
    return _Rates(prior.astype(np.float32), odds, expected, means, precision, is_open)


def _logits(data: _Data, first: int, last: int, around: Floats, rates: _Rates) -> Floats:
    """Return what links and features say about the groups of some nodes."""
    logits: Floats = around @ np.log(rates.odds).astype(np.float32)
    logits -= data.degrees[first:last, None] * rates.expected
    logits += rates.prior
    if len(rates.is_open):
        logits += _told(data, np.arange(first, last), rates.means, rates)
    return logits


def _told(data: _Data, rows: Any, means: npt.NDArray[np.float64], rates: _Rates) -> Floats:
    """Return the log likelihood of nodes' features under some means, up to a constant."""
    scaled = means * rates.precision
    told: Floats = data.x[np.ix_(rows, rates.is_open)] @ scaled.T.astype(np.float32)
    told -= data.seen[rows, None] * ((means * scaled).sum(1) / 2).astype(np.float32)
    return told


def _without_mixed(data: _Data, fit: _Fit) -> _Fit:
    """Drop groups whose members are nearly as well explained by two other groups at once.

    Nodes with two homes gather in groups of their own between the two. Joining such a group with
    either home is dear, but its members as mixtures of other groups lose only a few nats.
    """
    held, num_links = fit.held, float(data.degrees.sum()) / 2
    while (count := held.count) > 1:
        rates = _rates(_group_tables(data, held))
        lost = _mixture_loss(data, held, rates)
        idle = lost < count / 2 * np.log(num_links) + np.log(data.num_nodes) / 2
        if not idle.any():
            break
        # Two groups that stand in for each other must not both go: half of the idle ones at most.
        order = np.argsort(lost, kind="stable")[: max(1, int(idle.sum()) // 2)]
        held = _updated(data, held, rates, np.setdiff1d(np.arange(count), order))
        held = _fit_rounds(data, held, 3)
    if held is fit.held:
        return fit
    held = _fit_rounds(data, held, _ROUNDS)
    tables = _group_tables(data, held)
    return _Fit(held, tables, gain(tables))


def _mixture_loss(data: _Data, held: _Held, rates: _Rates) -> npt.NDArray[np.float64]:
    """Return per group how many nats its members lose as mixtures of two other groups."""
    lost = np.zeros(held.count)
    for first, last, around in _surroundings(data, held):
        logits = _logits(data, first, last, around, rates)
        rows, codes = np.arange(last - first), held.groups[first:last, 0]
        own = logits[rows, codes]
        logits[rows, codes] = -np.inf
        lead = logits.argmax(1)
        best = logits[rows, lead]
        for group in np.unique(lead) if held.count > 2 else ():
            chosen = np.flatnonzero(lead == group)
            for share in (0.25, 0.5):
                mixed = _mixed_logits(data, first + chosen, around[chosen], rates, group, share)
                mixed[np.arange(len(chosen)), codes[chosen]] = -np.inf
                best[chosen] = np.maximum(best[chosen], mixed.max(1))
        lost += np.bincount(codes, np.maximum(own - best, 0.0), minlength=held.count)
    return lost


def _mixed_logits(
    data: _Data, rows: Any, around: Floats, rates: _Rates, group: int, share: float
) -> Floats:
    """Return what links and features say about nodes between one group and each other group."""
    table = np.log((1 - share) * rates.odds[group] + share * rates.odds).astype(np.float32)
    mixed: Floats = around @ table.T
    expected = (1 - share) * rates.expected[group] + share * rates.expected
    mixed -= data.degrees[rows, None] * expected.astype(np.float32)
    mixed += rates.prior[group] + rates.prior
    if len(rates.is_open):
        means = (1 - share) * rates.means[group] + share * rates.means
        mixed += _told(data, rows, means, rates)
    return mixed


def _group_tables(data: _Data, held: _Held) -> GroupTables:
    """Add up links, sizes, features and what is left open, group by group."""
    count, links = held.count, data.adjacency
    table, shared = np.zeros((count, count)), np.zeros((count, count))
    sizes, seen = np.zeros(count), np.zeros(count)
    sums = np.zeros((count, data.x.shape[1]))
    _add_links(links.indptr, links.indices, links.data, held.groups, held.shares, table)
    entropy = _add_nodes(held.groups, held.shares, data.x, data.seen, sizes, seen, sums, shared)
    symmetric = (table + table.T) / 2
    return GroupTables(symmetric, sizes, sums, seen, data.squares, entropy, shared + shared.T)


@jit
def _gather(
    indptr: Array,
    indices: Array,
    weights: Array,
    groups: Array,
    shares: Array,
    first: int,
    around: Array,
) -> None:
    """Sum the memberships of the neighbours of consecutive nodes."""
    for row in range(len(around)):
        for at in range(indptr[first + row], indptr[first + row + 1]):
            node = indices[at]
            for slot in range(groups.shape[1]):
                share = shares[node, slot]
                if share == 0:
                    break
                around[row, groups[node, slot]] += weights[at] * share


@jit
def _add_links(
    indptr: Array, indices: Array, weights: Array, groups: Array, shares: Array, table: Array
) -> None:
    """Add every link to the cells of its ends' groups."""
    around = np.zeros(len(table), dtype=np.float32)
    for i in range(len(groups)):
        around[:] = 0
        for at in range(indptr[i], indptr[i + 1]):
            j = indices[at]
            for b in range(groups.shape[1]):
                if shares[j, b] == 0:
                    break
                around[groups[j, b]] += weights[at] * shares[j, b]
        for a in range(groups.shape[1]):
            if shares[i, a] == 0:
                break
            row, share = table[groups[i, a]], shares[i, a]
            for k in range(len(around)):
                row[k] += share * around[k]


@jit
def _add_nodes(
    groups: Array,
    shares: Array,
    x: Array,
    has: Array,
    sizes: Array,
    seen: Array,
    sums: Array,
    shared: Array,
) -> float:
    """Add up nodes and features per group; return the entropy, shared out over pairs of groups."""
    entropy = 0.0
    for i in range(len(groups)):
        for a in range(groups.shape[1]):
            share = np.float64(shares[i, a])
            if share == 0:
                break
            k = groups[i, a]
            sizes[k] += share
            seen[k] += share * has[i]
            entropy -= share * np.log(share)
            for r in range(x.shape[1]):
                sums[k, r] += share * x[i, r]
            for b in range(a + 1, groups.shape[1]):
                other = np.float64(shares[i, b])
                if other == 0:
                    break
                both = share + other
                left = both * np.log(both) - share * np.log(share) - other * np.log(other)
                shared[k, groups[i, b]] += left
    return entropy


@jit
def _keep_largest(logits: Array, groups: Array, shares: Array) -> None:
    """Turn log-odds into memberships of the few likeliest groups, largest first."""
    width, count = groups.shape[1], logits.shape[1]
    for i in range(len(logits)):
        filled = 0
        for k in range(count):
            value = logits[i, k]
            if filled == width and value <= logits[i, groups[i, width - 1]]:
                continue
            at = filled if filled < width else width - 1
            while at > 0 and logits[i, groups[i, at - 1]] < value:
                groups[i, at] = groups[i, at - 1]
                at -= 1
            groups[i, at] = k
            filled = min(filled + 1, width)
        total = np.float32(0.0)
        for a in range(width):
            share = np.float32(0.0)
            if a < filled:
                share = np.float32(np.exp(logits[i, groups[i, a]] - logits[i, groups[i, 0]]))
            else:
                groups[i, a] = 0
            # Traces would cost every sum over links as much as real memberships do.
            shares[i, a] = share if share > 1e-3 else np.float32(0.0)
            total += shares[i, a]
        for a in range(width):
            shares[i, a] /= total


@jit
def _regroup(groups: Array, shares: Array, parents: Array) -> None:
    """Replace groups by their parents, and order what comes together by share."""
    width = groups.shape[1]
    for i in range(len(groups)):
        filled = 0
        for a in range(width):
            share, parent = shares[i, a], parents[groups[i, a]]
            if share == 0:
                break
            at = 0
            while at < filled and groups[i, at] != parent:
                at += 1
            if at == filled:
                groups[i, at], shares[i, at] = parent, np.float32(0.0)
                filled += 1
            shares[i, at] += share
            while at > 0 and shares[i, at - 1] < shares[i, at]:
                kept, parent = shares[i, at], groups[i, at]
                shares[i, at], groups[i, at] = shares[i, at - 1], groups[i, at - 1]
                shares[i, at - 1], groups[i, at - 1] = kept, parent
                at -= 1
        for a in range(filled, width):
            groups[i, a], shares[i, a] = 0, np.float32(0.0)


def _nothing(reached: float = 0.0) -> Structure:
    curve = [{"groups": 1, "gain": reached}]
    return Structure(False, (), [], [], curve, (), reached, 0.0, 1.0, np.zeros(0))


def _describe(data: _Data, best: _Fit, others: list[Codes], chance: float) -> Structure:
    """Put levels, curve, agreement and stability of a fit together."""
    codes = best.codes
    groups, assignments, parents = [best.tables.count], [codes], []
    path, level = merge_path(best.tables), best.tables
    while (upper := find_upper_level(level)) is not None:
        parents.append(upper.parents)
        assignments.append(upper.parents[assignments[-1]])
        groups.append(int(upper.parents.max()) + 1)
        level = _group_tables(data, _in_one(assignments[-1]))
    agreement = float(np.mean([adjusted_mutual_info_score(codes, o) for o in others] or [1.0]))
    stability = np.mean([_jaccard(codes, other) for other in others] or [np.ones(groups[0])], 0)
    curve = [{"groups": count + 1, "gain": float(value)} for count, value in enumerate(path.gains)]
    found = (
        best.gain > 0
        and _link_evidence(best.tables) > 0
        and best.gain > _ABOVE_CHANCE * chance
        and agreement >= _AGREE
    )
    return Structure(
        found,
        tuple(groups) if found else (),
        assignments if found else [],
        parents if found else [],
        curve,
        _readable(path, groups) if found else (),
        best.gain,
        chance,
        agreement,
        stability,
        path,
    )


def _readable(path: MergePath, groups: list[int]) -> tuple[int, ...]:
    """Return numbers of groups a person can read, fine to coarse.

    Levels of at most two dozen groups are shown as they are. Else the fewest groups that keep nine
    tenths of the gain, at most two dozen, and above them the next level, or what keeps half of the
    gain where that is missing or hardly a division.
    """
    if groups[0] <= _READABLE:
        return tuple(groups)
    kept = path.gains / path.gains.max()
    finest = min(int(np.argmax(kept >= 0.9)) + 1, _READABLE)
    half = int(np.argmax(kept >= 0.5)) + 1
    above = [count for count in groups[1:] if 4 <= count <= finest // 2]
    return finest, (above[0] if above else half)


def _jaccard(codes: Codes, other: Codes) -> npt.NDArray[np.float64]:
    """Return for every group its largest Jaccard index with a group of another partition."""
    both = np.zeros((int(codes.max()) + 1, int(other.max()) + 1))
    np.add.at(both, (codes, other), 1.0)
    either = both.sum(1, keepdims=True) + both.sum(0, keepdims=True) - both
    best: npt.NDArray[np.float64] = (both / np.maximum(either, 1.0)).max(1)
    return best
