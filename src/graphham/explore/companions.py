"""What stands beside a run in the explorer: another run, and nodes that were embedded later."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.explore.binary_columns import pack
from graphham.explore.selection import inside_polygon
from graphham.report.palette import UNKNOWN
from graphham.report.view import RunView
from graphham.results.compare import Comparison, compare_levels, shared_rows
from graphham.results.projection import pca_map, read_map

if TYPE_CHECKING:
    from graphham.results.run_folder import Run

# Names of selections that the run beside makes in the run: a group of level 2 is ``beside2``.
GROUP_KIND, MOVED_KIND = "beside", "moved"
# Most nodes of the run beside that the run itself does not have, and most new nodes of a table.
_MOST_OTHERS = 2_000
_MOST_NEW = 5_000


class Beside:
    """Another run, seen from the first: its map, its groups in matching colours, shared nodes.

    Args:
        view: The run that the page is about.
        other: The run beside it, or its folder.

    Raises:
        InputError: The two have no node id in common.
    """

    def __init__(self, view: RunView, other: Run | str | Path) -> None:
        self.view, self.other = view, RunView.of(other)
        rows_here, rows_there = shared_rows(view.run, self.other.run)
        #: ``(nodes of the other run,)`` row of the same node in the run, -1 where it has none.
        self.here = np.full(self.other.num_nodes, -1, dtype=np.int64)
        self.here[rows_there] = rows_here
        # A map takes a while; one that is not there yet is replaced by the two main directions.
        known = read_map(self.other.run)
        self.layout = pca_map(self.other.run.embedding) if known is None else known

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """The two runs matched, on every level that both have."""
        if not self.view.num_levels or not self.other.num_levels:
            return []
        return compare_levels(self.view.run, self.other.run)

    def overview(self) -> dict[str, Any]:
        """Return what the page says about the other run before any of its nodes."""
        other = self.other
        levels = []
        for level in range(1, other.num_levels + 1):
            colors = self._colors(level)
            sizes, names = other.tree.sizes[level - 1], other.tree.names[level - 1]
            levels.append(
                [
                    {"name": n, "size": int(s), "color": c}
                    for n, s, c in zip(names, sizes, colors, strict=True)
                ]
            )
        return {
            "name": other.run.path.name,
            "numNodes": other.num_nodes,
            "numShared": int((self.here >= 0).sum()),
            "levels": levels,
            "moved": [int(part.moved.sum()) for part in self.comparisons],
            "agreement": [float(part.ari) for part in self.comparisons],
            "note": self.layout.note,
        }

    def _colors(self, level: int) -> list[str]:
        """Return a colour per group: that of its partner in the run, grey for those without."""
        colors = [UNKNOWN] * self.other.tree.group_counts[level - 1]
        if level > len(self.comparisons):
            return colors
        for group, partner in enumerate(self.comparisons[level - 1].partner.tolist()):
            if partner >= 0:
                colors[partner] = self.view.colors[level - 1][group]
        return colors

    def points(self, drawn: npt.NDArray[np.int64] | None = None) -> bytes:
        """Return the other run's nodes: place, groups, and the row of the same node in the run.

        Args:
            drawn: Rows of the run that the page holds, where it does not hold all of them.
        """
        other = self.other
        rows = np.arange(other.num_nodes)
        if drawn is not None:
            held = np.zeros(self.view.num_nodes, dtype=bool)
            held[drawn] = True
            is_held = (self.here >= 0) & held[np.maximum(self.here, 0)]
            rows = np.union1d(np.flatnonzero(is_held), np.flatnonzero(self.here < 0)[:_MOST_OTHERS])
        ids, _ = other.node_texts(rows)
        here = self.here[rows]
        label = np.where(here >= 0, self.view.label_codes[np.maximum(here, 0)], -1)
        columns: dict[str, Any] = {
            "here": here.astype(np.int32),
            "x": self.layout.xy[rows, 0],
            "y": self.layout.xy[rows, 1],
            "label": label.astype(np.int32),
            "id": ids,
        }
        for level, codes in enumerate(other.result.groups, 1):
            columns[f"group{level}"] = codes[rows]
        return pack(columns, {"total": other.num_nodes})

    def rows_of(self, kind: str, code: int) -> npt.NDArray[np.int64] | None:
        """Return rows of the run: those of a group of the other run, or those that moved.

        ``None`` if the kind is none of ours.
        """
        for prefix in (GROUP_KIND, MOVED_KIND):
            level = kind.removeprefix(prefix)
            if kind == level or not (level.isascii() and level.isdecimal() and len(level) < 3):
                continue
            at = int(level) - 1
            if prefix == GROUP_KIND and 0 <= at < self.other.num_levels:
                if 0 <= code < self.other.tree.group_counts[at]:
                    return self._here(self.other.result.groups[at] == code)
            elif prefix == MOVED_KIND and 0 <= at < len(self.comparisons) and code == 0:
                part = self.comparisons[at]
                return np.sort(part.rows_a[part.moved])
        return None

    def rows_inside(self, polygon: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return the rows of the run whose nodes lie inside a polygon of the other map."""
        is_inside = np.zeros(self.other.num_nodes, dtype=bool)
        is_inside[inside_polygon(self.layout.xy, polygon)] = True
        return self._here(is_inside)

    def _here(self, wanted: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        rows = self.here[wanted]
        return np.sort(rows[rows >= 0])


def read_new_nodes(view: RunView, path: str | Path) -> list[dict[str, Any]]:
    """Read nodes embedded after the fit: id, place on the map, groups and concentration.

    Args:
        view: The run that embedded them.
        path: What ``graphham embed RUN LINKS --new-only --map --out FILE`` wrote.

    Raises:
        InputError: The table has no ids or no places on the map.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"there is no file {file}; write it with graphham embed RUN LINKS --map")
    import pyarrow as pa

    try:
        if file.suffix.lower() == ".csv":
            import pyarrow.csv as csv

            table = csv.read_csv(file)
        else:
            import pyarrow.parquet as pq

            table = pq.read_table(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"cannot read {file}: {str(error).splitlines()[0]}") from None
    missing = [n for n in ("id", "map_x", "map_y") if n not in table.column_names]
    if missing:
        raise InputError(
            f"{file} has no column {', '.join(missing)}; write it with graphham embed RUN LINKS "
            f"--new-only --map --out {file.name}"
        )
    levels = [f"group_{level}" for level in range(1, view.num_levels + 1)]
    wanted = [n for n in (*levels, "concentration", "title") if n in table.column_names]
    rows = table.select(["id", "map_x", "map_y", *wanted]).slice(0, _MOST_NEW).to_pylist()
    known = {str(i) for i in view.run.nodes["id"].to_pylist()}
    return [_new_node(view, row, levels) for row in rows if str(row["id"]) not in known]


def _new_node(view: RunView, row: dict[str, Any], levels: list[str]) -> dict[str, Any]:
    groups = []
    for level, name in enumerate(levels):
        code = row.get(name)
        is_known = isinstance(code, int) and 0 <= code < view.tree.group_counts[level]
        groups.append(code if is_known else None)
    firm = row.get("concentration")
    return {
        "id": str(row["id"]),
        "title": str(row.get("title") or ""),
        "x": float(row["map_x"]),
        "y": float(row["map_y"]),
        "groups": groups,
        "firm": None if firm is None else float(firm),
    }
