"""The queries of the explorer's page about a run, without a web server.

Every response is a function of the run folder. Rows are ours and stay between page and server;
whatever a person sees or exports carries ids.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.explore.attention_columns import AttentionCache
from graphham.explore.binary_columns import pack
from graphham.explore.companions import Beside, read_new_nodes
from graphham.explore.selection import attribute_rows, read_polygon, selected_rows
from graphham.readout.neighbors import nearest_to
from graphham.report.contents import structure_sentence
from graphham.report.palette import BASE, CONCENTRATION_SCALE, UNKNOWN
from graphham.report.view import LEAST_BETWEEN, THIN_EVIDENCE, RunView
from graphham.results.describe import feature_name, features_of
from graphham.results.projection import NodeMap, pca_map, read_map, run_map
from graphham.results.run_folder import Run

if TYPE_CHECKING:
    import pyarrow as pa

    from graphham.graph.graph import Graph

# Beyond this many nodes the page holds a sample and a density instead of every node.
WHOLE = 150_000
SAMPLE = 40_000
_GRID = 192
NUM_NEAREST = 8
_EGO_NODES = 48
_MAX_HITS = 12
_FEATURES_SHOWN = 24
# Seconds for a page to draw before background work takes the processor.
_HEAD_START_SECONDS = 1.5


class Explorer:
    """A run and every query that the page may send about it.

    Args:
        run: The run, or its folder.
        graph: The graph, for runs that do not keep it.
        whole: Most nodes to send to the page one by one; ``WHOLE`` if not given.
        sample: Most nodes to send at once of a larger run; ``SAMPLE`` if not given.
        beside: Another run, to show beside this one.
        new: A table of nodes embedded after the fit, to show on the map.
    """

    def __init__(
        self,
        run: Run | str | Path,
        graph: Graph | None = None,
        whole: int | None = None,
        sample: int | None = None,
        beside: Run | str | Path | None = None,
        new: str | Path | None = None,
    ) -> None:
        self.view = RunView.of(run, graph)
        self.is_large = self.view.num_nodes > (WHOLE if whole is None else whole)
        self._sample = SAMPLE if sample is None else sample
        self.beside = None if beside is None else Beside(self.view, beside)
        self._new = [] if new is None else read_new_nodes(self.view, new)
        self.attention = AttentionCache(self.view)
        self._lock = threading.Lock()
        self._map_lock = threading.Lock()
        self._selected: npt.NDArray[np.int64] | None = None
        self._points_sent = threading.Event()
        self._stopped = threading.Event()
        known = read_map(self.view.run)
        self.map_is_final = known is not None
        # A map takes a while; until it is there, two main directions are better than nothing.
        self.layout: NodeMap = pca_map(self.view.run.embedding) if known is None else known

    def finish_map(self) -> None:
        """Make the real map; meant for a thread of its own."""
        with self._map_lock:
            if self.map_is_final:
                return
            try:
                made = run_map(self.view.run)
            except InputError:
                made = self.layout  # openTSNE is not installed: the first map stays
            self.layout, self.map_is_final = made, True

    def prepare_later(self) -> None:
        """Wait until a page has its first points, then :meth:`prepare`: showing comes first."""
        _ = self.view.result  # reading starts while the browser is still starting
        self._points_sent.wait()
        if not self._stopped.wait(_HEAD_START_SECONDS):
            self.prepare()

    def prepare(self) -> None:
        """Make what takes a while, so that later queries need not wait."""
        self.finish_map()
        if not self._stopped.is_set() and self.attention.is_quick:
            self.attention.layers()

    def stop(self) -> None:
        """Start no further work in the background."""
        self._stopped.set()
        self._points_sent.set()

    def overview(self) -> dict[str, Any]:
        """Return what the page needs before any node: groups, flows, labels, counts."""
        view = self.view
        run = view.run
        levels = [
            [self._group_info(g) for g in view.groups if g["level"] == level]
            for level in range(1, view.num_levels + 1)
        ]
        return {
            "name": view.name,
            "numNodes": view.num_nodes,
            "numEdges": int(run.summary.get("graph", {}).get("edges", 0)),
            "levels": levels,
            "flows": [view.tree.flows(i, i + 1).tolist() for i in range(1, view.num_levels)],
            "labels": [
                {"name": n, "color": c}
                for n, c in zip(view.label_names, view.label_colors, strict=True)
            ],
            "map": {"note": self.layout.note, "isFinal": self.map_is_final},
            "isLarge": self.is_large,
            "method": run.method,
            "firm": view.concentration_percentiles if view.result.memberships else None,
            "between": view.between_percentiles if view.result.memberships else None,
            "leastBetween": LEAST_BETWEEN,
            "thinEvidence": THIN_EVIDENCE if len(view.result.evidence) else None,
            "colors": {"unknown": UNKNOWN, "plain": BASE[0], "firm": CONCENTRATION_SCALE},
            "attentionNote": self.attention.unavailable_reason,
            "structureNote": structure_sentence(self.view).strip(),
            "nesting": run.summary.get("hierarchy", {}).get("nesting"),
            "beside": None if self.beside is None else self.beside.overview(),
            "newNodes": self._new,
        }

    def points(self) -> bytes:
        """Return the nodes to draw: all of them, or a sample of a large run."""
        rows = self.view.sample(self._sample if self.is_large else self.view.num_nodes)
        self._points_sent.set()
        return self._pack_nodes(rows, {"total": self.view.num_nodes})

    def beside_points(self) -> bytes:
        """Return the nodes of the run beside, for those that :meth:`points` sends."""
        if self.beside is None:
            raise InputError("there is no run beside this one; start explore with --beside")
        return self.beside.points(self.view.sample(self._sample) if self.is_large else None)

    def attribute_rows(self, kind: str, code: int) -> npt.NDArray[np.int64]:
        """Return the rows with an attribute; see :func:`graphham.explore.selection`."""
        rows = None if self.beside is None else self.beside.rows_of(kind, code)
        return attribute_rows(self.view, kind, code) if rows is None else rows

    def window(self, x0: float, x1: float, y0: float, y1: float) -> bytes:
        """Return the nodes of one part of the map, a sample of them if they are too many."""
        xy = self.layout.xy
        inside = (xy[:, 0] >= x0) & (xy[:, 0] <= x1) & (xy[:, 1] >= y0) & (xy[:, 1] <= y1)
        rows = np.flatnonzero(inside)
        total = len(rows)
        if total > self._sample:
            picked = np.random.default_rng([total, 43]).choice(total, self._sample, replace=False)
            rows = rows[np.sort(picked)]
        return self._pack_nodes(rows, {"total": total})

    def density(self) -> bytes:
        """Return how many nodes lie in each cell of a grid over the map."""
        xy = self.layout.xy
        low, high = xy.min(axis=0), xy.max(axis=0)
        ranges = [(float(low[0]), float(high[0])), (float(low[1]), float(high[1]))]
        counts, _, _ = np.histogram2d(xy[:, 1], xy[:, 0], bins=_GRID, range=ranges[::-1])
        meta = {"size": _GRID, "x": ranges[0], "y": ranges[1]}
        return pack({"counts": counts.astype(np.float32)}, meta)

    def node(self, row: int, wait: bool = True) -> dict[str, Any]:
        """Return one node: memberships, neighbours with both attentions, nearest nodes, ego.

        Args:
            row: The node's row.
            wait: Compute the attentions if they are not there yet; otherwise the response comes at
                once and says that they are pending.
        """
        view = self.view
        if not 0 <= row < view.num_nodes:
            raise InputError(f"there is no row {row}; rows are 0..{view.num_nodes - 1}")
        graph = view.graph
        near, similar = nearest_to(view.run.embedding, row, NUM_NEAREST)
        layers = []
        is_pending = not (self.attention.is_ready or wait)
        if is_pending and not self.attention.is_quick:
            self.attention.start()  # of a large graph only once somebody looks at a node
        for layer in [] if is_pending else self.attention.layers():
            part = slice(int(layer.indptr[row]), int(layer.indptr[row + 1]))
            top = np.argsort(-layer.weight[part], kind="stable")[:200]
            layers.append(
                {
                    "rows": layer.indices[part][top].tolist(),
                    "node": layer.node[part][top].tolist(),
                    "group": layer.group[part][top].tolist(),
                    "weight": layer.weight[part][top].tolist(),
                }
            )
        ego = self._ego(row, layers[0]["rows"] if layers else None)
        used = {row, *near.tolist(), *ego["rows"], *(r for v in layers for r in v["rows"])}
        return {
            "row": row,
            "memberships": [m[row].tolist() for m in view.result.memberships],
            "degree": None if graph is None else int(graph.degrees()[row]),
            "near": {"rows": near.tolist(), "similar": similar.tolist()},
            "layers": layers,
            "pending": is_pending,
            "features": [] if graph is None else features_of(graph, row)[:_FEATURES_SHOWN],
            "ego": ego,
            "info": self.node_info(sorted(used)),
        }

    def node_info(self, rows: list[int]) -> dict[str, list[Any]]:
        """Return id, title, groups, label and concentration of a few rows."""
        view = self.view
        ids, titles = view.node_texts(rows)
        picked = np.asarray(rows, dtype=np.int64)
        return {
            "row": [int(r) for r in rows],
            "id": ids,
            "title": titles,
            "groups": [g[picked].tolist() for g in view.result.groups],
            "label": view.label_codes[picked].tolist(),
            "firm": view.concentrations(picked),
            "between": view.numbers("between", picked),
            "evidence": view.numbers("evidence", picked),
            "x": [float(v) for v in self.layout.xy[picked, 0]],
            "y": [float(v) for v in self.layout.xy[picked, 1]],
        }

    def search(self, text: str) -> dict[str, Any]:
        """Find nodes by id or title, and labels and features by name."""
        import pyarrow.compute as pc

        query = text.strip()[:500]
        if not query:
            return {"nodes": self.node_info([]), "attributes": []}
        view = self.view
        ids = pc.cast(view.run.nodes["id"], "large_string")
        hits = np.flatnonzero(pc.match_substring(ids, query, ignore_case=True).to_numpy())[:5000]
        if len(hits):
            # The id itself first, then ids that begin with the text, then the shorter ones.
            start = query.casefold()
            texts = [str(t) for t in ids.take(hits).to_pylist()]
            rank = [(t != query, not t.casefold().startswith(start), len(t), t) for t in texts]
            hits = hits[sorted(range(len(rank)), key=lambda i: rank[i])]
        rows = hits[:_MAX_HITS].tolist()
        if len(rows) < _MAX_HITS and view.titles is not None:
            by_title = pc.match_substring(view.titles, query, ignore_case=True)
            extra = np.flatnonzero(pc.fill_null(by_title, False).to_numpy())
            rows += [int(r) for r in extra[: 2 * _MAX_HITS] if r not in set(rows)]
        return {"nodes": self.node_info(rows[:_MAX_HITS]), "attributes": self._attributes(query)}

    def selected_rows(self, request: Mapping[str, Any]) -> npt.NDArray[np.int64] | None:
        """Return the rows of a selection as the page names it; ``None`` for none."""
        if self.beside is not None:
            if request.get("besideLasso"):
                return self.beside.rows_inside(read_polygon(request["besideLasso"]))
            kind, _, code = str(request.get("attribute") or "")[:60].partition(":")
            rows = self.beside.rows_of(kind, int(code) if code.isdecimal() else -1)
            if rows is not None:
                return rows
        return selected_rows(self.view, self.layout.xy, request)

    def select(self, request: Mapping[str, Any]) -> int:
        """Keep the page's selection for :meth:`selection`; return how many nodes it has."""
        rows = self.selected_rows(request)
        self._selected = rows
        return 0 if rows is None else len(rows)

    def selection(self) -> pa.Table:
        """Return the table of the nodes selected in the page; no rows where none is."""
        none = np.zeros(0, dtype=np.int64)
        return self.table(none if self._selected is None else self._selected)

    def table(self, rows: npt.NDArray[Any]) -> pa.Table:
        """Return the run's node table for some rows, with map places and group names added."""
        import pyarrow as pa

        picked = np.asarray(rows, dtype=np.int64)
        if picked.size and not 0 <= int(picked.min()) <= int(picked.max()) < self.view.num_nodes:
            raise InputError("the selection names rows that the run does not have")
        table = self.view.run.nodes.take(pa.array(picked))
        for level in range(1, self.view.num_levels + 1):
            names = pa.array(self.view.tree.names[level - 1], type=pa.string())
            named = names.take(table[f"group_{level}"].combine_chunks())
            table = table.append_column(f"group_name_{level}", named)
        for column, name in enumerate(("map_x", "map_y")):
            table = table.append_column(name, pa.array(self.layout.xy[picked, column].copy()))
        return table

    def rename(self, level: int, group: int, name: str) -> dict[str, Any]:
        """Give a group another name, kept in the run; return the new overview."""
        with self._lock:
            self.view = self.view.rename_group(level, group, name)
        return self.overview()

    def _pack_nodes(self, rows: npt.NDArray[Any], meta: dict[str, Any]) -> bytes:
        view, xy = self.view, self.layout.xy
        ids, titles = view.node_texts(rows)
        columns: dict[str, Any] = {
            "row": rows.astype(np.uint32),
            "x": xy[rows, 0],
            "y": xy[rows, 1],
            "label": view.label_codes[rows],
            "id": ids,
        }
        for level, codes in enumerate(view.result.groups, 1):
            columns[f"group{level}"] = codes[rows]
        if view.result.memberships:
            columns["firm"] = view.result.concentration[rows]
            columns["between"] = view.result.between[rows]
        if len(view.result.evidence):
            columns["evidence"] = view.result.evidence[rows]
        if view.titles is not None:
            columns["title"] = titles
        return pack(columns, {**meta, "isFinal": self.map_is_final, "note": self.layout.note})

    def _group_info(self, g: dict[str, Any]) -> dict[str, Any]:
        level, group = g["level"], g["group"]
        return {
            "name": g["name"],
            "size": g["size"],
            "share": g["share"],
            "parent": g["parent"],
            "color": self.view.colors[level - 1][group],
            "features": [
                {"name": f["feature"], "lift": float(f["lift"]), "share": float(f["share"])}
                for f in g["typical_features"] or []
            ],
            "typical": self._node_links(g["typical_nodes"]),
            "boundary": self._node_links(g["boundary_nodes"]),
            "label": None if g["dominant_label"] is None else str(g["dominant_label"]),
            "purity": g["purity"],
        }

    def _node_links(self, ids: list[Any]) -> list[dict[str, Any]]:
        rows = self.view.result.ids.find(ids).tolist() if ids else []
        return [{"row": r, "id": str(i)} for r, i in zip(rows, ids, strict=True)]

    def _ego(self, row: int, ranked: list[int] | None) -> dict[str, Any]:
        graph = self.view.graph
        if graph is None:
            return {"rows": [], "edges": []}
        around = graph.neighbors(row).tolist() if ranked is None else ranked
        rows = [row, *[int(r) for r in around if r != row][:_EGO_NODES]]
        place = {r: i for i, r in enumerate(rows)}
        edges = []
        for i, one in enumerate(rows):
            edges += [
                [i, place[other]]
                for other in graph.neighbors(one)[:20_000].tolist()
                if other in place and (graph.directed or i < place[other])
            ]
        return {"rows": rows, "edges": edges, "total": len(around)}

    def _attributes(self, query: str) -> list[dict[str, Any]]:
        text, view = query.casefold(), self.view
        hits: list[dict[str, Any]] = [
            {"kind": "label", "code": code, "name": name}
            for code, name in enumerate(view.label_names)
            if text in name.casefold()
        ][:5]
        graph = view.graph
        if graph is not None:
            names = ((code, feature_name(graph, code)) for code in range(graph.num_features))
            features = [(len(name), name, code) for code, name in names if text in name.casefold()]
            hits += [
                {"kind": "feature", "code": code, "name": name}
                for _, name, code in sorted(features)[:8]
            ]
        for hit in hits:
            hit["count"] = len(attribute_rows(view, hit["kind"], hit["code"]))
        return hits
