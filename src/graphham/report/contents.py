"""The report's words and numbers, and which table each number comes from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from graphham.report.safe_text import one_line
from graphham.report.view import THIN_EVIDENCE, RunView
from graphham.results.describe import boundary_table

_TOP_FEATURES, _TOP_NODES, _TOP_BOUNDARY = 5, 5, 15


def anchor(source: str) -> str:
    """Return the name of the place on the page where a number's row stands."""
    return "n-" + source.replace(".", "-").replace("_", "-")


def numbers(view: RunView) -> list[dict[str, str]]:
    """Return every number of the run's summary as a row: where it stands and what it is."""
    rows = []

    def visit(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                visit(f"{name}.{key}" if name else str(key), inner)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            text = f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
            row = {"name": one_line(name), "value": text, "file": "summary.json"}
            rows.append({**row, "anchor": anchor(name)})

    for part in ("graph", "hierarchy", "training", "cost"):
        visit(part, view.run.summary.get(part))
    if not view.result.memberships:
        return rows
    for name, value in (
        ("concentration.mean", view.mean_concentration),
        ("between.bar", view.boundary_bar),
        ("between.nodes", int(view.is_boundary.sum())),
        ("evidence.thin_nodes", int(view.is_thin.sum())),
    ):
        file = f"nodes.parquet, {name.partition('.')[0]}"
        row = {"name": name, "value": f"{value:.6g}", "file": file}
        rows.append({**row, "anchor": anchor(name)})
    return rows


def lead(view: RunView) -> str:
    """Return what was fitted, how many groups came out, and whether the graph has any at all."""
    graph = view.run.summary.get("graph", {})
    parts = f"{graph.get('nodes', view.num_nodes):,} nodes and {graph.get('edges', 0):,} edges"
    if graph.get("features"):
        parts += f" with {graph['features']:,} features"
    name = view.run.method
    reader = "GraphHAM" if name == "graphham" else f"The method {name}"
    if not view.num_levels:
        return f"{reader} read {parts} and gave every node {view.run.embedding.shape[1]} numbers."
    levels = " inside ".join(
        f"{count} {'fine' if i == 0 else 'coarse'} groups"
        for i, count in enumerate(view.tree.groups_in_use)
    )
    return f"{reader} read {parts} and made {levels}.{structure_sentence(view)}"


def structure_sentence(view: RunView) -> str:
    """Return a further sentence where a search said whether the graph has groups, or nothing."""
    structure = view.run.summary.get("structure", {})
    if structure.get("found") is None:
        return ""
    said = str(structure["sentence"])
    return f" {said[:1].upper()}{said[1:]}."


def headline_tiles(view: RunView) -> list[dict[str, str]]:
    """Return the headline numbers: what they mean, and the row of the table they come from."""
    metrics: dict[str, Any] = view.run.summary.get("hierarchy", {})
    tiles: list[dict[str, str]] = []

    def add(name: str, value: str, meaning: str, source: str) -> None:
        tiles.append({"name": name, "value": value, "meaning": meaning, "source": anchor(source)})

    if view.num_levels:
        used = [str(count) for count in view.tree.groups_in_use]
        meaning = "Groups in use: those that at least one node is shown in."
        add("groups, fine › coarse", " › ".join(used), meaning, "hierarchy.used_1")
    largest = metrics.get(f"largest_share_{view.num_levels}")
    if largest is not None:
        add(
            "largest coarse group",
            f"{largest:.0%}",
            "Near 100% would mean that groups collapsed.",
            f"hierarchy.largest_share_{view.num_levels}",
        )
    if view.result.memberships:
        count = int(view.is_boundary.sum())
        meaning = f"Nodes with two strong memberships: a score of {view.boundary_bar:.2f} or more."
        add("nodes between groups", f"{count:,}", meaning, "between.nodes")
    if len(view.result.evidence):
        meaning = f"Few links and features: evidence below {THIN_EVIDENCE:g} of 1."
        add("too little to say", f"{int(view.is_thin.sum()):,}", meaning, "evidence.thin_nodes")
    top = view.num_levels
    if metrics.get(f"nmi_{top}") is not None:
        add(
            "agreement with labels",
            f"{metrics[f'nmi_{top}']:.2f}",
            "Normalised mutual information of coarse groups and labels: 0 by chance, 1 the same. "
            f"Purity {metrics[f'label_purity_{top}']:.0%}.",
            f"hierarchy.nmi_{top}",
        )
    validation = view.run.summary.get("training", {}).get("validation")
    if validation is not None:
        meaning = "On nodes or links held out from training."
        add("validation score", f"{validation:.3f}", meaning, "training.validation")
    cost = view.run.summary.get("cost", {})
    if cost.get("seconds") is not None:
        memory = cost.get("peak_memory_bytes") or 0
        peak = f"Peak memory {memory / 2**30:.2f} GiB."
        add("time", _duration(cost["seconds"]), peak, "cost.seconds")
    return tiles


def group_rows(view: RunView) -> list[dict[str, Any]]:
    """Return the groups in tree order, coarse ones first, each with what the table shows."""
    rows: list[dict[str, Any]] = []

    def largest_first(level: int, groups: Iterable[int]) -> list[int]:
        return sorted(groups, key=lambda g: -int(view.tree.sizes[level - 1][g]))

    def visit(level: int, group: int, above: int = -1) -> None:
        g = view.group_records[level, group]
        titles = g.get("typical_titles") or [None] * len(g["typical_nodes"])
        label = "–"
        if g["dominant_label"] is not None:
            label = f"{one_line(g['dominant_label'], 40)} ({g['purity']:.0%})"
        features = (g["typical_features"] or [])[:_TOP_FEATURES]
        rows.append(
            {
                "key": f"{level}-{group}",
                "parent": "" if level == view.num_levels else f"{level + 1}-{above}",
                "depth": view.num_levels - level,
                "children": len(view.tree.children(level, group)) if level > 1 else 0,
                "name": one_line(g["name"]),
                "color": view.colors[level - 1][group],
                "size": g["size"],
                "share": f"{g['share']:.1%}",
                "label": label,
                "purity": g["purity"] or 0.0,
                "features": [f"{one_line(f['feature'], 40)} ×{f['lift']:.1f}" for f in features],
                "typical": [
                    {"id": one_line(n, 60), "title": one_line(t, 120) if t else ""}
                    for n, t in zip(g["typical_nodes"], titles, strict=True)
                ][:_TOP_NODES],
                "boundary": [one_line(n, 60) for n in g["boundary_nodes"]][:_TOP_NODES],
            }
        )
        for child in largest_first(level - 1, view.tree.children(level, group)):
            visit(level - 1, child, group)

    if not view.num_levels:
        return []
    for group in largest_first(view.num_levels, range(view.tree.group_counts[-1])):
        visit(view.num_levels, group)
    return rows


def boundary_rows(view: RunView) -> list[dict[str, Any]]:
    """Return the nodes between two groups, and which two."""
    if not view.result.memberships or max(view.tree.group_counts) == 1:
        return []
    boundary = boundary_table(view.result, _TOP_BOUNDARY).to_pylist()
    _, titles = view.node_texts(view.result.ids.find([row["id"] for row in boundary]))
    rows = []
    for row, title in zip(boundary, titles, strict=True):
        names = view.tree.names[row["level"] - 1]
        first, second = row["first_group"], row["second_group"]
        rows.append(
            {
                "id": one_line(row["id"], 60),
                "title": one_line(title, 100) if title else "",
                "firm": f"{row['between']:.2f}",
                "level": row["level"],
                "first": f"{one_line(names[first])} ({row['first_membership']:.0%})",
                "second": "–"
                if second is None
                else f"{one_line(names[second])} ({row['second_membership']:.0%})",
            }
        )
    return rows


def facts(view: RunView) -> list[tuple[str, str]]:
    """Return what repeats the run and what it cost."""
    summary = view.run.summary
    training, cost = summary.get("training", {}), summary.get("cost", {})
    graph, config = summary.get("graph", {}), view.run.config
    pairs = [
        ("Run folder", view.run.path.name),
        ("Graph", f"{one_line(graph.get('name'))}, fingerprint {graph.get('fingerprint')}"),
        ("Method", one_line(view.run.method)),
        ("Task", ", preset ".join(str(c) for k in ("task", "preset") if (c := config.get(k)))),
        ("Seed", str(config.get("seed"))),
    ]
    if training.get("epochs") is not None:
        best = training.get("best_epoch")
        epochs = str(training["epochs"])
        pairs.append(("Epochs", epochs if best is None else f"{epochs}, best {best}"))
    if cost.get("seconds") is not None:
        memory = (cost.get("peak_memory_bytes") or 0) / 2**30
        pairs.append(("Cost", f"{_duration(cost['seconds'])}, {memory:.2f} GiB at most"))
    versions = summary.get("versions")
    if versions:
        pairs.append(("Versions", ", ".join(f"{k} {v}" for k, v in versions.items())))
    return pairs


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
