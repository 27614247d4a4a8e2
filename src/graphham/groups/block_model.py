r"""A nested, degree-corrected block model of links and features, inferred by mean field.

A node's membership says three things at once: what its own features look like, where its links go,
and what the coarser levels think of both. With phi the unit vector of a group in the space of the
nodes' inputs, T the log odds of a link between two groups against chance, and the path of a fine
group through the tree,

.. math::
    \log \pi_{ik} = c_i + \sum_l s_l\, x_i \cdot \varphi^{(l)}_{path_l(k)}
        + \rho_i \sum_j w_{ij} \sum_m T_{km} \pi_{jm}, \qquad \rho_i = 1 / (1 + d_i / 64)

where the memberships of a coarser level are sums over its children, so that levels nest exactly.
Rounds of this and of re-estimating phi and T are a few products with the adjacency matrix; nothing
is ever as large as links times groups.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from graphham.graph.graph import Graph
from graphham.parallel.graph_access import graph_access
from graphham.parallel.ranks import ALONE, Ranks

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]
# Links of one node are not independent: a hub's are worth about this many.
_LINKS_WORTH = 64.0
# Strength of a parent table's odds in the estimate of its children's, in expected links.
_PARENT_LINKS = 0.1
# Pairs of nodes, those least likely to be linked, of which chance is taken to join the linked ones.
_STRANGERS = 0.75
_LEAST_PROBABLE = 0.02  # that a link is no chance, however unlikely the groups make it
_START_SURE = 0.9  # membership of a node in the group it starts in
_SETTLED = 1e-3  # mean change of a node's memberships below which a fit has ended
_TINY = 1e-9


class Links(Protocol):
    """The links of a graph, as much of them as mean field needs.

    Args:
        out_degrees: ``(num_nodes,)`` sums of the weights of outgoing links.
        in_degrees: ``(num_nodes,)`` the same of incoming ones; equal without directions.
    """

    out_degrees: Floats
    in_degrees: Floats

    @property
    def degrees(self) -> Floats:
        """``(num_nodes,)`` sums of link weights, out of and into each node."""

    def sums(self, memberships: Floats) -> tuple[Floats, Floats | None]:
        """Return what each node's outgoing links reach, and for directed graphs the incoming.

        Args:
            memberships: ``(num_nodes, K)``.

        Returns:
            Two ``(num_nodes, K)`` weighted sums over neighbours; the second is ``None`` where every
            link goes both ways.
        """


class GraphLinks:
    """The links of a graph, whole or split over processes.

    Weights are measured in units of their mean, so that they stand for numbers of links.

    Args:
        graph: The graph; self-links do not count.
        ranks: The processes that hold the parts of a split graph.
    """

    def __init__(self, graph: Graph, ranks: Ranks = ALONE) -> None:
        self._access = graph_access(graph, ranks)
        self._own = graph.own_rows()
        self._nodes = graph.num_nodes
        self._out: Any = _without_self(graph)
        # The parts of a split graph hold outgoing links only.
        is_two_way = graph.directed and self._access.is_whole
        self._in: Any = self._out.T.tocsr() if is_two_way else None
        ones = np.ones((self._nodes, 1), dtype=np.float32)
        leaving, arriving = self.sums(ones)
        self.out_degrees: Floats = leaving[:, 0].copy()
        self.in_degrees: Floats = self.out_degrees if arriving is None else arriving[:, 0].copy()

    @property
    def is_directed(self) -> bool:
        """Whether both directions of a link are kept apart."""
        return self._in is not None

    @property
    def degrees(self) -> Floats:
        """``(num_nodes,)`` sums of link weights, out of and into each node."""
        return self.out_degrees + self.in_degrees if self.is_directed else self.out_degrees

    def sums(self, memberships: Floats) -> tuple[Floats, Floats | None]:
        """Return what each node's outgoing links reach, and for directed graphs the incoming."""
        if self._access.is_whole:
            arriving = None if self._in is None else np.asarray(self._in @ memberships)
            return np.asarray(self._out @ memberships), arriving
        total = np.zeros_like(memberships)
        total[self._own] = self._out @ memberships
        self._access.share_rows(total)
        return total, None


def _without_self(graph: Graph) -> Any:
    """Return ``(own rows, num_nodes)`` float32 adjacency with mean weight 1 and no self-links."""
    import scipy.sparse as sp

    own = graph.own_rows()
    indptr = np.asarray(graph.indptr[own.start : own.stop + 1], dtype=np.int64)
    part = slice(int(indptr[0]), int(indptr[-1]))
    indices = np.asarray(graph.indices[part])
    count = own.stop - own.start
    source = np.repeat(np.arange(own.start, own.stop, dtype=np.int64), np.diff(indptr))
    if graph.weights is None:
        values = np.ones(len(indices), dtype=np.float32)
    else:
        values = np.asarray(graph.weights[part], dtype=np.float32)
        mean = float(values.mean(dtype=np.float64)) if len(values) else 1.0
        values = values / np.float32(mean if mean > 0 else 1.0)
    values[source == indices] = 0.0
    return sp.csr_matrix((values, indices, indptr - indptr[0]), shape=(count, graph.num_nodes))


@dataclass(frozen=True, eq=False)
class BlockModel:
    """What the groups are: vectors, link tables and the tree between levels.

    Args:
        vectors: Per level ``(K_l, d)`` phi, scaled so that a product with inputs is evidence.
        tables: Per level ``(K_l, K_l)`` log odds T of a link from one group to another.
        parents: Per level but the last ``(K_l,)`` parent of each group.
    """

    vectors: list[Floats]
    tables: list[Floats]
    parents: list[Codes]

    @property
    def groups(self) -> tuple[int, ...]:
        """Number of groups per level, fine to coarse."""
        return tuple(len(table) for table in self.tables)

    def paths(self) -> list[Codes]:
        """Return per level the ``(K_1,)`` ancestor of each finest group."""
        return tree_paths(self.parents, self.groups[0])

    def feature_evidence(self, x: Floats) -> Floats:
        """Return ``(num_nodes, K_1)`` what features say, all levels together."""
        factor = np.zeros((self.groups[0], x.shape[1]), dtype=np.float32)
        for path, vectors in zip(self.paths(), self.vectors, strict=True):
            factor += vectors[path]
        out: Floats = x @ factor.T
        return out

    def link_evidence(
        self,
        memberships: Floats,
        links: Links,
        sums: tuple[Floats, Floats | None] | None = None,
    ) -> Floats:
        """Return ``(num_nodes, K_1)`` what links say, given everybody's finest memberships.

        Args:
            memberships: ``(num_nodes, K_1)``.
            links: The links.
            sums: What ``links.sums(memberships)`` returned, where it is at hand.
        """
        leaving, arriving = links.sums(memberships) if sums is None else sums
        heard = leaving @ self.tables[0].T
        if arriving is not None:
            heard += arriving @ self.tables[0]
        heard *= link_trust(links.degrees)[:, None]
        return heard

    def infer(
        self, own: Floats, links: Links, start: Floats | None = None, rounds: int = 15
    ) -> Floats:
        """Return ``(num_nodes, K_1)`` finest memberships of any nodes under this model.

        Args:
            own: ``(num_nodes, K_1)`` what their features say.
            links: Their links.
            start: Memberships to start from; what features alone say when not given.
            rounds: Most rounds; it ends earlier where nothing moves.
        """
        memberships = softmax_rows(own.copy()) if start is None else start
        for _ in range(rounds):
            moved = softmax_rows(own + self.link_evidence(memberships, links))
            change = _change(moved, memberships)
            memberships = moved
            if change < _SETTLED:
                break
        return memberships

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays to save."""
        out: dict[str, npt.NDArray[Any]] = {}
        for level, (vectors, table) in enumerate(zip(self.vectors, self.tables, strict=True)):
            out |= {f"block.vectors.{level}": vectors, f"block.tables.{level}": table}
        return out | {f"block.parents.{level}": p for level, p in enumerate(self.parents)}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> BlockModel:
        """Rebuild from saved arrays."""

        def levels(name: str, kind: Any) -> list[Any]:
            keys = itertools.takewhile(
                state.__contains__, (f"block.{name}.{level}" for level in itertools.count())
            )
            return [np.asarray(state[key], dtype=kind) for key in keys]

        return cls(levels("vectors", "f4"), levels("tables", "f4"), levels("parents", "i8"))


@dataclass(frozen=True, eq=False)
class BlockFit:
    """A fitted block model and where its training nodes are.

    Args:
        model: The model.
        memberships: ``(num_nodes, K_1)`` finest memberships.
        bound: What memberships, features and the links of every level are worth, in nats, to
            compare starts of one graph.
        link_gain: Per level nats by which the link table beats chance.
        rounds: Rounds it took.
    """

    model: BlockModel
    memberships: Floats
    bound: float
    link_gain: tuple[float, ...]
    rounds: int

    def levels(self) -> list[Floats]:
        """Return per level ``(num_nodes, K_l)`` memberships, each the sum of its children's."""
        return sum_levels(self.memberships, self.model.parents)


def fit_block_model(
    own: Floats,
    scale: float,
    links: Links,
    codes: Codes,
    parents: Sequence[Codes],
    *,
    rounds: int = 15,
    uses_links: bool = True,
    is_nested: bool = True,
) -> BlockFit:
    """Fit by mean field from a start.

    Args:
        own: ``(num_nodes, d)`` unit rows, or zero rows for nodes without features.
        scale: Evidence of a perfect match of a node and a group.
        links: The links.
        codes: ``(num_nodes,)`` finest group each node starts in.
        parents: Per level but the last the parent of each group.
        rounds: Most rounds.
        uses_links: Whether links are evidence; without, only features are (an ablation).
        is_nested: Whether a group leans on its ancestors; without, each fine group stands alone
            and the tree only adds its members up (an ablation).
    """
    parents = [np.asarray(p, dtype=np.int64) for p in parents]
    count = int(len(parents[0]) if parents else codes.max() + 1)
    memberships = np.full((len(codes), count), (1 - _START_SURE) / count, dtype=np.float32)
    memberships[np.arange(len(codes)), codes] += _START_SURE
    x = own * np.float32(scale**0.5)
    used = 0
    while True:
        sums = links.sums(memberships)
        model, gains = _estimate(x, scale, links, memberships, sums, parents, is_nested)
        if not uses_links:
            model = replace(model, tables=[np.zeros_like(table) for table in model.tables])
        told = model.feature_evidence(x)
        moved = softmax_rows(told + model.link_evidence(memberships, links, sums))
        change = _change(moved, memberships)
        memberships = moved
        used += 1
        if used >= rounds or change < _SETTLED:
            break
    entropy = -float((memberships * np.log(memberships + _TINY)).sum(dtype=np.float64))
    # Every level's table describes the links; without the coarse ones a tree could be cut anyhow.
    bound = entropy + float((memberships * told).sum(dtype=np.float64)) + sum(gains)
    return BlockFit(model, memberships, bound, gains, used)


def _estimate(
    x: Floats,
    scale: float,
    links: Links,
    memberships: Floats,
    sums: tuple[Floats, Floats | None],
    parents: Sequence[Codes],
    is_nested: bool,
) -> tuple[BlockModel, tuple[float, ...]]:
    """Return the model that memberships suggest (M-step), and its link gain per level."""
    depth = len(parents) + 1
    paths = tree_paths(parents, memberships.shape[1])
    toward = memberships.T @ x
    seen = (memberships.T @ sums[0]).astype(np.float64)
    leaving = (memberships.T @ links.out_degrees).astype(np.float64)
    arriving = (memberships.T @ links.in_degrees).astype(np.float64)
    vectors: list[Floats] = []
    tables: list[Floats] = []
    gains: list[float] = []
    # A group leans on its ancestors: its table is estimated from the top of the tree downwards.
    above: npt.NDArray[np.float64] | None = None
    for level in reversed(range(depth)):
        path = paths[level]
        count = int(path.max()) + 1 if level else memberships.shape[1]
        up = np.eye(count)[path]
        links_seen = up.T @ seen @ up
        out, into = up.T @ leaving, up.T @ arriving
        expected = np.outer(out, into) / max(float(leaving.sum()), _TINY)
        if above is None or not is_nested:
            table = np.log((links_seen + 1) / (expected + 1))
        else:
            parent = parents[level]
            prior = _PARENT_LINKS * expected
            fits = np.exp(above[parent][:, parent])
            table = np.log((links_seen + prior * fits + 1e-3) / (expected + prior + 1e-3))
        above = table
        gain = float((links_seen * np.log((links_seen + _TINY) / (expected + _TINY))).sum())
        # Evidence is shared out over the levels that look at it.
        share = 2.0 / depth if is_nested else (2.0 if level == 0 else 0.0)
        vectors.append(share * group_vectors(up.astype(np.float32).T @ toward, scale))
        tables.append(table.astype(np.float32))
        gains.append(gain / 2)
    return BlockModel(vectors[::-1], tables[::-1], list(parents)), tuple(gains[::-1])


def group_vectors(toward: Floats, scale: float) -> Floats:
    """Return ``(K, d)`` vectors of squared length ``scale`` in given directions."""
    lengths = np.linalg.norm(toward, axis=1, keepdims=True)
    out: Floats = (toward * (scale**0.5 / np.maximum(lengths, 1e-12))).astype(np.float32)
    return out


def chance_share(table: Floats, memberships: Floats, leaving: Floats, arriving: Floats) -> float:
    """Return the share of the links that join any two nodes, whatever their groups.

    Links without a reason are spread as the degrees are, over all pairs of groups alike; what there
    is between the groups that have least of them is about their number, and never less.

    Args:
        table: ``(K, K)`` log odds T of a link from one group to another.
        memberships: ``(num_nodes, K)``.
        leaving: ``(num_nodes,)`` sums of the weights of outgoing links.
        arriving: ``(num_nodes,)`` the same of incoming ones.
    """
    expected = np.outer(memberships.T @ leaving, memberships.T @ arriving).ravel()
    expected /= max(float(expected.sum(dtype=np.float64)), _TINY)
    odds = np.exp(table, dtype=np.float64).ravel()
    order = np.argsort(odds, kind="stable")
    part = np.cumsum(expected[order], dtype=np.float64)
    least = order[: int(np.searchsorted(part, _STRANGERS)) + 1]
    total = float(expected[least].sum(dtype=np.float64))
    share = float((expected[least] * odds[least]).sum()) / max(total, _TINY)
    return min(share, 1.0)


def reason_table(table: Floats, chance: float) -> Floats:
    """Return ``(K, K)`` the log probability that a link between two groups is no chance.

    Where groups have W times the links that degrees explain and a share c of all links joins any
    two nodes, 1 - c / W of theirs are there for a reason. Unlike the odds W, which prefer a likely
    link to an unlikely one, this leaves links alone where none are there by chance.

    Args:
        table: ``(K, K)`` log odds T of a link from one group to another.
        chance: The share c; see :func:`chance_share`.
    """
    probable = 1 - chance * np.exp(-table.astype(np.float64))
    out: Floats = np.log(np.maximum(probable, _LEAST_PROBABLE)).astype(np.float32)
    return out


def link_trust(degrees: Floats) -> Floats:
    """Return ``(num_nodes,)`` rho: how much a node's links count each."""
    out: Floats = (1 / (1 + degrees / _LINKS_WORTH)).astype(np.float32)
    return out


def tree_paths(parents: Sequence[Codes], finest: int) -> list[Codes]:
    """Return per level the ``(K_1,)`` ancestor of each finest group."""
    paths = [np.arange(finest, dtype=np.int64)]
    for parent in parents:
        paths.append(np.asarray(parent, dtype=np.int64)[paths[-1]])
    return paths


def sum_levels(memberships: Floats, parents: Sequence[Codes]) -> list[Floats]:
    """Return per level ``(num_nodes, K_l)`` memberships, each the sum of its children's."""
    levels = [memberships]
    for parent in parents:
        up = np.eye(int(parent.max()) + 1, dtype=np.float32)[parent]
        levels.append(levels[-1] @ up)
    return levels


def softmax_rows(logits: Floats) -> Floats:
    """Return each row as probabilities; ``logits`` is overwritten."""
    logits -= logits.max(axis=1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
    return logits


def _change(new: Floats, old: Floats) -> float:
    return float(np.abs(new - old).sum(dtype=np.float64)) / max(len(new), 1)
