"""The facts about a run that report and explorer show: names, labels, the map, boundaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphham.graph.graph import Labels
from graphham.report.palette import group_colors, label_colors, telling_level
from graphham.report.safe_text import SHORT, plot_text
from graphham.results.projection import NodeMap, run_map
from graphham.results.run_folder import Run

if TYPE_CHECKING:
    from graphham.graph.graph import Graph
    from graphham.results.hierarchy import Hierarchy
    from graphham.results.result import FitResult

# The twentieth of the nodes that lies most between two groups is marked (Figure 3 of the paper),
# as far as they are between at all: a tenth of a node elsewhere is a score of 0.2.
LEAST_BETWEEN = 0.2
BOUNDARY_PERCENT = 5
# Below half of full evidence, links and features are too few to say where a node belongs: another
# answer than lying between two groups, and another mark.
THIN_EVIDENCE = 0.5
# Points drawn on one map; a browser stays quick and the report stays a few megabytes.
MAX_POINTS = 12_000
_NEAR_ON_MAP = 10
# Facts of a view that no group's name enters.
_NAMELESS = (
    "result",
    "graph",
    "titles",
    "label_codes",
    "boundary_bar",
    "is_boundary",
    "between_percentiles",
    "is_thin",
    "mean_concentration",
    "concentration_percentiles",
    "drawn_rows",
)


@dataclass(eq=False)
class RunView:
    """A run, opened to be looked at: every fact is read or computed once, on first use.

    Args:
        run: The run, or its folder.
        given_graph: The graph, for runs that do not keep it.
    """

    run: Run
    given_graph: Graph | None = None

    @classmethod
    def of(cls, run: RunView | Run | str | Path, graph: Graph | None = None) -> RunView:
        """Make a view of whatever names a run."""
        if isinstance(run, RunView):
            return run
        return cls(run if isinstance(run, Run) else Run.open(run), graph)

    def rename_group(self, level: int, group: int, name: str) -> RunView:
        """Give a group another name, kept in the run; return the view with that name."""
        renamed = RunView(self.run.rename_group(level, group, name), self.given_graph)
        # Names are all that changed; what was read or computed before stays.
        for old, new, kept in (
            (self, renamed, _NAMELESS),
            (self.run, renamed.run, ("nodes", "embedding")),
        ):
            new.__dict__.update({k: v for k, v in old.__dict__.items() if k in kept})
        return renamed

    @cached_property
    def result(self) -> FitResult:
        """The fit, from the run's tables."""
        return self.run.result()

    @cached_property
    def graph(self) -> Graph | None:
        """The graph of the run, ``None`` where the run does not keep it and none was given."""
        if self.given_graph is not None:
            return self.run.check_graph(self.given_graph)
        return self.run.graph() if self.run.keeps_graph else None

    @cached_property
    def tree(self) -> Hierarchy:
        """The tree of groups, with the names people gave."""
        return self.run.hierarchy

    @cached_property
    def groups(self) -> list[dict[str, Any]]:
        """One record per group, as in ``groups.parquet``."""
        rows: list[dict[str, Any]] = self.run.groups.to_pylist()
        return rows

    @cached_property
    def group_records(self) -> dict[tuple[int, int], dict[str, Any]]:
        """The same records by level and group."""
        return {(g["level"], g["group"]): g for g in self.groups}

    @cached_property
    def layout(self) -> NodeMap:
        """Where the nodes lie on the map."""
        return run_map(self.run)

    @cached_property
    def colors(self) -> list[list[str]]:
        """A colour per group and level."""
        return group_colors(self.tree) if self.num_levels else []

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.run.embedding)

    @property
    def num_levels(self) -> int:
        """Number of levels of groups; 0 where the method finds none."""
        return self.tree.num_levels if self.run.has_groups else 0

    @property
    def name(self) -> str:
        """What the graph is called."""
        return str(self.run.summary.get("graph", {}).get("name") or self.run.path.name)

    @cached_property
    def titles(self) -> Any:
        """The Arrow column of titles, or ``None``."""
        nodes = self.run.nodes
        return nodes["title"] if "title" in nodes.column_names else None

    @cached_property
    def label_names(self) -> list[str]:
        """The labels' values as text; empty without labels."""
        labels = self.result.labels
        return [] if labels is None else [str(c) for c in labels.classes]

    @cached_property
    def label_colors(self) -> list[str]:
        """A colour per label: that of the coarse group it fills, where there is one."""
        if not self.num_levels or not self.label_names:
            return label_colors(self.label_names)
        known = self.label_codes >= 0
        top = telling_level(self.tree) - 1
        table = np.zeros((len(self.label_names), self.tree.group_counts[top]), dtype=np.int64)
        np.add.at(table, (self.label_codes[known], self.result.groups[top][known]), 1)
        return label_colors(self.label_names, table, self.colors[top])

    @cached_property
    def label_codes(self) -> npt.NDArray[np.int32]:
        """``(num_nodes,)`` label of each node, the first of several, -1 where unknown."""
        labels = self.result.labels
        if labels is None:
            return np.full(self.num_nodes, -1, dtype=np.int32)
        return first_codes(labels)

    @cached_property
    def boundary_bar(self) -> float:
        """Score from which on a node counts as lying between two groups."""
        return self.between_bar(BOUNDARY_PERCENT)

    @cached_property
    def between_percentiles(self) -> list[float]:
        """The 101 percentiles of ``between``, from the least to the largest."""
        if not self.num_nodes or not self.result.memberships:
            return [1.0] * 101
        return [float(v) for v in np.quantile(self.result.between, np.linspace(0, 1, 101))]

    def between_bar(self, percentage: int) -> float:
        """Return the score of the ``percentage`` of nodes most between two groups.

        Never so low that nodes which are all but in one group count too.
        """
        return max(self.between_percentiles[100 - percentage], LEAST_BETWEEN)

    @cached_property
    def is_boundary(self) -> npt.NDArray[np.bool_]:
        """``(num_nodes,)`` whether a node lies on a boundary."""
        return np.asarray(self.result.between >= self.boundary_bar)

    @property
    def nests_exactly(self) -> bool:
        """Whether every fine group lies whole inside one coarse group."""
        flows = [self.tree.flows(level, level + 1) for level in range(1, self.num_levels)]
        return all(int((flow > 0).sum(axis=1).max(initial=0)) <= 1 for flow in flows)

    @cached_property
    def is_thin(self) -> npt.NDArray[np.bool_]:
        """``(num_nodes,)`` whether there is too little to say where a node belongs."""
        if not len(self.result.evidence):
            return np.zeros(self.num_nodes, dtype=bool)
        return np.asarray(self.result.evidence < THIN_EVIDENCE)

    @cached_property
    def mean_concentration(self) -> float:
        """Mean concentration of the nodes, 0 without nodes."""
        values = self.result.concentration
        return float(np.mean(values)) if len(values) else 0.0

    @cached_property
    def concentration_percentiles(self) -> list[float]:
        """The 101 percentiles of the concentration, from the least to the largest.

        Each is the concentration of a node: those below the ``k``-th are fewer than ``k`` percent,
        those below anything larger at least as many, so a page can tell the share to the percent.
        """
        ranked = np.sort(self.result.concentration)
        places = (np.arange(101) * len(ranked) + 99) // 100 - 1
        return [float(v) for v in ranked[np.maximum(places, 0)]]

    def concentrations(self, rows: npt.NDArray[Any]) -> list[float] | None:
        """Return the concentration of some rows; ``None`` where the method has none."""
        return self.numbers("concentration", rows)

    def numbers(self, column: str, rows: npt.NDArray[Any]) -> list[float] | None:
        """Return a number about some rows, such as ``between``; ``None`` where there is none."""
        values = getattr(self.result, column)
        return [float(v) for v in values[rows]] if len(values) else None

    def sample(self, most: int, seed: int = 0) -> npt.NDArray[np.int64]:
        """Return rows to draw, in row order: all, or a fixed sample when there are more."""
        if self.num_nodes <= most:
            return np.arange(self.num_nodes)
        rows = np.random.default_rng([seed, 41]).choice(self.num_nodes, most, replace=False)
        return np.sort(rows)

    @cached_property
    def drawn_rows(self) -> npt.NDArray[np.int64]:
        """Rows of the nodes that a map of the report draws."""
        return self.sample(MAX_POINTS)

    @cached_property
    def near_on_map(self) -> npt.NDArray[np.int64]:
        """Per drawn node the places, among the drawn, of the up to ten nearest on the map."""
        from scipy.spatial import cKDTree

        xy = self.layout.xy[self.drawn_rows]
        most = min(_NEAR_ON_MAP, len(xy) - 1)
        if most < 1:
            return np.zeros((len(xy), 0), dtype=np.int64)
        found = cKDTree(xy).query(xy, k=most + 1)[1]
        # Of nodes on one spot any may come first, the node itself included: it is taken out.
        is_self = found == np.arange(len(xy))[:, None]
        is_self[~is_self.any(axis=1), -1] = True
        return np.asarray(found[~is_self].reshape(len(xy), most), dtype=np.int64)

    @cached_property
    def hover_texts(self) -> list[str]:
        """What the pointer shows for each drawn node: id, title, groups, label, concentration."""
        rows = self.drawn_rows
        ids, titles = self.node_texts(rows)
        names = [
            [plot_text(n, SHORT) for n in level]
            for level in (self.tree.names if self.num_levels else ())
        ]
        codes = [g[rows].tolist() for g in self.result.groups]
        labels = [plot_text(n, SHORT) for n in self.label_names]
        label_codes = self.label_codes[rows].tolist()
        concentration = self.concentrations(rows)
        texts = []
        for i, (node, title) in enumerate(zip(ids, titles, strict=True)):
            lines = [f"<b>{plot_text(node, 60)}</b>"]
            lines += [plot_text(title, 70)] if title else []
            lines += [f"level {at + 1}: {names[at][codes[at][i]]}" for at in range(len(codes))]
            lines += [f"label: {labels[label_codes[i]]}"] if label_codes[i] >= 0 else []
            lines += [f"concentration {concentration[i]:.2f}"] if concentration else []
            texts.append("<br>".join(lines))
        return texts

    def node_texts(self, rows: Sequence[int] | npt.NDArray[Any]) -> tuple[list[str], list[str]]:
        """Return ids and titles of rows as text; no titles are empty text."""
        picked = np.asarray(rows, dtype=np.int64)
        ids = [str(v) for v in self.result.ids.take(picked).tolist()]
        if self.titles is None:
            return ids, [""] * len(ids)
        import pyarrow as pa

        titles = self.titles.take(pa.array(picked)).to_pylist()
        return ids, [t or "" for t in titles]


def first_codes(labels: Labels) -> npt.NDArray[np.int32]:
    """Return one code per node: its label, or the first of several, -1 where unknown."""
    if labels.codes is not None:
        return np.asarray(labels.codes, dtype=np.int32)
    assert labels.matrix is not None
    matrix = labels.matrix.sorted_indices()
    codes = np.full(len(labels), -1, dtype=np.int32)
    known = labels.known
    codes[known] = matrix.indices[matrix.indptr[:-1][known]]
    return codes
