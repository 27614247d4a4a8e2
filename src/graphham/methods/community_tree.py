"""A tree of communities over the nodes of a graph: the user's own, or found by modularity.

GNE and SpaceNE both need one and, with the same seed and settings, get the same one. Nothing here
reads labels. Where no tree is given, communities are split again and again by Louvain's method on
the sub-graph they span; the published systems do not say where their trees came from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.methods.louvain import louvain
from graphham.sampling.keys import derive_key

Rows = npt.NDArray[np.int64]
_STARTS = 3


@dataclass(frozen=True, eq=False)
class Tree:
    """Groups within groups, each graph node a leaf of exactly one of them.

    Group 0 is the root, and a group comes after the group that holds it.

    Args:
        parent: ``(num_groups,)`` group that holds each group; -1 for the root.
        leaf_group: ``(num_nodes,)`` group that directly holds each graph row.
        names: One name per group, or nothing.
    """

    parent: Rows
    leaf_group: Rows
    names: tuple[str, ...] = ()

    @property
    def num_groups(self) -> int:
        """Number of groups, the root included."""
        return len(self.parent)

    @cached_property
    def depth(self) -> Rows:
        """``(num_groups,)`` steps from the root."""
        depth = np.zeros(self.num_groups, dtype=np.int64)
        for group in range(1, self.num_groups):
            depth[group] = depth[self.parent[group]] + 1
        return depth

    @cached_property
    def _children(self) -> tuple[Rows, Rows]:
        order = np.argsort(self.parent[1:], kind="stable") + 1
        return order, np.searchsorted(self.parent[order], np.arange(self.num_groups + 1))

    @cached_property
    def _leaves(self) -> tuple[Rows, Rows]:
        order = np.argsort(self.leaf_group, kind="stable")
        return order, np.searchsorted(self.leaf_group[order], np.arange(self.num_groups + 1))

    def children(self, group: int) -> Rows:
        """Return the groups directly inside a group, in ascending order."""
        order, bounds = self._children
        return order[bounds[group] : bounds[group + 1]]

    def leaves(self, group: int) -> Rows:
        """Return the graph rows directly inside a group, in ascending order."""
        order, bounds = self._leaves
        return order[bounds[group] : bounds[group + 1]]

    def num_children(self) -> Rows:
        """Return the ``(num_groups,)`` number of groups and rows directly inside each group."""
        groups = np.bincount(self.parent[1:], minlength=self.num_groups)
        return groups + np.bincount(self.leaf_group, minlength=self.num_groups)

    @cached_property
    def sizes(self) -> Rows:
        """``(num_groups,)`` graph rows anywhere below each group."""
        sizes = np.bincount(self.leaf_group, minlength=self.num_groups).astype(np.int64)
        for group in range(self.num_groups - 1, 0, -1):
            sizes[self.parent[group]] += sizes[group]
        return sizes

    @cached_property
    def _layout(self) -> tuple[Rows, Rows]:
        """Rows ordered so that everything below a group is one stretch, and where each begins."""
        start = np.zeros(self.num_groups, dtype=np.int64)
        order = np.empty(len(self.leaf_group), dtype=np.int64)
        for group in range(self.num_groups):
            own = self.leaves(group)
            at = start[group] + len(own)
            order[start[group] : at] = own
            for child in self.children(group):
                start[child] = at
                at += self.sizes[child]
        return order, start

    def rows_under(self, group: int) -> tuple[Rows, Rows]:
        """Return the rows below a group and the number of the child each belongs to.

        The children of a group are its own rows, then the groups inside it.
        """
        order, start = self._layout
        own = len(self.leaves(group))
        sizes = self.sizes[self.children(group)]
        child = np.concatenate([np.arange(own), own + np.repeat(np.arange(len(sizes)), sizes)])
        return order[start[group] : start[group] + self.sizes[group]], child

    def levels(self) -> list[npt.NDArray[np.int32]] | None:
        """Return each row's group per level below the root, fine first; ``None`` without any.

        A row that hangs higher than a level stays in its deepest group there.
        """
        found = []
        group = self.leaf_group.copy()
        for level in range(int(self.depth.max()), 0, -1):
            group = np.where(self.depth[group] > level, self.parent[group], group)
            found.append(np.unique(group, return_inverse=True)[1].astype(np.int32))
        return found or None

    def nested(self, ids: Any) -> dict[str, Any]:
        """Return the tree as nested dictionaries with the user's ids, as a method takes it."""
        names = self.names or tuple(f"group {g}" for g in range(self.num_groups))
        listed = ids.tolist()
        made: list[dict[str, Any]] = [
            {"name": name, "children": [listed[row] for row in self.leaves(group).tolist()]}
            for group, name in enumerate(names)
        ]
        for group in range(1, self.num_groups):
            made[int(self.parent[group])]["children"].append(made[group])
        return made[0]

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays to save."""
        return {"tree.parent": self.parent, "tree.leaf_group": self.leaf_group}

    @classmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any]], names: Any = ()) -> Tree:
        """Rebuild from saved arrays."""
        return cls(state["tree.parent"], state["tree.leaf_group"], tuple(names))


def build_tree(
    graph: Graph,
    seed: int,
    *,
    max_leaves: int = 100,
    max_depth: int = 3,
    max_children: int = 500,
    resolution: float = 1.0,
) -> Tree:
    """Split a graph into communities, and those again, by modularity.

    Work is linear in edges per level of the tree.

    Args:
        graph: The graph; direction is ignored, weights count.
        seed: Decides the order in which Louvain's method looks at nodes.
        max_leaves: Communities of no more nodes are not split.
        max_depth: Levels of groups, the root's included.
        max_children: No group gets more children: larger ones are split deeper than ``max_depth``,
            by size where they have no communities, so that methods stay linear.
        resolution: Above 1 for smaller communities.
    """
    for name, value, least in (
        ("max_leaves", max_leaves, 1),
        ("max_depth", max_depth, 1),
        ("max_children", max_children, 2),
    ):
        if not isinstance(value, int) or value < least:
            raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")
    adjacency = sp.csr_matrix(graph.adjacency())
    if graph.directed:
        adjacency = sp.csr_matrix(adjacency.maximum(adjacency.T))
    leaf_group = np.zeros(graph.num_nodes, dtype=np.int64)
    parent, depth = [-1], [0]
    waiting = deque([(0, np.arange(graph.num_nodes, dtype=np.int64), adjacency)])
    while waiting:
        group, rows, inside = waiting.popleft()
        leaf_group[rows] = group
        crowded = len(rows) > max_children
        if not crowded and (len(rows) <= max_leaves or depth[group] + 1 >= max_depth):
            continue
        key = derive_key(seed, "tree", group)
        codes = _parts(inside, key, resolution, max_children)
        if codes is None and crowded:
            count = min(-(-len(rows) // max_children), max_children)
            codes = np.arange(len(rows)) * count // len(rows)
        if codes is None:
            continue
        # Sorted by part, every part is one block of the matrix: slicing all costs one pass.
        order = np.argsort(codes, kind="stable")
        inside = inside[order][:, order]
        bounds = np.searchsorted(codes[order], np.arange(codes.max() + 2))
        for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            if high - low > 1:
                waiting.append((len(parent), rows[order[low:high]], inside[low:high, low:high]))
                parent.append(group)
                depth.append(depth[group] + 1)
    return Tree(np.asarray(parent, dtype=np.int64), leaf_group)


def _parts(inside: Any, key: Any, resolution: float, max_children: int) -> Rows | None:
    """Divide one sub-graph; ``None`` where it has no communities."""
    found = [louvain(inside, derive_key(key, start), resolution) for start in range(_STARTS)]
    codes, gain = max(found, key=lambda one: one[1])
    sizes = np.bincount(codes)
    single = sizes == 1
    # Lone nodes share one bin: a sphere or subspace for each would say nothing.
    codes = np.where(single[codes], len(sizes), codes)
    codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    count = int(codes.max()) + 1
    # A gain of exactly 0 is one community and a bin of nodes without links: worth keeping apart.
    if count < 2 or gain < 0:
        return None
    if count > max_children:
        # The largest stay by themselves, the others are binned by size and split further down.
        rank = np.empty(count, dtype=np.int64)
        rank[np.argsort(-np.bincount(codes), kind="stable")] = np.arange(count)
        kept = max_children // 2
        binned = kept + (rank - kept) * (max_children - kept) // (count - kept)
        codes = np.where(rank < kept, rank, binned)[codes]
    return codes
