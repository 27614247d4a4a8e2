"""What every view of a run needs: names, codes, labels, the map and the boundary nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphham.graph.graph import Labels
from graphham.report.palette import group_colors, label_colors
from graphham.results.describe import two_strongest
from graphham.results.projection import NodeMap, run_map
from graphham.results.run_folder import Run

if TYPE_CHECKING:
    from graphham.graph.graph import Graph
    from graphham.results.hierarchy import Hierarchy
    from graphham.results.result import FitResult

# The least concentrated twentieth of the nodes is marked as boundary (Figure 3 of the paper).
BOUNDARY_SHARE = 0.05


@dataclass(eq=False)
class RunView:
    """A run, opened to be looked at; everything is read when first asked for.

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
    def layout(self) -> NodeMap:
        """Where the nodes lie on the map."""
        return run_map(self.run)

    @cached_property
    def colors(self) -> list[list[str]]:
        """A colour per group and level."""
        return group_colors(self.tree)

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.tree.num_nodes

    @property
    def num_levels(self) -> int:
        """Number of levels of groups."""
        return self.tree.num_levels

    @property
    def name(self) -> str:
        """What the graph is called."""
        return str(self.run.summary.get("graph", {}).get("name") or self.run.path.name)

    def group_name(self, level: int, group: int) -> str:
        """Return the name of a group."""
        return self.tree.names[level - 1][group]

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
        """A colour per label."""
        return label_colors(self.label_names)

    @cached_property
    def label_codes(self) -> npt.NDArray[np.int32]:
        """``(num_nodes,)`` label of each node, the first of several, -1 where unknown."""
        labels = self.result.labels
        if labels is None:
            return np.full(self.num_nodes, -1, dtype=np.int32)
        return first_codes(labels)

    @cached_property
    def boundary_bar(self) -> float:
        """Concentration below which a node counts as lying on a boundary."""
        if not self.num_nodes:
            return 0.0
        return float(np.quantile(self.result.concentration, BOUNDARY_SHARE))

    @cached_property
    def second_groups(self) -> list[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
        """Per level the second strongest group of each node (-1: none) and its membership."""
        found = []
        for member in self.result.memberships:
            _, second, _, low = two_strongest(member)
            found.append((second, low))
        return found

    def sample(self, most: int, seed: int = 0) -> npt.NDArray[np.int64]:
        """Return rows to draw, in row order: all, or a fixed sample when there are more."""
        if self.num_nodes <= most:
            return np.arange(self.num_nodes)
        chosen = np.random.default_rng([seed, 41]).choice(self.num_nodes, most, replace=False)
        return np.sort(chosen)

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
