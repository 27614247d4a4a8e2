"""``graphham report``: everything about a run in one HTML file that needs no network."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import graphham
from graphham.atomic import replacing
from graphham.describe import boundary_table
from graphham.errors import InputError
from graphham.report.text import need, one_line
from graphham.report.view import BOUNDARY_SHARE, RunView
from graphham.saved import DERIVED

if TYPE_CHECKING:
    from graphham.graph import Graph
    from graphham.saved import Run

REPORT_FILE = DERIVED[2]
_TOP_FEATURES, _TOP_NODES, _TOP_BOUNDARY = 5, 5, 15


def write_report(
    run: Run | RunView | str | Path, out: str | Path | None = None, graph: Graph | None = None
) -> Path:
    """Write the report of a run as one self-contained HTML file and return its path.

    Args:
        run: A finished run, or its folder.
        out: File to write; ``report.html`` in the run folder, replacing an older one, if not given.
        graph: The graph of the run, for runs that do not keep it.

    Raises:
        InputError: ``out`` exists already, or a package of the ``view`` extra is missing.
    """
    need("plotly", "the report")
    need("jinja2", "the report")
    view = RunView.of(run, graph)
    path = view.run.path / REPORT_FILE if out is None else Path(out)
    page = report_page(view)
    write_page(page, path, may_replace=out is None)
    return path


def write_page(page: str, path: Path, may_replace: bool) -> None:
    """Write a page whole or not at all; refuse to replace a file unless told."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file such as {path / 'report.html'}")
    if not may_replace and (path.exists() or path.is_symlink()):
        raise InputError(f"{path} exists already; give another --out or remove it first")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_bytes(page.encode("utf-8", errors="replace"))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; choose another --out") from None


def report_page(view: RunView) -> str:
    """Return the text of the report."""
    from graphham.report import figures

    maps: list[tuple[str, str, Any]] = []
    for level in range(1, view.num_levels + 1):
        kind = "fine groups" if level == 1 else "coarse groups"
        maps.append((f"map{level}", f"Coloured by level {level}: {kind}", level))
    if view.label_names:
        maps.append(("map-label", "Coloured by label", "label"))
    maps.append(("map-firm", "Coloured by concentration (dark: undecided)", "concentration"))
    drawn = {id_: figures.node_map(view, color) for id_, _, color in maps}
    drawn["tree"] = figures.group_tree(view)
    if view.num_levels > 1:
        drawn["flow"] = figures.merge_flow(view)
        drawn["levels"] = figures.level_heatmap(view)
    if view.label_names:
        drawn["labels"] = figures.label_heatmap(view)
    if view.result.attention_gap:
        drawn["attention"] = figures.attention_histogram(view)
    if any(isinstance(r.get("epoch"), int) for r in view.run.metrics):
        drawn["training"] = figures.training_curves(view)
    rows = view.sample(figures.MAX_POINTS)
    sections = [
        ("map", "Map"),
        ("groups", "Groups"),
        *([("agreement", "Levels and labels")] if {"levels", "labels"} & drawn.keys() else []),
        ("boundary", "Between groups"),
        ("training", "Training"),
        ("details", "Details"),
    ]
    summary = view.run.summary
    return render_page(
        "report.html",
        drawn,
        figures.hover_texts(view, rows),
        title=f"{one_line(view.name)} – graphham",
        view_name=one_line(view.name),
        lead=_lead(view),
        status=summary.get("status"),
        notes=[str(n) for n in summary.get("notes", [])],
        sections=sections,
        tiles=_tiles(view),
        maps=[(id_, caption) for id_, caption, _ in maps],
        map_note=view.layout.note,
        boundary_share=f"{BOUNDARY_SHARE:.0%}",
        shown=len(rows),
        nodes=view.num_nodes,
        groups=_group_rows(view),
        has_labels=bool(view.label_names),
        label_use="trained on" if view.run.config.get("task") == "classify" else "never trained on",
        boundary=_boundary_rows(view),
        facts=_facts(view),
        config=(view.run.path / "config.toml").read_text("utf-8"),
    )


def render_page(
    template: str, drawn: dict[str, Any], texts: list[str], script: str = "report.js", **values: Any
) -> str:
    """Fill a template; every value is escaped and only our own two scripts may run.

    Args:
        template: Name of the template.
        drawn: Plotly figures by the name that the template gives their places.
        texts: Texts that traces of several figures share.
        script: The page's own script, run after plotly.
        **values: What the template shows.
    """
    import jinja2

    folder = files("graphham.report") / "templates"
    sources = {f.name: f.read_text("utf-8") for f in folder.iterdir() if f.name.endswith(".html")}
    environment = jinja2.Environment(
        loader=jinja2.DictLoader(sources), autoescape=True, undefined=jinja2.StrictUndefined
    )
    own = (folder / script).read_text("utf-8")
    plotly = plotly_source()
    # Hashes instead of 'unsafe-inline': text that slipped through as markup still would not run.
    # 'unsafe-eval' is for plotly's WebGL points, whose library compiles its own draw calls.
    allowed = " ".join(f"'sha256-{_hash(text)}'" for text in (plotly, own))
    policy = (
        f"default-src 'none'; script-src {allowed} 'unsafe-eval'; style-src 'unsafe-inline'; "
        f"img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return environment.get_template(template).render(
        policy=policy,
        version=graphham.__version__,
        css=(folder / "report.css").read_text("utf-8"),
        figures=script_json({k: _plain_figure(f, texts) for k, f in drawn.items()}),
        texts=script_json(texts),
        plotly=plotly,
        script=own,
        ids=set(drawn),
        **values,
    )


def plotly_source() -> str:
    """Return plotly.js as the installed package brings it, fit to stand inside a page."""
    # The file itself: importing plotly for it takes longer than reading it.
    spec = importlib.util.find_spec("plotly")
    folders = [] if spec is None else spec.submodule_search_locations or []
    found = [
        f for f in (Path(p) / "package_data" / "plotly.min.js" for p in folders) if f.is_file()
    ]
    if not found:
        raise InputError("the installed plotly has no plotly.min.js; pip install 'graphham[view]'")
    source = found[0].read_text("utf-8")
    return source.replace("\r\n", "\n").replace("</script", "<\\/script")


def script_json(value: Any) -> str:
    """Return JSON that can stand inside a script element, whatever text it holds."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode()


def _plain_figure(figure: Any, texts: list[str]) -> Any:
    """Turn a figure into JSON values; texts that figures share become numbers."""
    plain = json.loads(figure.to_json())
    plain["layout"].pop("template", None)
    place: dict[str, int] = {}
    for trace in plain["data"]:
        if trace.get("type") != "scattergl" or not trace.get("text"):
            continue
        if not place:
            place = {text: i for i, text in enumerate(texts)}
        if all(t in place for t in trace["text"]):
            rows = [place[t] for t in trace.pop("text")]
            trace["meta"] = {**(trace.get("meta") or {}), "rows": rows}
    return plain


def _lead(view: RunView) -> str:
    graph = view.run.summary.get("graph", {})
    parts = f"{graph.get('nodes', view.num_nodes):,} nodes and {graph.get('edges', 0):,} edges"
    if graph.get("features"):
        parts += f" with {graph['features']:,} features"
    tree = view.tree
    levels = " inside ".join(
        f"{int((s > 0).sum())} {'fine' if i == 0 else 'coarse'} groups"
        for i, s in enumerate(tree.sizes)
    )
    return f"GraphHAM read {parts} and found {levels}."


def _tiles(view: RunView) -> list[dict[str, str]]:
    metrics: dict[str, Any] = view.run.summary.get("hierarchy", {})
    tiles = []

    def add(name: str, value: str, meaning: str) -> None:
        tiles.append({"name": name, "value": value, "meaning": meaning})

    counts = " › ".join(f"{metrics.get(f'used_{i}', 0)}" for i in range(1, view.num_levels + 1))
    add("groups, fine › coarse", counts, "Groups that hold at least 1% of the nodes.")
    largest = metrics.get(f"largest_share_{view.num_levels}")
    if largest is not None:
        add("largest coarse group", f"{largest:.0%}", "Near 100% would mean that groups collapsed.")
    seen = metrics.get("nesting_evidence")
    if seen is not None:
        add(
            "nesting",
            f"{seen:.3f}",
            "How much of the coarse level the fine level tells when each layer speaks for itself; "
            f"1 is a perfect tree. Along the tree's paths: {metrics['nesting']:.3f}.",
        )
    bar = view.boundary_bar
    mean = float(np.mean(view.result.concentration)) if view.num_nodes else 0.0
    add(
        "mean concentration",
        f"{mean:.3f}",
        f"How firmly nodes commit to one group; boundary nodes lie below {bar:.3f}.",
    )
    top = view.num_levels
    if metrics.get(f"nmi_{top}") is not None:
        add(
            "agreement with labels",
            f"{metrics[f'nmi_{top}']:.2f}",
            "Normalised mutual information of coarse groups and labels: 0 by chance, 1 the same. "
            f"Purity {metrics[f'label_purity_{top}']:.0%}.",
        )
    validation = view.run.summary.get("training", {}).get("validation")
    if validation is not None:
        add("validation score", f"{validation:.3f}", "On nodes or links held out from training.")
    cost = view.run.summary.get("cost", {})
    if cost.get("seconds") is not None:
        memory = cost.get("peak_memory_bytes") or 0
        add("time", _duration(cost["seconds"]), f"Peak memory {memory / 2**30:.2f} GiB.")
    return tiles


def _group_rows(view: RunView) -> list[dict[str, Any]]:
    """Return the groups in tree order, coarse ones first, each with what the table shows."""
    records = {(g["level"], g["group"]): g for g in view.groups}
    rows: list[dict[str, Any]] = []

    def visit(level: int, group: int) -> None:
        g = records[level, group]
        titles = g.get("typical_titles") or [None] * len(g["typical_nodes"])
        label = "–"
        if g["dominant_label"] is not None:
            label = f"{one_line(g['dominant_label'], 40)} ({g['purity']:.0%})"
        features = (g["typical_features"] or [])[:_TOP_FEATURES]
        rows.append(
            {
                "depth": view.num_levels - level,
                "name": one_line(g["name"]),
                "color": view.colors[level - 1][group],
                "size": g["size"],
                "share": f"{g['share']:.1%}",
                "label": label,
                "features": [f"{one_line(f['feature'], 40)} ×{f['lift']:.1f}" for f in features],
                "typical": [
                    {"id": one_line(n, 60), "title": one_line(t, 120) if t else ""}
                    for n, t in zip(g["typical_nodes"], titles, strict=True)
                ][:_TOP_NODES],
                "boundary": [one_line(n, 60) for n in g["boundary_nodes"]][:_TOP_NODES],
            }
        )
        for child in sorted(view.tree.children(level, group), key=lambda c: -_size(view, level, c)):
            visit(level - 1, child)

    top = view.num_levels
    for group in sorted(range(view.tree.group_counts[-1]), key=lambda g: -_size(view, top + 1, g)):
        visit(top, group)
    return rows


def _size(view: RunView, level_above: int, group: int) -> int:
    return int(view.tree.sizes[level_above - 2][group])


def _boundary_rows(view: RunView) -> list[dict[str, Any]]:
    if all(count == 1 for count in view.tree.group_counts):
        return []
    found = boundary_table(view.result, _TOP_BOUNDARY).to_pylist()
    rows = []
    order = np.argsort(view.result.concentration, kind="stable")[: len(found)]
    _, titles = view.node_texts(order)
    for row, title in zip(found, titles, strict=True):
        names = view.tree.names[row["level"] - 1]
        first, second = row["first_group"], row["second_group"]
        rows.append(
            {
                "id": one_line(row["id"], 60),
                "title": one_line(title, 100) if title else "",
                "firm": f"{row['concentration']:.4f}",
                "level": row["level"],
                "first": f"{one_line(names[first])} ({row['first_membership']:.0%})",
                "second": "–"
                if second is None
                else f"{one_line(names[second])} ({row['second_membership']:.0%})",
            }
        )
    return rows


def _facts(view: RunView) -> list[tuple[str, str]]:
    summary = view.run.summary
    training, cost = summary.get("training", {}), summary.get("cost", {})
    graph = summary.get("graph", {})
    facts = [
        ("Run folder", view.run.path.name),
        ("Graph", f"{one_line(graph.get('name'))}, fingerprint {graph.get('fingerprint')}"),
        ("Task", f"{view.run.config.get('task')}, preset {view.run.config.get('preset')}"),
        ("Seed", str(view.run.config.get("seed"))),
        ("Epochs", f"{training.get('epochs')}, best {training.get('best_epoch')}"),
    ]
    if cost.get("seconds") is not None:
        memory = (cost.get("peak_memory_bytes") or 0) / 2**30
        facts.append(("Cost", f"{_duration(cost['seconds'])}, {memory:.2f} GiB at most"))
    versions = summary.get("versions", {})
    facts.append(("Versions", ", ".join(f"{k} {v}" for k, v in versions.items())))
    facts.append(("Tables", "nodes.parquet, groups.parquet, embedding.npy in the run folder"))
    return facts


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
