"""The graft: seed both the groups and their tree from what the model has learned so far.

Left to gradients alone, group vectors are a worse clustering than k-means of the model's own
states, and the upper level tends to empty. So partway through training the levels are clustered
from the top down, every node then weighs its own evidence with its neighbours' groups for a few
rounds, and the result becomes the group vectors, the parents, and the table of how strongly groups
link. Training goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from graphham.graph.graph import Graph
from graphham.kernels.attention_readout import neighbor_mean
from graphham.model.kmeans import Codes, Floats, kmeans
from graphham.parallel.graph_access import graph_access
from graphham.parallel.ranks import ALONE, Ranks
from graphham.sampling.keys import derive_key
from graphham.system.jit import frozen

_ROUNDS = 10
# Graphs with more stored links than this are refined without copies of their size.
_LARGE = 20_000_000
_WITNESSES = 64.0


@dataclass(frozen=True, eq=False)
class Seeds:
    """Groups found on the whole graph; lists go from the finest level to the coarsest.

    Args:
        centers: ``(K_l, width_l)`` unit group vectors.
        parents: ``(K_l,)`` parent of each group, for every level but the last.
        tables: ``(K_l, K_l)`` log of how much more often two groups link than chance.
        codes: ``(num_nodes,)`` group of each node.
    """

    centers: list[Floats]
    parents: list[Codes]
    tables: list[Floats]
    codes: list[Codes]


def find_seeds(
    states: Sequence[Floats],
    graph: Graph,
    counts: Sequence[int],
    key: Any,
    scale: float,
    listen: bool = True,
    ranks: Ranks = ALONE,
) -> Seeds:
    """Cluster all levels from the top down and refine them along the graph.

    Args:
        states: Per level ``(num_nodes, width_l)`` vectors the level's groups look at.
        graph: The training graph.
        counts: Groups per level, fine to coarse.
        key: Decides every random choice.
        scale: Scale of the cosine affinities.
        listen: Whether nodes hear their neighbours' groups.
        ranks: The processes that hold the parts of a split graph; all of them call this.
    """
    large = graph.num_stored > _LARGE and graph.weights is None and not graph.directed
    centered = [_centered_in_place(x) if large else _centered(x) for x in states]
    leaves, parents = _cluster(centered, counts, key)
    return _refine(centered, graph, counts, leaves, parents, scale, listen, ranks)


def _cluster(
    states: Sequence[Floats], counts: Sequence[int], key: Any
) -> tuple[Codes, list[Codes]]:
    """Return each node's finest group and the parents of each level's groups."""
    top = len(counts) - 1
    _, codes = kmeans(states[top], counts[top], derive_key(key, "top"))
    parents: list[Codes] = []
    for level in range(top - 1, -1, -1):
        sizes = np.bincount(codes, minlength=counts[level + 1])
        children = _share_out(sizes, counts[level])
        parents.append(np.repeat(np.arange(counts[level + 1]), children))
        first = np.concatenate([[0], np.cumsum(children)])
        finer = np.zeros_like(codes)
        for group in range(counts[level + 1]):
            inside = np.flatnonzero(codes == group)
            if not len(inside):
                continue
            count = min(int(children[group]), len(inside))
            _, part = kmeans(states[level][inside], count, derive_key(key, level, group), starts=4)
            finer[inside] = first[group] + part
        codes = finer
    return codes, parents[::-1]


def _share_out(sizes: npt.NDArray[Any], total: int) -> npt.NDArray[np.int64]:
    """Give every parent one child and each further child to the one with most nodes per child."""
    children = np.ones(len(sizes), dtype=np.int64)
    for _ in range(total - len(sizes)):
        children[np.argmax(sizes / children)] += 1
    return children


def _refine(
    states: Sequence[Floats],
    graph: Graph,
    counts: Sequence[int],
    leaves: Codes,
    parents: list[Codes],
    scale: float,
    listen: bool,
    ranks: Ranks,
) -> Seeds:
    """Alternate between group vectors and memberships, each node on a path of the tree."""
    adjacency: Any
    plain = graph.weights is None and not graph.directed
    if plain and (graph.num_stored > _LARGE or not graph_access(graph).is_whole):
        adjacency = Links(graph, ranks)
    else:
        adjacency = graph.adjacency().astype(np.float32)
    if graph.directed:
        adjacency = (adjacency + adjacency.T).tocsr()
    if graph.weights is not None and adjacency.nnz:
        # The tables count links from one up; the unit of the weights must not matter.
        adjacency = adjacency / np.float32(adjacency.data.mean(dtype=np.float64))
    degrees = np.asarray(adjacency.sum(1), dtype=np.float32).ravel()
    counted = np.maximum(np.diff(adjacency.indptr), 1)
    heard = (degrees > 0) * (counted / (1 + counted / _WITNESSES)) / np.maximum(degrees, 1e-12)
    ancestors = _ancestors(parents, counts)
    paths = np.eye(counts[0], dtype=np.float32)[leaves]
    centers: list[Floats] = []
    tables: list[Floats] = []
    for _ in range(_ROUNDS):
        levels = [_lift(paths, up, count) for up, count in zip(ancestors, counts, strict=True)]
        centers = [_unit(m.T @ x) for m, x in zip(levels, states, strict=True)]
        tables = _link_tables(adjacency, degrees, levels, parents)
        logits = np.zeros((len(leaves), counts[0]), dtype=np.float32)
        for x, center, up in zip(states, centers, ancestors, strict=True):
            logits += (scale * (x @ center.T))[:, up]
        if listen:
            logits += heard[:, None] * (adjacency @ (paths @ tables[0]))
        logits -= logits.max(1, keepdims=True)
        paths = np.exp(logits)
        paths /= paths.sum(1, keepdims=True)
    levels = [_lift(paths, up, count) for up, count in zip(ancestors, counts, strict=True)]
    codes = [levels[-1].argmax(1)]
    for level in range(len(counts) - 2, -1, -1):
        allowed = parents[level][None, :] == codes[-1][:, None]
        codes.append(np.where(allowed, levels[level], -1.0).argmax(1))
    return Seeds(centers, parents, tables, codes[::-1])


class Links:
    """The links of a large plain graph, as much of a sparse matrix as the refinement needs.

    SciPy would want a number per link beside the neighbour; this reads the graph where it is.

    Args:
        graph: An undirected graph without weights, or this process's part of one.
        ranks: The processes that hold the parts.
    """

    def __init__(self, graph: Graph, ranks: Ranks = ALONE) -> None:
        self.own, self.access = graph.own_rows(), graph_access(graph, ranks)
        self.indptr = frozen(graph.indptr, np.int64)
        self.indices = frozen(graph.indices)
        self.degrees = graph.degrees().astype(np.float32)

    def sum(self, axis: int) -> Floats:
        """Return the degrees."""
        return self.degrees

    def __matmul__(self, values: Floats) -> Floats:
        """Return the sum of each node's neighbours' rows."""
        rows = frozen(values, np.float32)
        out = np.empty(rows.shape, dtype=np.float32)
        weights = frozen(np.empty(0, dtype=np.float32))
        first, last = self.own.start, self.own.stop
        neighbor_mean(self.indptr, self.indices, weights, first, last, rows, out[first:last])
        self.access.share_rows(out)
        out *= self.degrees[:, None]
        return out


def _link_tables(
    adjacency: Any, degrees: Floats, levels: Sequence[Floats], parents: Sequence[Codes]
) -> list[Floats]:
    """Return per level log(links between two groups / links expected by degree).

    A finer level leans on its parents' table, so a pair of small groups that happens to share no
    link is not taken for one that never links.
    """
    total = max(float(degrees.sum()), 1e-12)
    tables: list[Floats] = []
    for level in range(len(levels) - 1, -1, -1):
        member = levels[level]
        mass = member.T @ degrees
        expected = np.outer(mass, mass) / total
        seen = member.T @ (adjacency @ member)
        if not tables:
            table = np.log((seen + 1) / (expected + 1))
        else:
            above = tables[-1][np.ix_(parents[level], parents[level])]
            prior = 0.02 * expected * np.exp(above)
            table = np.log((seen + prior + 1e-3) / (1.02 * expected + 1e-3))
        tables.append(np.clip(table, -8, 8).astype(np.float32))
    return tables[::-1]


def _ancestors(parents: Sequence[Codes], counts: Sequence[int]) -> list[Codes]:
    """Return per level the group that each finest group lies in."""
    out = [np.arange(counts[0])]
    for parent in parents:
        out.append(parent[out[-1]])
    return out


def _lift(paths: Floats, ancestor: Codes, count: int) -> Floats:
    """Sum finest memberships into those of a coarser level."""
    indicator = np.zeros((paths.shape[1], count), dtype=np.float32)
    indicator[np.arange(paths.shape[1]), ancestor] = 1.0
    return paths @ indicator


def _centered(x: Floats) -> Floats:
    return _unit(x - x.mean(0))


def _centered_in_place(x: Floats) -> Floats:
    """Centre a large array where it is, unless somebody else reads it too."""
    out = x if x.base is None and x.flags.writeable else x.copy()
    mean = out.mean(0, dtype=np.float64).astype(np.float32)
    for first in range(0, len(out), 1 << 16):
        part = out[first : first + (1 << 16)]
        part -= mean
        part /= np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-9)
    return out


def _unit(x: Floats) -> Floats:
    out: Floats = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-9)
    return out
