"""Generate graphs whose true hierarchy of groups is known, for tests, demos and benchmarks.

Every node belongs to a leaf of a tree (or, when mixed, half and half to two leaves). Each edge
first picks how far it reaches in the tree, then its ends. Work and memory are linear in nodes and
edges.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numba
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.csr import count_components, drop_repeats, pair_keys, rows_from_keys
from graphham.graph.graph import Graph, Labels, ReadReport
from graphham.graph.ids import NodeIds
from graphham.graph.planted_features import gaussian_features, shown_memberships, word_features

# Uniform numbers are drawn this many at a time, so that memory follows the graph and not the draws.
_CHUNK = 1 << 20
_MAX_ROUNDS = 200
# One number per purpose: changing the features must not change the edges, and so on.
_GROUPS, _DEGREES, _EDGES, _FEATURES, _MIXED = range(5)


@dataclass(frozen=True, eq=False)
class PlantedGraph:
    """A generated graph and the truth behind it.

    Args:
        graph: The graph; its labels are the leaf (finest) groups.
        levels: One ``(num_nodes,)`` int32 array of true groups per level, fine to coarse.
        parents: ``parents[l][g]`` is the group of level ``l + 2`` that holds group ``g`` of level
            ``l + 1``; one array fewer than there are levels.
        memberships: ``(num_nodes, leaves)`` float32 CSR; a pure node has a single 1, a mixed one
            two halves. ``levels`` follow the first of the two.
    """

    graph: Graph
    levels: list[npt.NDArray[np.int32]]
    parents: list[npt.NDArray[np.int32]]
    memberships: sp.csr_matrix

    @property
    def groups(self) -> tuple[int, ...]:
        """The true number of groups per level, fine to coarse."""
        return (self.memberships.shape[1], *(int(parent[-1]) + 1 for parent in self.parents))


@dataclass(frozen=True, eq=False)
class _Slots:
    """Places edges attach to: a node's share in one leaf, ordered by leaf.

    Args:
        node: ``(slots,)`` row of the node.
        leaf: ``(slots,)`` leaf group.
        bounds: ``(leaves + 1,)`` first slot of each leaf.
        total: ``(slots + 1,)`` running sum of attachment weights.
        guide: ``(slots + 1,)`` where to start looking in ``total`` for a given fraction.
    """

    node: npt.NDArray[np.int64]
    leaf: npt.NDArray[np.int64]
    bounds: npt.NDArray[np.int64]
    total: npt.NDArray[np.float64]
    guide: npt.NDArray[np.int64]


def planted_hierarchy(
    branching: Sequence[int] = (3, 4),
    num_nodes: int = 2000,
    *,
    mean_degree: float = 12.0,
    edge_shares: Sequence[float] | None = None,
    features: Literal["words", "gaussian", "none"] = "words",
    words: int = 240,
    word_on: float = 0.10,
    word_off: float = 0.04,
    dim: int = 32,
    strength: float = 2.0,
    feature_noise: float = 0.0,
    degree_skew: float = 0.0,
    mixed: float = 0.0,
    seed: int = 0,
) -> PlantedGraph:
    """Generate a graph with a planted hierarchy of groups.

    Args:
        branching: Children per group, coarse to fine: ``(3, 4)`` is 3 coarse groups of 4 fine ones.
        num_nodes: Number of nodes; leaves get equal numbers, give or take one.
        mean_degree: Mean number of neighbours.
        edge_shares: Share of the edges inside a leaf group, then inside the next level but outside
            the leaf, and so on; the last share is for edges between different coarse groups. One
            more entry than there are levels. Default: 70/20/10 percent for two levels, and for any
            other depth a tenth elsewhere with the rest halving from level to level.
        features: ``"words"`` (sparse binary), ``"gaussian"`` (dense) or ``"none"``.
        words: Size of the vocabulary, split evenly over the leaves as their own words.
        word_on: Probability of each of a group's own words.
        word_off: Probability of every other word.
        dim: Number of Gaussian features.
        strength: Length of a leaf's mean vector, where the noise has deviation 1 per feature.
        feature_noise: Share of nodes whose features are those of a random leaf.
        degree_skew: 0 for equal expected degrees; towards 1 for heavier tails (expected degrees
            fall off as a power law with exponent ``1 + 1 / degree_skew``).
        mixed: Share of nodes that belong half and half to two leaves.
        seed: Everything drawn follows from this number.

    Returns:
        The graph with its true levels, parents and memberships.
    """
    tree = tuple(int(b) for b in branching)
    shares = _check(tree, num_nodes, mean_degree, edge_shares, words, word_on, word_off)
    for label, value in (("feature_noise", feature_noise), ("mixed", mixed)):
        if not 0 <= value <= 1:
            raise InputError(f"{label}={value} is not a share; give a number from 0 to 1")
    if not 0 <= degree_skew < 1:
        raise InputError(f"degree_skew={degree_skew} must be at least 0 and below 1")
    if features not in ("words", "gaussian", "none"):
        raise InputError(f"features={features!r} is not one of 'words', 'gaussian', 'none'")

    num_leaves = math.prod(tree)
    leaf = np.arange(num_nodes, dtype=np.int64) * num_leaves // num_nodes
    np.random.default_rng([seed, _GROUPS]).shuffle(leaf)
    second = _second_leaf(leaf, num_leaves, mixed, np.random.default_rng([seed, _MIXED]))
    slots = _make_slots(
        leaf, second, num_leaves, degree_skew, np.random.default_rng([seed, _DEGREES])
    )
    keys, requested = _draw_edges(
        slots, tree, shares, num_nodes, mean_degree, np.random.default_rng([seed, _EDGES])
    )
    indptr, indices = rows_from_keys(keys, num_nodes)
    memberships = _memberships(leaf, second, num_leaves)

    names: list[str] | None = None
    values: Any = None
    rng = np.random.default_rng([seed, _FEATURES])
    if features != "none":
        shown = shown_memberships(memberships, feature_noise, num_leaves, rng)
        if features == "words":
            values = word_features(shown, words, word_on, word_off, rng)
            names = [f"w{i}" for i in range(words)]
        else:
            values = gaussian_features(shown, tree, dim, strength, rng)
            names = [f"x{i}" for i in range(dim)]

    notes = [f"planted tree {' x '.join(map(str, tree))}, seed {seed}"]
    if len(keys) < requested:
        notes.append(f"{requested - len(keys):,} of {requested:,} edges found no free place")
    levels, parents = _levels(leaf, tree)
    graph = Graph(
        indptr=indptr,
        indices=indices,
        ids=NodeIds.range(num_nodes),
        features=values,
        feature_names=names,
        labels=Labels(tuple(range(num_leaves)), codes=levels[0]),
        name="planted",
        report=ReadReport(
            source="planted_hierarchy",
            rows_read=len(keys),
            isolated=int((np.diff(indptr) == 0).sum()),
            components=count_components(indptr, indices),
            notes=tuple(notes),
        ),
    )
    return PlantedGraph(graph, levels, parents, memberships)


def _check(
    tree: tuple[int, ...],
    num_nodes: int,
    mean_degree: float,
    edge_shares: Sequence[float] | None,
    words: int,
    word_on: float,
    word_off: float,
) -> npt.NDArray[np.float64]:
    """Refuse settings that make no graph; return the shares as an array that sums to one."""
    if not tree or min(tree) < 1 or math.prod(tree) < 1:
        raise InputError(f"branching={tree} needs at least one level of at least one group")
    leaves = math.prod(tree)
    if num_nodes < 2 * leaves or num_nodes >= 2**31:
        raise InputError(
            f"num_nodes={num_nodes} does not fit {leaves} leaf groups; give at least {2 * leaves}"
        )
    if edge_shares is None:
        halving = [0.5**level for level in range(len(tree))]
        inside = [0.9 * part / sum(halving) for part in halving]
        edge_shares = (0.7, 0.2, 0.1) if len(tree) == 2 else (*inside, 0.1)
    shares = np.asarray(edge_shares, dtype=np.float64)
    if len(shares) != len(tree) + 1 or (shares < 0).any() or not np.isclose(shares.sum(), 1):
        raise InputError(
            f"edge_shares={tuple(edge_shares)} must be {len(tree) + 1} shares that sum to 1, "
            f"one for each level of branching={tree} and one for the rest"
        )
    if not mean_degree >= 0:
        raise InputError(f"mean_degree={mean_degree} must be 0 or more")
    if not 0 <= word_off <= word_on <= 1:
        raise InputError(
            f"word_on={word_on} and word_off={word_off} must be probabilities, word_on the larger"
        )
    if words < leaves:
        raise InputError(
            f"words={words} is too few for {leaves} leaf groups; give one each or more"
        )
    # Pairs available at each reach: all of the level's group minus those of the level inside it.
    sizes = [num_nodes / math.prod(tree[: len(tree) - depth]) for depth in range(len(tree) + 1)]
    within = np.array([num_nodes * (size - 1) / 2 for size in sizes])
    available = np.diff(within, prepend=0.0)
    requested = shares * mean_degree * num_nodes / 2
    full = np.flatnonzero(requested > 0.8 * available + 1e-9)
    if full.size:
        at = int(full[0])
        raise InputError(
            f"edge_shares[{at}]={shares[at]:g} of mean_degree={mean_degree:g} asks for "
            f"{requested[at]:,.0f} edges where only {max(available[at], 0):,.0f} pairs exist; "
            f"use more nodes or a smaller degree"
        )
    shares /= shares.sum()
    return shares


def _levels(
    leaf: npt.NDArray[np.int64], tree: tuple[int, ...]
) -> tuple[list[npt.NDArray[np.int32]], list[npt.NDArray[np.int32]]]:
    levels = [leaf.astype(np.int32)]
    parents = []
    for depth in range(len(tree) - 1, 0, -1):
        parents.append((np.arange(math.prod(tree[: depth + 1])) // tree[depth]).astype(np.int32))
        levels.append(parents[-1][levels[-1]])
    return levels, parents


def _second_leaf(
    leaf: npt.NDArray[np.int64], num_leaves: int, mixed: float, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Return each node's second leaf, -1 for the pure nodes."""
    second = np.full(len(leaf), -1, dtype=np.int64)
    count = round(mixed * len(leaf)) if num_leaves > 1 else 0
    rows = rng.permutation(len(leaf))[:count]
    second[rows] = (leaf[rows] + rng.integers(1, num_leaves, size=count)) % max(num_leaves, 1)
    return second


def _memberships(
    leaf: npt.NDArray[np.int64], second: npt.NDArray[np.int64], num_leaves: int
) -> sp.csr_matrix:
    is_mixed = second >= 0
    indptr = np.zeros(len(leaf) + 1, dtype=np.int64)
    np.cumsum(1 + is_mixed, out=indptr[1:])
    columns = np.empty(indptr[-1], dtype=np.int32)
    columns[indptr[:-1]] = np.where(is_mixed, np.minimum(leaf, second), leaf)
    columns[indptr[:-1][is_mixed] + 1] = np.maximum(leaf, second)[is_mixed]
    data = np.repeat(np.where(is_mixed, 0.5, 1.0).astype(np.float32), 1 + is_mixed)
    return sp.csr_matrix((data, columns, indptr), shape=(len(leaf), num_leaves))


def _make_slots(
    leaf: npt.NDArray[np.int64],
    second: npt.NDArray[np.int64],
    num_leaves: int,
    degree_skew: float,
    rng: np.random.Generator,
) -> _Slots:
    num_nodes = len(leaf)
    weight = np.ones(num_nodes)
    if degree_skew > 0:
        weight = (1 - rng.random(num_nodes)) ** -degree_skew
        # A node cannot have more neighbours than there are nodes; the cap keeps hubs drawable.
        weight = np.minimum(weight, math.sqrt(num_nodes) * float(np.median(weight)))
    both = np.flatnonzero(second >= 0)
    weight[both] /= 2
    node = np.concatenate([np.arange(num_nodes), both])
    group = np.concatenate([leaf, second[both]])
    order = np.argsort(group, kind="stable")
    node, group = node[order], group[order]
    total = np.zeros(len(node) + 1)
    np.cumsum(weight[node], out=total[1:])
    steps = np.arange(len(node) + 1) * (total[-1] / len(node))
    guide = np.maximum(np.searchsorted(total, steps, side="right") - 1, 0)
    bounds = np.searchsorted(group, np.arange(num_leaves + 1))
    return _Slots(node, group, bounds.astype(np.int64), total, guide.astype(np.int64))


def _draw_edges(
    slots: _Slots,
    tree: tuple[int, ...],
    shares: npt.NDArray[np.float64],
    num_nodes: int,
    mean_degree: float,
    rng: np.random.Generator,
) -> tuple[npt.NDArray[np.int64], int]:
    """Return the sorted keys of distinct edges and how many were asked for."""
    num_edges = round(mean_degree * num_nodes / 2)
    ends = np.round(np.cumsum(shares) * num_edges).astype(np.int64)
    parts = []
    for reach, count in enumerate(np.diff(ends, prepend=0).tolist()):
        if count == 0:
            continue
        # Leaves per group at this reach and at the level inside it; 0 where nothing lies inside.
        outer = math.prod(tree[len(tree) - reach :])
        inner = math.prod(tree[len(tree) - reach + 1 :]) if reach else 0
        outer = math.prod(tree) if reach == len(tree) else outer
        parts.append(_draw_reach(slots, outer, inner, count, num_nodes, rng))
    keys = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
    keys.sort()
    return drop_repeats(keys), num_edges


def _draw_reach(
    slots: _Slots, outer: int, inner: int, count: int, num_nodes: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draw ``count`` distinct edges of one reach; repeats and loops are drawn again."""
    keys = np.empty(0, dtype=np.int64)
    for _ in range(_MAX_ROUNDS):
        missing = count - len(keys)
        if missing <= 0:
            break
        fresh = np.empty((2, missing), dtype=np.int64)
        for start in range(0, missing, _CHUNK):
            size = min(_CHUNK, missing - start)
            _attach(
                rng.random((size, 2)),
                slots.node,
                slots.leaf,
                slots.bounds,
                slots.total,
                slots.guide,
                outer,
                inner,
                fresh[:, start : start + size],
            )
        keys = np.concatenate([keys, pair_keys(fresh[0], fresh[1], num_nodes)])
        # A stable sort merges the two ascending runs in linear time.
        keys.sort(kind="stable")
        keys = drop_repeats(keys)
    return keys


@numba.njit(cache=True)
def _locate(value: float, total: Any, guide: Any) -> int:
    """Return the slot whose stretch of the running sum holds ``value``."""
    slots = len(total) - 1
    at = guide[min(int(value / total[slots] * slots), slots)]
    while at > 0 and total[at] > value:
        at -= 1
    while at < slots - 1 and total[at + 1] <= value:
        at += 1
    return int(at)


@numba.njit(cache=True)
def _attach(
    uniform: Any,
    node: Any,
    leaf: Any,
    bounds: Any,
    total: Any,
    guide: Any,
    outer: int,
    inner: int,
    ends: Any,
) -> None:
    """Draw one end anywhere and the other inside its outer group but outside its inner group."""
    for e in range(uniform.shape[0]):
        first = _locate(uniform[e, 0] * total[-1], total, guide)
        group = leaf[first]
        low = bounds[group // outer * outer]
        high = bounds[group // outer * outer + outer]
        gap_low, gap_high = low, low
        if inner:
            gap_low = bounds[group // inner * inner]
            gap_high = bounds[group // inner * inner + inner]
        gap = total[gap_high] - total[gap_low]
        value = total[low] + uniform[e, 1] * (total[high] - total[low] - gap)
        if inner and value >= total[gap_low]:
            value += gap
        second = min(max(_locate(value, total, guide), low), high - 1)
        ends[0, e] = node[first]
        # Rounding may land on the wrong side of the gap: make it a loop, which is drawn again.
        ends[1, e] = node[first] if inner and gap_low <= second < gap_high else node[second]
