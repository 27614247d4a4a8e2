"""Shrink a graph level by level: merge look-alikes, then pair the rest along strong edges.

One level, as H-GCN does it:

1. *Equivalence*: nodes with exactly the same (non-empty) list of neighbours become one group, of
   any size. Isolated nodes share the empty list but nothing else, and stay alone.
2. *Similarity*: the others, those with few neighbours first, each take the free neighbour with the
   largest ``w_ij / sqrt(D_i D_j)``, ``D`` being summed edge weights, as long as the two together
   stand for no more than ``max_weight`` original nodes. Who finds nobody stays alone.

With ``C`` the 0/1 matrix of who went where, the next graph is ``C^T A C``: edges inside a group
become a self loop, which counts as a neighbour of its own from then on. A node's weight is the
number of original nodes behind it. Time and memory are linear in the edges; every step is decided
by the graph alone, ties by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.sampling.keys import derive_key
from graphham.system.jit import Array, frozen, jit, mix

Groups = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Coarsening:
    """A graph and ever smaller versions of it.

    Args:
        graphs: Symmetric CSR adjacency of each level, the given graph first.
        parents: ``(nodes of level l,)`` int32 node of level ``l + 1`` that each went into.
        weights: ``(nodes of level l,)`` int64 number of original nodes behind each node.
    """

    graphs: Sequence[Any]
    parents: Sequence[Groups]
    weights: Sequence[npt.NDArray[np.int64]]

    @property
    def sizes(self) -> list[int]:
        """Number of nodes of each level, the given graph first."""
        return [len(weight) for weight in self.weights]

    def groups(self) -> list[Groups]:
        """Return each original node's group on every coarser level, fine first."""
        found: list[Groups] = []
        for parent in self.parents:
            found.append(parent if not found else parent[found[-1]])
        return found


def coarsen(graph: Graph, levels: int = 4, max_weight: int = 50) -> Coarsening:
    """Shrink a graph ``levels`` times, or less often once nothing can be merged.

    Args:
        graph: The graph; of a directed one, both directions of an edge are added up.
        levels: Number of coarser graphs.
        max_weight: Largest number of original nodes that a pair may stand for.
    """
    if levels < 0 or max_weight < 1:
        raise InputError(
            f"levels must not be negative and max_weight at least 1, got {levels} and {max_weight}"
        )
    adjacency = graph.adjacency().astype(np.float64)
    if graph.directed:
        adjacency = sp.csr_matrix(adjacency + adjacency.T)
    graphs, parents = [adjacency], []
    weights = [np.ones(graph.num_nodes, dtype=np.int64)]
    for _ in range(levels):
        parent = merge_once(graphs[-1], weights[-1], max_weight)
        count = int(parent.max()) + 1 if len(parent) else 0
        if count == len(parent):
            break
        joined = assignment(parent, count)
        smaller = sp.csr_matrix(joined.T @ graphs[-1] @ joined)
        smaller.sort_indices()
        graphs.append(smaller)
        parents.append(parent)
        # Whole numbers add up exactly in float64 far beyond any graph that fits in memory.
        weights.append(np.bincount(parent, weights[-1], minlength=count).astype(np.int64))
    return Coarsening(graphs, parents, weights)


def assignment(parent: Groups, count: int) -> Any:
    """Return the ``(nodes, count)`` 0/1 CSR matrix that maps nodes to their group."""
    rows = np.arange(len(parent) + 1)
    return sp.csr_matrix((np.ones(len(parent)), parent, rows), shape=(len(parent), count))


def merge_once(adjacency: Any, weight: npt.NDArray[np.int64], max_weight: int) -> Groups:
    """Return the group of each node after one round of merging.

    Args:
        adjacency: Symmetric CSR matrix with sorted rows; self loops may occur.
        weight: ``(nodes,)`` original nodes behind each node.
        max_weight: Largest weight of a pair.

    Returns:
        ``(nodes,)`` int32 groups, numbered by their first member.
    """
    group = equivalence_groups(adjacency)
    degrees = np.diff(adjacency.indptr)
    members = np.bincount(group, minlength=len(group))
    leader = np.where(members[group] > 1, group, -1).astype(np.int64)
    order = np.argsort(degrees, kind="stable")
    strength = np.asarray(adjacency.sum(1)).ravel()
    _pair_up(
        frozen(adjacency.indptr, np.int64),
        frozen(adjacency.indices, np.int64),
        frozen(adjacency.data, np.float64),
        frozen(1 / np.sqrt(np.maximum(strength, 1e-300))),
        frozen(weight, np.int64),
        frozen(order, np.int64),
        max_weight,
        leader,
    )
    # Leaders are the first members, so sorting them numbers the groups in that order.
    return np.unique(leader, return_inverse=True)[1].astype(np.int32)


def equivalence_groups(adjacency: Any) -> npt.NDArray[np.int64]:
    """Return the first node that has exactly the same neighbours as each node.

    Args:
        adjacency: CSR matrix with sorted rows; a self loop counts as a neighbour.

    Returns:
        ``(nodes,)`` rows; a node without its like, or without neighbours, has itself.
    """
    indptr, indices = frozen(adjacency.indptr, np.int64), frozen(adjacency.indices, np.int64)
    codes = _list_codes(indptr, indices, np.uint64(derive_key(0, "neighbour lists")))
    order = np.argsort(codes, kind="stable")
    return _same_lists(indptr, indices, frozen(codes), frozen(order))


@jit
def _list_codes(indptr: Array, indices: Array, key: Any) -> Array:
    """Return one code per neighbour list; equal lists have equal codes."""
    count = len(indptr) - 1
    codes = np.zeros(count, dtype=np.uint64)
    for i in range(count):
        total = np.uint64(0)
        for e in range(indptr[i], indptr[i + 1]):
            total += mix(key, indices[e])
        codes[i] = total
    return codes


@jit
def _same_lists(indptr: Array, indices: Array, codes: Array, order: Array) -> Array:
    """Compare every list with the first one of its code, entry by entry."""
    leader = np.arange(len(order))
    first = -1
    for place in range(len(order)):
        i = order[place]
        length = indptr[i + 1] - indptr[i]
        if first < 0 or codes[first] != codes[i]:
            first = i
            continue
        same = length > 0 and length == indptr[first + 1] - indptr[first]
        e = 0
        while same and e < length:
            same = indices[indptr[i] + e] == indices[indptr[first] + e]
            e += 1
        if same:
            leader[i] = first
    return leader


@jit
def _pair_up(
    indptr: Array,
    indices: Array,
    values: Array,
    scale: Array,
    weight: Array,
    order: Array,
    max_weight: int,
    leader: Array,
) -> None:
    """Pair the nodes whose leader is -1, in the given order; fill in all leaders."""
    for place in range(len(order)):
        i = order[place]
        if leader[i] >= 0:
            continue
        best, best_score = i, -1.0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if j == i or leader[j] >= 0 or weight[i] + weight[j] > max_weight:
                continue
            # The node's own scale is the same for all its neighbours.
            score = values[e] * scale[j]
            if score > best_score:
                best, best_score = j, score
        leader[i] = leader[best] = min(i, best)
