"""``graphham report``: everything about a run in one HTML file that needs no network."""

from __future__ import annotations

import base64
import hashlib
import json
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphham.errors import InputError
from graphham.report.findings import (
    attention_finding,
    boundary_finding,
    confusion_finding,
    flow_finding,
    kind_of,
    labels_finding,
    levels_finding,
    map_finding,
    training_finding,
    tree_finding,
)
from graphham.report.plotlyjs import figure_tools, plotly_source
from graphham.report.safe_text import need, one_line
from graphham.report.view import RunView
from graphham.results.agreement import accuracy
from graphham.results.run_folder import DERIVED
from graphham.results.unpacked_run import is_unpacked
from graphham.system.atomic import replacing
from graphham.version import __version__

if TYPE_CHECKING:
    from graphham.graph.graph import Graph
    from graphham.report.maps import ColorBy
    from graphham.results.run_folder import Run

REPORT_FILE = DERIVED[2]


def write_report(
    run: Run | RunView | str | Path, out: str | Path | None = None, graph: Graph | None = None
) -> Path:
    """Write the report of a run as one self-contained HTML file and return its path.

    Args:
        run: A finished run, or its folder.
        out: File to write. If not given ``report.html`` in the run folder, replacing an older one,
            or ``NAME-report.html`` in the current folder where the run cannot be written to.
        graph: The graph of the run, for runs that do not keep it.

    Raises:
        InputError: ``out`` exists already, or a package of the ``view`` extra is missing.
    """
    need("plotly", "the report")
    need("jinja2", "the report")
    view = RunView.of(run, graph)
    path = view.run.path / REPORT_FILE if out is None else Path(out)
    page = report_page(view)
    if out is None and (is_unpacked(path.parent) or not _is_writable(path.parent)):
        path = Path(f"{view.run.path.resolve().name}-report.html")
    write_page(page, path, may_replace=out is None and path.parent == view.run.path)
    return path


def _is_writable(folder: Path) -> bool:
    """Whether files can be made in a folder: one may be read-only, or lie on such a disk."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def write_page(page: str, path: Path, may_replace: bool) -> None:
    """Write a page whole or not at all; replace a file only if ``may_replace``."""
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
    from graphham.report import contents

    drawn, findings, maps = _pictures(view)
    boundary = contents.boundary_rows(view)
    if boundary:
        findings["boundary"] = boundary_finding(view)
    sections = [
        ("map", "Map" if not view.num_levels else "Map and tree"),
        *([("groups", "Groups")] if view.num_levels else []),
        *([("labels", "Labels and groups")] if "labels" in drawn else []),
        *([("levels", "Levels")] if "levels" in drawn else []),
        *([("classes", "Predictions")] if "confusion" in drawn else []),
        *([("boundary", "Between groups")] if boundary else []),
        *([("attention", "Attention")] if "attention" in drawn else []),
        *([("training", "Training")] if "training" in drawn else []),
        ("details", "Details"),
    ]
    summary = view.run.summary
    return render_page(
        "report.html",
        drawn,
        view.hover_texts,
        title=f"{one_line(view.name)} – graphham",
        view_name=one_line(view.name),
        lead=contents.lead(view),
        status=summary.get("status"),
        notes=[str(n) for n in summary.get("notes", [])],
        sections=sections,
        tiles=contents.headline_tiles(view),
        maps=maps,
        findings=findings,
        map_note=view.layout.note,
        shown=len(view.drawn_rows),
        nodes=view.num_nodes,
        between=int(view.is_boundary.sum()) if view.result.memberships else 0,
        groups=contents.group_rows(view),
        has_labels=bool(view.label_names),
        group_kind=kind_of(view, min(2, view.num_levels)) if view.num_levels else "",
        label_use="trained on" if view.run.config.get("task") == "classify" else "never trained on",
        boundary=boundary,
        has_memberships=bool(view.result.memberships),
        facts=contents.facts(view),
        numbers=contents.numbers(view),
        config=(view.run.path / "config.toml").read_text("utf-8"),
    )


def _pictures(view: RunView) -> tuple[dict[str, Any], dict[str, str], list[tuple[str, str]]]:
    """Return the figures, what each shows on this run, and the maps: figure and what colours it."""
    from graphham.report import figures

    colors: list[tuple[str, str, ColorBy]] = [
        (f"map{level}", f"{kind_of(view, level)}s", level)
        for level in range(view.num_levels, 0, -1)
    ]
    if view.label_names:
        colors.append(("map-label", "labels", "label"))
    if view.result.memberships:
        colors.append(("map-firm", "concentration", "concentration"))
    if not colors:
        colors.append(("map-plain", "nodes", "nothing"))
    # Beside the tree, which has the same colours and all names, a legend would say them twice.
    drawn = {i: figures.node_map(view, c, legend=isinstance(c, str)) for i, _, c in colors}
    said = {i: map_finding(view, c) for i, _, c in colors}

    def add(name: str, figure: Any, finding: str) -> None:
        drawn[name], said[name] = figure, finding

    if view.num_levels:
        add("tree", figures.group_tree(view), tree_finding(view))
    if view.num_levels > 1 and not view.nests_exactly:
        # Of levels that nest exactly both would show the tree again, and nothing else.
        add("flow", figures.merge_flow(view), flow_finding(view))
        add("levels", figures.level_heatmap(view), levels_finding(view))
    if view.label_names and view.num_levels:
        level = min(2, view.num_levels)
        add("labels", figures.label_heatmap(view, level), labels_finding(view, level))
    known, prediction = view.result.labels, view.result.prediction
    if known is not None and prediction is not None and accuracy(known, prediction) is not None:
        add("confusion", figures.confusion_heatmap(view), confusion_finding(view))
    if view.result.attention_gap:
        add("attention", figures.attention_histogram(view), attention_finding(view))
    if sum(isinstance(r.get("epoch"), int) for r in view.run.metrics) > 1:  # a line needs two
        add("training", figures.training_curves(view), training_finding(view))
    return drawn, said, [(i, name) for i, name, _ in colors]


def render_page(template: str, drawn: dict[str, Any], texts: list[str], **values: Any) -> str:
    """Fill a template; every value is escaped and only our own two scripts may run.

    Args:
        template: Name of the template.
        drawn: Plotly figures by the name that the template gives their places.
        texts: Texts that traces of several figures share.
        **values: What the template shows.
    """
    import jinja2

    folder = files("graphham.report") / "templates"
    sources = {f.name: f.read_text("utf-8") for f in folder.iterdir() if f.name.endswith(".html")}
    environment = jinja2.Environment(
        loader=jinja2.DictLoader(sources), autoescape=True, undefined=jinja2.StrictUndefined
    )
    tools = figure_tools().replace("\nexport function ", "\nfunction ")
    own = f'"use strict";\n{tools}{(folder / "report.js").read_text("utf-8")}'
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
        version=__version__,
        css=(folder / "report.css").read_text("utf-8"),
        figures=script_json({k: _plain_figure(f, texts) for k, f in drawn.items()}),
        texts=script_json(texts),
        plotly=plotly,
        script=own,
        ids=set(drawn),
        **values,
    )


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
