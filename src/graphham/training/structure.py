"""Ask a graph, before it is fitted, whether it has groups, how many, and on how many levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from graphham.config.settings import RunConfig
from graphham.graph.graph import Graph
from graphham.graph.undirected import link_matrix
from graphham.groups.group_count import Structure, find_structure
from graphham.groups.group_map import main_parts, smoothed, unit_rows
from graphham.groups.group_tree import cut_groups
from graphham.model.inputs import fit_inputs
from graphham.parallel.graph_access import graph_access

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
# Beyond so many nodes or stored links the search would cost more than the fit.
_MOST_NODES = 400_000
_MOST_LINKS = 20_000_000
# Beyond so many nodes k-means no longer finds fine groups, and what a search found is a start even
# where the number is given. Below, many fits are made instead where a few disagree.
MANY_NODES = 5_000
_CURVE_POINTS = 40
_LEAST_UPPER = 3  # groups from which on an upper level is shown as it was found
_MOST_SHOWN = 64  # finest groups up to which they are


@dataclass(frozen=True, eq=False)
class StructureSearch:
    """What was asked and what came out.

    Args:
        structure: The answer; ``None`` where nobody searched.
        reason: Why nobody searched.
    """

    structure: Structure | None
    reason: str = ""

    @property
    def found(self) -> bool | None:
        """Whether the graph has groups; ``None`` where nobody searched."""
        return None if self.structure is None else self.structure.found

    def groups(self, levels: int) -> tuple[int, ...] | None:
        """Return groups for so many levels, fine to coarse; one group means nothing to tell apart.

        Args:
            levels: How many levels the model has; levels beyond those found hold everything.
        """
        if self.structure is None:
            return None
        shown = self._levels()
        if len(shown) > levels:
            shown = shown[:1] if levels == 1 else (*shown[: levels - 1], shown[-1])
        return tuple(int(count) for count in shown) + (1,) * (levels - len(shown))

    def _levels(self) -> tuple[int, ...]:
        """Return the levels that were found, or those a person can read on the way down.

        Where no level above the finest tells anything, the finest is often more than a person
        wants to read: numbers on the way of joins are shown then.
        """
        if self.structure is None or not self.structure.found:
            return ()
        found = self.structure.groups
        is_tree = len(found) > 1 and found[1] >= _LEAST_UPPER and found[0] <= _MOST_SHOWN
        return found[:2] if is_tree else self.structure.displayed

    def start(
        self, groups: tuple[int, ...], points: Floats, key: Any
    ) -> tuple[Codes, list[Codes]] | None:
        """Return finest groups and parents to start a fit of those sizes from, if any were found.

        Fewer groups than were found lie on the way of joins; more are cut from those.

        Args:
            groups: Groups per level, fine to coarse.
            points: ``(num_nodes, d)`` where nodes lie, to cut groups by.
            key: Decides every random choice.
        """
        found = self.structure
        if found is None or not found.found:
            return None
        most = found.groups[0]
        levels: list[Codes] = []
        cut, known = found.level(most).astype(np.int64), most
        for level in reversed(range(len(groups))):
            count = groups[level]
            if count > most:
                cut, _ = cut_groups(points, cut, known, count, key, level)
                known = count
            shown = cut if count > most else found.level(count).astype(np.int64)
            levels.insert(0, shown)
        parents: list[Codes] = []
        for low, high, count in zip(levels[:-1], levels[1:], groups[:-1], strict=True):
            parent = np.zeros(count, dtype=np.int64)
            parent[low] = high
            parents.append(parent)
        return levels[0], parents

    def sentence(self) -> str:
        """Say in one sentence whether there are groups."""
        found = self.structure
        if found is None:
            return f"whether the graph has groups was not asked: {self.reason}"
        if not found.found:
            return (
                "no groups found: links and features look like chance given the degrees, so "
                "groups of this graph would be invented"
            )
        sizes = " > ".join(str(count) for count in found.groups)
        return (
            f"the graph has groups: its description is shortest with {sizes}, {found.gain:,.0f} "
            f"nats shorter than without ({max(found.rewired_gain, 0):,.0f} with the links drawn "
            f"anew); other starts agree by {found.agreement:.2f}"
        )

    def facts(self) -> dict[str, Any]:
        """Return what ``summary.json`` says about it."""
        found = self.structure
        if found is None:
            return {"found": None, "sentence": self.sentence()}
        step = max(1, len(found.curve) // _CURVE_POINTS)
        return {
            "found": found.found,
            "sentence": self.sentence(),
            "groups": list(found.groups),
            "displayed": list(found.displayed),
            "gain": float(found.gain),
            "rewired_gain": float(found.rewired_gain),
            "agreement": float(found.agreement),
            "stability": [round(float(value), 4) for value in found.stability],
            "curve": found.curve[::step],
        }


def search_structure(graph: Graph, settings: RunConfig) -> StructureSearch:
    """Search a graph for groups, where that is affordable.

    Args:
        graph: The training graph.
        settings: What the user gave.
    """
    if settings.model.membership_input != "block":
        return StructureSearch(None, "the groups of this preset are learned by its layers")
    if not graph_access(graph).is_whole:
        return StructureSearch(None, "nobody has all links of a split store")
    if graph.num_nodes > _MOST_NODES or graph.num_stored > _MOST_LINKS:
        return StructureSearch(
            None, f"{graph.num_nodes:,} nodes are too many; --groups says how many to make"
        )
    own = smooth = None
    if graph.features is not None:
        _, inputs, basis = fit_inputs(
            graph, settings.inputs, settings.seed, settings.inputs.group_dim
        )
        parts = main_parts(inputs.features, np.ascontiguousarray(basis))
        own, smooth = unit_rows(parts), smoothed(parts, graph)
        smooth = unit_rows(smooth - smooth.mean(0))
    return StructureSearch(find_structure(link_matrix(graph), own, smooth, settings.seed))
