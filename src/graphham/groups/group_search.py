"""Search for the groups that shorten the description of a graph most.

Starts are k-means on eigenvectors and on features; rounds of a flat block model alternate with
joins; large groups are split into what is inside them, and groups made of mixed nodes are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from graphham.groups.description_length import (
    Codes,
    GroupTables,
    gain,
    link_gain,
    merge_path,
    table_cost,
)
from graphham.groups.flat_blocks import (
    BlockData,
    FewGroups,
    Rates,
    block_data,
    estimate_rates,
    feature_logits,
    fit_rounds,
    group_logits,
    group_tables,
    in_one_group,
    one_round,
    regrouped,
    spans,
    surroundings,
)
from graphham.model.kmeans import kmeans, nearest
from graphham.model.spectral import leading_directions
from graphham.sampling.keys import derive_key, numpy_generator

Floats = npt.NDArray[np.float32]
LARGE = 50_000  # nodes from which on fewer starts are tried
_EIGENVECTORS = 24
_SAMPLE = 20_000  # nodes on which the centres of k-means are found
_ROUNDS = 6  # mean-field rounds between joins
_KEPT = 0.75  # share of the groups that joins leave before the next rounds
_SPLITS = 3  # times that groups are split into what is inside them
_SPLIT_FROM = 4  # times the mean size of a start group from which on a group is split
FEW = 24  # groups to start with where splits do the rest


@dataclass(frozen=True, eq=False)
class GroupFit:
    """Groups found from one start: memberships, their tables, their gain."""

    held: FewGroups
    tables: GroupTables
    gain: float

    @property
    def codes(self) -> Codes:
        """The group of every node."""
        return self.held.groups[:, 0]


class GroupSearch:
    """Looks for the groups with the largest gain.

    Args:
        data: The graph.
        points: What groups may start from besides links, by name.
        most: Number of groups to start with.
        key: Decides every random choice.
    """

    def __init__(
        self, data: BlockData, points: dict[str, Floats | None], most: int, key: Any
    ) -> None:
        self.data, self.points, self.most, self.key = data, points, most, key
        self.is_large = data.num_nodes > LARGE
        # Splits find what lies inside a group of a large graph at a fraction of the cost.
        self.count = min(most, FEW) if self.is_large else most
        self.vectors: Floats | None = None
        self.kind, self.coarse = "links", np.zeros(data.num_nodes, dtype=np.int32)
        self.insides: list[_Inside] | None = (
            None  # of the coarse groups, looked into more than once
        )

    def best(self, splits: int = _SPLITS) -> GroupFit:
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
        self.coarse, self.insides = best.codes, None
        return self.refined(best, splits, derive_key(self.key, "refine"))

    def again(self, run: int) -> GroupFit:
        """Return a fit from another start of the kind that was best.

        A large graph is only split anew: its upper groups are many links strong.
        """
        key = derive_key(self.key, "again", run)
        if self.is_large and _rank(self.again_from())[0]:
            return self.refined(self.again_from(), _SPLITS, key)
        return self.refined(self.fit(self.kind, run + 1), _SPLITS, key)

    def again_from(self) -> GroupFit:
        """Return the groups of the first search before any split."""
        held = in_one_group(self.coarse)
        tables = group_tables(self.data, held)
        return GroupFit(held, tables, gain(tables))

    def fit(self, kind: str, run: int) -> GroupFit:
        """Fit groups that start from one kind of points."""
        if kind == "links" and self.vectors is None:
            self.vectors = link_vectors(self.data, derive_key(self.key, "vectors"))
        points = self.vectors if kind == "links" else self.points[kind]
        assert points is not None
        codes = clustered(points, self.count, derive_key(self.key, kind, run))
        return _fit_from(self.data, codes)

    def refined(self, fit: GroupFit, splits: int, key: Any) -> GroupFit:
        """Split groups while that gains, then drop those made of mixed nodes."""
        for depth in range(splits):
            finer = self._split(fit.codes, derive_key(key, depth))
            if finer is None:
                break
            split = _fit_from(self.data, finer)
            if split.gain <= fit.gain:
                break
            fit = split
        return without_mixed(self.data, fit)

    def _split(self, codes: Codes, key: Any) -> Codes | None:
        """Return finer groups: what is found inside large groups by the links inside them alone.

        Small groups of a large graph are drowned by the noise of all its links; inside the group
        above them they stand out. ``None`` where nothing is large or nothing is inside.
        """
        insides = self._look_inside(codes, key)
        finer, total = np.zeros(len(codes), dtype=np.int32), 0
        for group, inside in enumerate(insides):
            found = np.zeros(len(inside.rows), dtype=np.int32)
            if inside.part is not None:
                start = round(2 * len(inside.rows) ** 0.25) + 4
                start_codes = clustered(inside.vectors, start, derive_key(key, group))
                found = _fit_from(inside.part, start_codes).codes
            finer[inside.rows] = total + found
            total += int(found.max(initial=0)) + 1
        return finer if total > len(insides) else None

    def _look_inside(self, codes: Codes, key: Any) -> list[_Inside]:
        """Return the insides of groups; those of the coarse groups are kept for other starts."""
        is_coarse = np.array_equal(codes, self.coarse)
        if is_coarse and self.insides is not None:
            return self.insides
        least = _SPLIT_FROM * len(codes) / self.most
        found: list[_Inside] = []
        for group in range(int(codes.max()) + 1):
            rows = np.flatnonzero(codes == group)
            found.append(_inside(self.data, rows, least, derive_key(key, group, "vectors")))
        if is_coarse:
            self.insides = found
        return found


@dataclass(frozen=True, eq=False)
class _Inside:
    """What lies inside a group.

    Args:
        rows: Its nodes.
        part: The graph of the links inside; ``None`` where the group is small or has none.
        vectors: ``(len(rows), d)`` eigenvectors of that graph.
    """

    rows: npt.NDArray[np.int64]
    part: BlockData | None
    vectors: Floats


def _inside(data: BlockData, rows: npt.NDArray[np.int64], least: float, key: Any) -> _Inside:
    """Look into a group, unless it has no more nodes than ``least``."""
    if len(rows) > least:
        links = data.adjacency[rows][:, rows]
        if links.nnz:
            part = block_data(links, data.x[rows])
            return _Inside(rows, part, link_vectors(part, key, 3))
    return _Inside(rows, None, np.zeros((len(rows), 0), dtype=np.float32))


def _rank(fit: GroupFit) -> tuple[bool, float]:
    return link_evidence(fit.tables) > 0, fit.gain


def link_evidence(tables: GroupTables) -> float:
    """Return what the groups save on links, their table paid for."""
    return link_gain(tables.links) - table_cost(tables.count, float(tables.links.sum()) / 2)


def _fit_from(data: BlockData, codes: Codes) -> GroupFit:
    """Alternate mean-field rounds with joins until no join gains, and return the best on the way.

    Joins are made a few at a time: groups that are still blurred seem worth joining and are not
    once the rounds have sharpened them.
    """
    held = in_one_group(codes)
    best: GroupFit | None = None
    while True:
        held = fit_rounds(data, held, _ROUNDS)
        path = merge_path(tables := group_tables(data, held))
        reached = float(path.gains[-1])
        if best is None or reached > best.gain:
            best = GroupFit(held, tables, reached)
        if path.best == held.count:
            return best
        fewer = max(path.best, int(_KEPT * held.count))
        held = regrouped(held, path.groups(fewer), fewer)


def link_vectors(data: BlockData, key: Any, power: int = 1) -> Floats:
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


def clustered(points: Floats, count: int, key: Any) -> Codes:
    """Return ``(num_points,)`` groups by k-means, whose centres a sample of many points decides."""
    if len(points) > _SAMPLE:
        rows = numpy_generator(derive_key(key, "rows")).choice(len(points), _SAMPLE, replace=False)
        centers, _ = kmeans(points[np.sort(rows)], count, key, starts=1, rounds=20)
        return np.concatenate(
            [nearest(part, centers)[0] for part in np.array_split(points, len(points) // _SAMPLE)]
        ).astype(np.int32)
    return kmeans(points, count, key, starts=1, rounds=20)[1].astype(np.int32)


def without_mixed(data: BlockData, fit: GroupFit) -> GroupFit:
    """Drop groups whose members are nearly as well explained by two other groups at once.

    Nodes with two homes gather in groups of their own between the two. Joining such a group with
    either home is dear, but its members as mixtures of other groups lose only a few nats.
    """
    held, num_links = fit.held, float(data.degrees.sum()) / 2
    while (count := held.count) > 1:
        around = surroundings(data, held)
        rates = estimate_rates(group_tables(data, held, around))
        lost = _mixture_loss(data, held, rates, around)
        idle = lost < count / 2 * np.log(num_links) + np.log(data.num_nodes) / 2
        if not idle.any():
            break
        # Two groups that stand in for each other must not both go: half of the idle ones at most.
        order = np.argsort(lost, kind="stable")[: max(1, int(idle.sum()) // 2)]
        held = one_round(data, held, rates, around, np.setdiff1d(np.arange(count), order))
        held = fit_rounds(data, held, 3)
    if held is fit.held:
        return fit
    held = fit_rounds(data, held, _ROUNDS)
    tables = group_tables(data, held)
    return GroupFit(held, tables, gain(tables))


def _mixture_loss(
    data: BlockData, held: FewGroups, rates: Rates, around: Floats
) -> npt.NDArray[np.float64]:
    """Return per group how many nats its members lose as mixtures of two other groups."""
    lost = np.zeros(held.count)
    for first, last in spans(data):
        near = around[first:last]
        logits = group_logits(data, first, last, near, rates)
        rows, codes = np.arange(last - first), held.groups[first:last, 0]
        own = logits[rows, codes]
        logits[rows, codes] = -np.inf
        lead = logits.argmax(1)
        best = logits[rows, lead]
        for group in np.unique(lead) if held.count > 2 else ():
            chosen = np.flatnonzero(lead == group)
            for share in (0.25, 0.5):
                mixed = _mixed_logits(data, first + chosen, near[chosen], rates, group, share)
                mixed[np.arange(len(chosen)), codes[chosen]] = -np.inf
                best[chosen] = np.maximum(best[chosen], mixed.max(1))
        lost += np.bincount(codes, np.maximum(own - best, 0.0), minlength=held.count)
    return lost


def _mixed_logits(
    data: BlockData, rows: Any, around: Floats, rates: Rates, group: int, share: float
) -> Floats:
    """Return what links and features say about nodes between one group and each other group."""
    table = np.log((1 - share) * rates.odds[group] + share * rates.odds).astype(np.float32)
    mixed: Floats = around @ table.T
    expected = (1 - share) * rates.expected[group] + share * rates.expected
    mixed -= data.degrees[rows, None] * expected.astype(np.float32)
    mixed += rates.prior[group] + rates.prior
    if len(rates.is_open):
        means = (1 - share) * rates.means[group] + share * rates.means
        mixed += feature_logits(data, rows, means, rates)
    return mixed
