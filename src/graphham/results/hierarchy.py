"""The tree of groups: sizes, parents, flows between levels, and how well the levels nest.

Levels are numbered from 1 (fine) upward, as in every table the package writes. All scores count
nodes' groups, so a level that collapsed to one group cannot look good by accident.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.graph.graph import Labels
from graphham.results.scores import (
    Codes,
    Counts,
    conditional_entropy,
    contingency,
    effective_groups,
    groups_used,
    label_scores,
    majority_parents,
    nesting_score,
    path_decode,
    show_paths,
    table_majority,
    table_nesting,
    violation_rate,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Hierarchy",
    "conditional_entropy",
    "effective_groups",
    "group_number",
    "groups_used",
    "hierarchy_metrics",
    "label_scores",
    "majority_parents",
    "nesting_score",
    "path_decode",
    "show_paths",
    "violation_rate",
]

FORMAT = "graphham-hierarchy"
VERSION = 1


def group_number(level: int, group: int) -> str:
    """Name a group by its place, which no group of another level has: ``group 2-5``."""
    return f"group {level}-{group}"


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """A tree of groups over several levels, with the number of nodes that flow along each link.

    Args:
        sizes: Per level ``(num_groups,)`` number of nodes in each group.
        parents: Per level but the last ``(num_groups,)`` parent in the next level.
        counts: For every pair of levels ``(lower, upper)`` the ``(lower, upper)`` node counts.
        names: Per level one readable name per group.
        parents_from: Whether the model fixed the parents or the majority of nodes chose them.
    """

    sizes: tuple[Counts, ...]
    parents: tuple[Codes, ...]
    counts: dict[tuple[int, int], Counts]
    names: tuple[tuple[str, ...], ...]
    parents_from: Literal["model", "majority"] = "model"

    @classmethod
    def from_groups(
        cls,
        groups: Sequence[npt.NDArray[Any]],
        group_counts: Sequence[int],
        parents: Sequence[npt.NDArray[Any]] = (),
        names: Sequence[Sequence[str]] | None = None,
    ) -> Hierarchy:
        """Count a hierarchy from every node's group on every level.

        Args:
            groups: Per level ``(num_nodes,)`` codes, fine to coarse.
            group_counts: Number of groups of each level, used or not.
            parents: Parent of each group; the majority of its nodes decides when not given.
            names: Readable names; ``group 1-0`` and so on, by level and group, when not given.
        """
        if not groups or len(groups) != len(group_counts):
            raise InputError(f"a hierarchy needs one list of groups for each of {group_counts}")
        levels = range(1, len(groups) + 1)
        counts = {
            (a, b): contingency(
                groups[a - 1], groups[b - 1], group_counts[a - 1], group_counts[b - 1]
            )
            for a in levels
            for b in levels
            if a < b
        }
        chosen = [np.asarray(p, dtype=np.int32) for p in parents]
        if not chosen:
            chosen = [table_majority(counts[level, level + 1]) for level in levels[:-1]]
        elif len(chosen) != len(groups) - 1:
            raise InputError(f"{len(groups)} levels need {len(groups) - 1} parent lists")
        default = tuple(
            tuple(group_number(level, g) for g in range(k))
            for level, k in zip(levels, group_counts, strict=True)
        )
        return cls(
            sizes=tuple(
                np.bincount(g, minlength=k) for g, k in zip(groups, group_counts, strict=True)
            ),
            parents=tuple(chosen),
            counts=counts,
            names=default if names is None else tuple(tuple(n) for n in names),
            parents_from="model" if parents or len(groups) == 1 else "majority",
        )

    def named(self, names: Iterable[Sequence[str]]) -> Hierarchy:
        """Return the same tree under other names, one per group of every level."""
        return replace(self, names=tuple(tuple(level) for level in names))

    @property
    def num_levels(self) -> int:
        """Number of levels."""
        return len(self.sizes)

    @property
    def num_nodes(self) -> int:
        """Number of nodes; every level holds each of them once."""
        return int(self.sizes[0].sum())

    @property
    def group_counts(self) -> tuple[int, ...]:
        """Number of groups of each level, used or not."""
        return tuple(len(s) for s in self.sizes)

    @property
    def groups_in_use(self) -> tuple[int, ...]:
        """Groups of each level that are the shown group of at least one node."""
        return tuple(int((s > 0).sum()) for s in self.sizes)

    def flows(self, lower: int, upper: int) -> Counts:
        """Return how many nodes each pair of groups shares, ``(K_lower, K_upper)``."""
        if not 1 <= lower < upper <= self.num_levels:
            raise InputError(
                f"there are no flows from level {lower} to {upper}; levels run from 1 (fine) to "
                f"{self.num_levels} (coarse)"
            )
        return self.counts[lower, upper]

    def parent_share(self, level: int) -> npt.NDArray[np.float64]:
        """Return the share of each group's nodes that sit in its parent; NaN for an empty group."""
        flow = self.flows(level, level + 1)
        size = self.sizes[level - 1]
        following = flow[np.arange(len(size)), self.parents[level - 1]]
        share = np.full(len(size), np.nan)
        np.divide(following, size, out=share, where=size > 0)
        return share

    def nesting(self, level: int = 1) -> float:
        """Return I(lower; upper) / H(upper) between ``level`` and the next one."""
        return table_nesting(self.flows(level, level + 1))

    def nesting_score(self) -> float:
        """Return the mean nesting over neighbouring levels; 0 when there is one level only."""
        scores = [self.nesting(level) for level in range(1, self.num_levels)]
        return float(np.mean(scores)) if scores else 0.0

    def children(self, level: int, group: int) -> list[int]:
        """Return the groups of the level below that have this group as parent."""
        if level == 1:
            return []
        return [int(g) for g in np.flatnonzero(self.parents[level - 2] == group)]

    def to_json(self) -> dict[str, Any]:
        """Return the content of ``hierarchy.json``: flat counts and the nested tree."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "num_nodes": self.num_nodes,
            "parents_from": self.parents_from,
            "levels": [
                {
                    "level": level,
                    "sizes": self.sizes[level - 1].tolist(),
                    "names": list(self.names[level - 1]),
                    "parents": (
                        self.parents[level - 1].tolist() if level < self.num_levels else None
                    ),
                }
                for level in range(1, self.num_levels + 1)
            ],
            "flows": [
                {"lower": a, "upper": b, "counts": flow.tolist()}
                for (a, b), flow in sorted(self.counts.items())
            ],
            "tree": {
                "name": "all nodes",
                "size": self.num_nodes,
                "children": [
                    self._branch(self.num_levels, g) for g in range(self.group_counts[-1])
                ],
            },
        }

    def _branch(self, level: int, group: int) -> dict[str, Any]:
        branch: dict[str, Any] = {
            "level": level,
            "group": group,
            "name": self.names[level - 1][group],
            "size": int(self.sizes[level - 1][group]),
        }
        if level < self.num_levels:
            parent = int(self.parents[level - 1][group])
            branch["in_parent"] = int(self.counts[level, level + 1][group, parent])
        if level > 1:
            branch["children"] = [self._branch(level - 1, g) for g in self.children(level, group)]
        return branch

    @classmethod
    def from_json(cls, data: Any, origin: str = "hierarchy.json") -> Hierarchy:
        """Read what :meth:`to_json` wrote; anything else is an :class:`InputError`."""
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise InputError(f"{origin} is not a graphham hierarchy")
        if not isinstance(data.get("version"), int) or data["version"] > VERSION:
            raise InputError(
                f"{origin} has format version {data.get('version')!r}, this graphham reads up to "
                f"{VERSION}; install a newer graphham"
            )
        try:
            levels = data["levels"]
            made = cls(
                sizes=tuple(np.asarray(v["sizes"], dtype=np.int64) for v in levels),
                parents=tuple(np.asarray(v["parents"], dtype=np.int32) for v in levels[:-1]),
                counts={
                    (int(f["lower"]), int(f["upper"])): np.asarray(f["counts"], dtype=np.int64)
                    for f in data["flows"]
                },
                names=tuple(tuple(v["names"]) for v in levels),
                parents_from=data["parents_from"],
            )
            sound = bool(levels) and all(
                np.array_equal(flow.sum(axis=1), made.sizes[a - 1])
                and np.array_equal(flow.sum(axis=0), made.sizes[b - 1])
                for (a, b), flow in made.counts.items()
            )
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise InputError(f"{origin} is incomplete or damaged ({error})") from error
        if not sound:
            raise InputError(f"{origin} is damaged: its group sizes do not add up")
        return made

    def to_linkage(self) -> npt.NDArray[np.float64]:
        """Return a SciPy linkage matrix over the finest groups that follows the tree.

        Leaf ``i`` is group ``i`` of level 1. Groups join into their parent at height 1, parents
        into theirs at height 2, and so on; the top groups join at height ``num_levels``.
        """
        rows: list[tuple[float, float, float, float]] = []
        leaves = self.group_counts[0]

        def join(clusters: list[tuple[int, int]], height: int) -> tuple[int, int]:
            first, count = clusters[0]
            for other, more in clusters[1:]:
                count += more
                rows.append((first, other, float(height), count))
                first = leaves + len(rows) - 1
            return first, count

        # Group code -> (cluster number in the linkage, leaves below), one level at a time.
        current = {g: (g, 1) for g in range(leaves)}
        for level, parent in enumerate(self.parents, 1):
            families: dict[int, list[tuple[int, int]]] = {}
            for group, cluster in current.items():
                families.setdefault(int(parent[group]), []).append(cluster)
            current = {p: join(families[p], level) for p in sorted(families)}
        join(list(current.values()), self.num_levels)
        return np.array(rows, dtype=np.float64).reshape(-1, 4)

    def to_table(self) -> pa.Table:
        """Return one row per group: level, group, name, size, share, parent, parent_share."""
        import pyarrow as pa

        levels = range(1, self.num_levels + 1)
        top = self.group_counts[-1]
        shares = [self.parent_share(level) for level in levels[:-1]] + [np.full(top, np.nan)]
        parent = np.concatenate([*self.parents, np.full(top, -1)]).astype(np.int32)
        size = np.concatenate(self.sizes)
        share = np.concatenate(shares)
        return pa.table(
            {
                "level": pa.array(np.repeat(list(levels), self.group_counts).astype(np.int32)),
                "group": pa.array(
                    np.concatenate([np.arange(k, dtype="i4") for k in self.group_counts])
                ),
                "name": pa.array([n for names in self.names for n in names], type=pa.string()),
                "size": pa.array(size),
                "share": pa.array(size / max(self.num_nodes, 1)),
                "parent": pa.array(parent, mask=parent < 0),
                "parent_share": pa.array(share, mask=np.isnan(share)),
            }
        )

    def __repr__(self) -> str:
        pairs = zip(self.groups_in_use, self.group_counts, strict=True)
        used = " > ".join(f"{some}/{count}" for some, count in pairs)
        return f"Hierarchy({self.num_nodes:,} nodes; groups in use, fine to coarse: {used})"


def hierarchy_metrics(
    tree: Hierarchy,
    groups: Sequence[npt.NDArray[Any]],
    labels: Labels | None = None,
) -> dict[str, Any]:
    """Measure a hierarchy as one flat dictionary that JSON can hold; ``result.metrics`` keeps it.

    Per level ``l``: ``groups_l``, ``used_l`` (groups in use), ``effective_l``,
    ``largest_share_l``, and with labels ``nmi_l``, ``ari_l``, ``label_purity_l``. Between ``l``
    and ``l + 1``: ``nesting_l``, ``violation_rate_l`` and ``conditional_entropy_l`` of the decoded
    groups. The name without a number is the mean over level pairs (``None`` with one level).

    Args:
        tree: The hierarchy.
        groups: Per level ``(num_nodes,)`` groups that it was counted from.
        labels: Known classes.
    """
    found: dict[str, Any] = {
        "levels": tree.num_levels,
        "nodes": tree.num_nodes,
        "parents_from": tree.parents_from,
    }
    for level, codes in enumerate(groups, 1):
        count = tree.group_counts[level - 1]
        found[f"groups_{level}"] = count
        found[f"used_{level}"] = groups_used(codes, count)
        found[f"effective_{level}"] = effective_groups(codes)
        found[f"largest_share_{level}"] = float(tree.sizes[level - 1].max() / len(codes))
        if labels is not None:
            scores = label_scores(codes, labels)
            found["labelled_nodes"] = scores["nodes"]
            found |= {f"{n}_{level}": scores[n] for n in ("nmi", "ari")}
            found[f"label_purity_{level}"] = scores["purity"]
    for level in range(1, tree.num_levels):
        low, high = groups[level - 1], groups[level]
        found[f"nesting_{level}"] = tree.nesting(level)
        found[f"violation_rate_{level}"] = violation_rate(low, high)
        found[f"conditional_entropy_{level}"] = conditional_entropy(low, high)
    per_pair = [found[f"nesting_{level}"] for level in range(1, tree.num_levels)]
    found["nesting"] = float(np.mean(per_pair)) if per_pair else None
    return found
