"""A run as the tables of GraphRAG: entities, relationships, communities and their reports.

Levels are counted as there: 0 is the coarsest. Reports are put together from typical features and
nodes; no language model is asked.
"""

from __future__ import annotations

import datetime
import json
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.io.writer import edge_weights

if TYPE_CHECKING:
    import pyarrow as pa

    from graphham.graph.graph import Graph
    from graphham.results.run_folder import Run

_SPACE = uuid.UUID("6f1d8f6e-5a39-5d0c-9a53-3f0b7c1d2e4a")  # of the ids made here
_NO_PARENT = -1


def write_graphrag(
    run: Run, path: Path, graph: Graph | None, own: str | Path | None = None
) -> list[str]:
    """Write the four tables into a folder.

    Args:
        run: A run with groups.
        path: The folder, which exists and is empty.
        graph: The graph of the run.
        own: Folder with the ``entities.parquet`` and ``relationships.parquet`` that GraphRAG made,
            if the graph came from there: their ids are used, and these two tables are not written.
    """
    import pyarrow.parquet as pq

    assert graph is not None
    tables, notes = graphrag_tables(run, graph, own)
    for name, table in tables.items():
        pq.write_table(table, path / f"{name}.parquet")
    return notes


def graphrag_tables(
    run: Run, graph: Graph, own: str | Path | None = None
) -> tuple[dict[str, pa.Table], list[str]]:
    """Return the tables by name, and notes; see :func:`write_graphrag`."""
    if not run.has_groups:
        raise InputError(
            f"the method {run.method} finds no groups, so there are no communities; fit graphham"
        )
    edges = graph.edge_list()
    made: dict[str, pa.Table] = {}
    notes: list[str] = []
    if own is None:
        entities, relationships = _entities(run, graph), _relationships(graph, edges)
        made = {"entities": entities, "relationships": relationships}
        ids = entities["id"].to_pylist(), relationships["id"].to_pylist()
    else:
        ids, notes = _own_ids(Path(own), graph, edges)
    communities = _communities(run, edges)
    day = datetime.date.fromtimestamp((run.path / "summary.json").stat().st_mtime).isoformat()
    made["communities"] = _community_table(communities, ids, day)
    made["community_reports"] = _report_table(run, graph, communities, day)
    notes.append(
        f"{len(communities):,} communities on {run.hierarchy.num_levels} levels, 0 the coarsest"
    )
    return made, notes


@dataclass(frozen=True, eq=False)
class _Community:
    """One group as GraphRAG sees it.

    Args:
        number: Unique over all levels, coarse ones first.
        depth: Level, 0 for the coarsest.
        level: Level as graphham counts, 1 for the finest.
        group: Its group there.
        parent: Number of the group above, or -1.
        children: Numbers of the groups below.
        members: Rows of its nodes.
        inside: Positions of the edges with both ends in it.
    """

    number: int
    depth: int
    level: int
    group: int
    parent: int
    children: list[int]
    members: npt.NDArray[np.int64]
    inside: npt.NDArray[np.int64]


def _communities(run: Run, edges: npt.NDArray[np.int64]) -> list[_Community]:
    tree, found = run.hierarchy, run.result()
    levels = range(tree.num_levels, 0, -1)
    used = [(level, g) for level in levels for g in np.flatnonzero(tree.sizes[level - 1]).tolist()]
    number = {key: i for i, key in enumerate(used)}
    parents = {
        (level, g): number.get((level + 1, int(tree.parents[level - 1][g])), _NO_PARENT)
        for level, g in used
        if level < tree.num_levels
    }
    children: dict[int, list[int]] = {}
    for key, parent in parents.items():
        children.setdefault(parent, []).append(number[key])
    made = []
    for level in levels:
        codes = found.groups[level - 1]
        members = _by_group(codes, np.arange(len(codes)))
        same = codes[edges[:, 0]] == codes[edges[:, 1]]
        inside = _by_group(codes[edges[same, 0]], np.flatnonzero(same))
        for group in (g for at, g in used if at == level):
            at = number[level, group]
            made.append(
                _Community(
                    at,
                    tree.num_levels - level,
                    level,
                    group,
                    parents.get((level, group), _NO_PARENT),
                    children.get(at, []),
                    members[group],
                    inside.get(group, np.zeros(0, np.int64)),
                )
            )
    return made


def _by_group(
    codes: npt.NDArray[Any], positions: npt.NDArray[np.int64]
) -> dict[int, npt.NDArray[np.int64]]:
    order = np.argsort(codes, kind="stable")
    groups, starts = np.unique(codes[order], return_index=True)
    parts = np.split(positions[order], starts[1:])
    return dict(zip(groups.tolist(), parts, strict=True))


def _entities(run: Run, graph: Graph) -> pa.Table:
    import pyarrow as pa

    names = [str(v) for v in graph.ids.tolist()]
    titles = list(graph.titles) if graph.titles is not None else [""] * len(names)
    labels = run.result().labels
    known = [None] * len(names) if labels is None else labels.values()
    kinds = [_kind(value) for value in known]
    return pa.table(
        {
            "id": [_id("entity", name) for name in names],
            "human_readable_id": pa.array(np.arange(len(names))),
            "title": names,
            "type": kinds,
            "description": [str(t) for t in titles],
            "text_unit_ids": _empty_lists(len(names)),
            "frequency": pa.array(np.ones(len(names), dtype=np.int64)),
            "degree": pa.array(graph.degrees()),
        }
    )


def _kind(label: Any) -> str:
    if label is None:
        return "node"
    return "; ".join(map(str, label)) if isinstance(label, list) else str(label)


def _relationships(graph: Graph, edges: npt.NDArray[np.int64]) -> pa.Table:
    import pyarrow as pa

    names = pa.array([str(v) for v in graph.ids.tolist()])
    source, target = (names.take(pa.array(edges[:, i])) for i in (0, 1))
    weights = np.ones(len(edges)) if graph.weights is None else edge_weights(graph)
    degrees = graph.degrees()
    pairs = zip(source.to_pylist(), target.to_pylist(), strict=True)
    return pa.table(
        {
            "id": [_id("relationship", f"{a}\x00{b}") for a, b in pairs],
            "human_readable_id": pa.array(np.arange(len(edges))),
            "source": source,
            "target": target,
            "description": [""] * len(edges),
            "weight": pa.array(weights.astype(np.float64)),
            "combined_degree": pa.array(degrees[edges[:, 0]] + degrees[edges[:, 1]]),
            "text_unit_ids": _empty_lists(len(edges)),
        }
    )


def _own_ids(
    folder: Path, graph: Graph, edges: npt.NDArray[np.int64]
) -> tuple[tuple[list[str | None], list[str | None]], list[str]]:
    """Return the ids that GraphRAG's own tables give to nodes and edges, ``None`` for none."""
    import pyarrow.parquet as pq

    for name in ("entities", "relationships"):
        if not (folder / f"{name}.parquet").is_file():
            raise InputError(f"{folder} has no {name}.parquet; give the output folder of GraphRAG")
    entities = pq.read_table(folder / "entities.parquet", columns=["id", "title"])
    by_title = dict(zip(*(entities[c].to_pylist() for c in ("title", "id")), strict=True))
    names = [str(v) for v in graph.ids.tolist()]
    nodes = [by_title.get(name) for name in names]
    links = pq.read_table(folder / "relationships.parquet", columns=["id", "source", "target"])
    by_ends: dict[frozenset[str], str] = {}
    for row in links.to_pylist():
        by_ends.setdefault(frozenset((row["source"], row["target"])), row["id"])
    found = [by_ends.get(frozenset((names[a], names[b]))) for a, b in edges.tolist()]
    lost = sum(v is None for v in nodes)
    notes = [f"{lost:,} nodes are not among GraphRAG's entities and were left out"] if lost else []
    return (nodes, found), notes


def _community_table(
    communities: list[_Community],
    ids: tuple[list[Any], list[Any]],
    day: str,
) -> pa.Table:
    import pyarrow as pa

    def chosen(values: list[Any], rows: npt.NDArray[np.int64]) -> list[str]:
        return [values[row] for row in rows.tolist() if values[row] is not None]

    texts = pa.list_(pa.string())
    return pa.table(
        {
            "id": [_id("community", str(c.number)) for c in communities],
            **_places(communities),
            "title": [f"Community {c.number}" for c in communities],
            "entity_ids": pa.array([chosen(ids[0], c.members) for c in communities], texts),
            "relationship_ids": pa.array([chosen(ids[1], c.inside) for c in communities], texts),
            "text_unit_ids": _empty_lists(len(communities)),
            "period": [day] * len(communities),
            "size": pa.array([len(c.members) for c in communities], pa.int64()),
        }
    )


def _places(communities: list[_Community]) -> dict[str, Any]:
    import pyarrow as pa

    numbers = pa.array([c.number for c in communities], pa.int64())
    return {
        "human_readable_id": numbers,
        "community": numbers,
        "level": pa.array([c.depth for c in communities], pa.int64()),
        "parent": pa.array([c.parent for c in communities], pa.int64()),
        "children": pa.array([c.children for c in communities], pa.list_(pa.int64())),
    }


def _report_table(run: Run, graph: Graph, communities: list[_Community], day: str) -> pa.Table:
    import pyarrow as pa

    described = {(g["level"], g["group"]): g for g in run.groups.to_pylist()}
    total = max(1, int(graph.degrees().sum()))
    reports = []
    for c in communities:
        share = float(graph.degrees()[c.members].sum()) / total
        below = [communities[number] for number in c.children]
        names = [described[d.level, d.group]["name"] for d in below]
        reports.append(_report(described[c.level, c.group], names, len(c.inside), share))
    finding = pa.struct([("summary", pa.string()), ("explanation", pa.string())])
    return pa.table(
        {
            "id": [_id("report", str(c.number)) for c in communities],
            **_places(communities),
            "title": [r["title"] for r in reports],
            "summary": [r["summary"] for r in reports],
            "full_content": [_markdown(r) for r in reports],
            "rank": pa.array([r["rating"] for r in reports], pa.float64()),
            "rating_explanation": [r["rating_explanation"] for r in reports],
            "findings": pa.array([r["findings"] for r in reports], pa.list_(finding)),
            "full_content_json": [json.dumps(r, ensure_ascii=False) for r in reports],
            "period": [day] * len(communities),
            "size": pa.array([len(c.members) for c in communities], pa.int64()),
        }
    )


def _report(group: dict[str, Any], children: list[str], links: int, share: float) -> dict[str, Any]:
    """Put a report together from what is typical of a group."""
    titles = group.get("typical_titles") or [None] * len(group["typical_nodes"])
    nodes = [
        f"{node} ({title})" if title else str(node)
        for node, title in zip(group["typical_nodes"], titles, strict=True)
    ]
    typical = group["typical_features"] or []
    features = [f"{f['feature']} ({f['lift']:.1f} times as often)" for f in typical]
    findings = [
        {"summary": summary, "explanation": ", ".join(map(str, values))}
        for summary, values in (
            ("What its members have more often than others", features),
            ("Its most typical members", nodes),
            ("Members that also belong elsewhere", list(group["boundary_nodes"])),
            ("The groups inside it", children),
        )
        if values
    ]
    if group["dominant_label"] is not None:
        told = f"{group['dominant_label']} ({group['purity']:.0%} of the labelled members)"
        findings.append({"summary": "Its most frequent label", "explanation": told})
    summary = f"{group['size']:,} members with {links:,} links among them"
    if features:
        summary += f", told apart by {', '.join(f['feature'] for f in typical[:5])}"
    if nodes:
        summary += f"; typical members are {', '.join(nodes[:3])}"
    return {
        "title": group["name"],
        "summary": f"{summary}.",
        "rating": round(10 * share, 3),
        "rating_explanation": "Ten times the share of all link ends that are in the group.",
        "findings": findings,
    }


def _markdown(report: dict[str, Any]) -> str:
    parts = [f"# {report['title']}", report["summary"]]
    parts += [f"## {f['summary']}\n\n{f['explanation']}" for f in report["findings"]]
    return "\n\n".join(parts)


def _id(kind: str, name: str) -> str:
    return str(uuid.uuid5(_SPACE, f"{kind}\x00{name}"))


def _empty_lists(count: int) -> Any:
    import pyarrow as pa

    return pa.array([[]] * count, pa.list_(pa.string()))
