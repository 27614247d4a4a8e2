"""A tree of groups cut from links alone, as one more place to start a fit from.

Averaged features blur what lies inside a group whose members are linked almost as often to the
groups beside it. The eigenvectors of the links inside it, found anew for every group, do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphham.graph.graph import Graph
from graphham.graph.undirected import link_matrix
from graphham.groups.flat_blocks import BlockData, block_data, fit_rounds, in_one_group
from graphham.groups.group_search import clustered, link_vectors
from graphham.groups.group_tree import Codes, allot
from graphham.sampling.keys import derive_key

_ROUNDS = 6  # of mean field that sharpen the coarsest groups before they are cut
_POWER = 3  # of the matrix of links inside a group, whose eigenvectors lie closer together


def link_tree(graph: Graph, groups: Sequence[int], key: Any) -> tuple[Codes, list[Codes]]:
    """Cut a graph into nested groups by the eigenvectors of its links.

    Children are allotted to parents by how many ends of links these have.

    Args:
        graph: The graph; what its nodes are like is not looked at.
        groups: Groups per level, fine to coarse.
        key: Decides every random choice.

    Returns:
        ``(num_nodes,)`` finest groups, and per level but the last the parent of each group.
    """
    data = block_data(link_matrix(graph), None)
    codes = _cut(data, groups[-1], 1, derive_key(key, "top"))
    held = fit_rounds(data, in_one_group(codes.astype(np.int32)), _ROUNDS)
    if held.count == groups[-1]:
        codes = held.groups[:, 0].astype(np.int64)
    parents: list[Codes] = []
    for level in reversed(range(len(groups) - 1)):
        count = groups[level + 1]
        ends = np.bincount(codes, data.degrees, minlength=count).astype(np.float64)
        sizes = np.bincount(codes, minlength=count).astype(np.int64)
        pieces = allot(ends, sizes, groups[level])
        fine = np.zeros(len(codes), dtype=np.int64)
        for group, first in enumerate(np.cumsum(pieces) - pieces):
            rows = np.flatnonzero(codes == group)
            if pieces[group] > 1:
                part = block_data(data.adjacency[rows][:, rows], None)
                inner = derive_key(key, "cut", level, group)
                fine[rows] = _cut(part, int(pieces[group]), _POWER, inner)
            fine[rows] += first
        codes = fine
        parents.insert(0, np.repeat(np.arange(count), pieces))
    return codes, parents


def _cut(data: BlockData, count: int, power: int, key: Any) -> Codes:
    """Return ``(num_nodes,)`` groups of nodes with like eigenvectors."""
    if not data.adjacency.nnz:
        return np.arange(data.num_nodes) % count
    vectors = link_vectors(data, derive_key(key, "vectors"), power)
    return clustered(vectors, count, derive_key(key, "groups")).astype(np.int64)
