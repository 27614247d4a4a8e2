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
from graphham.report.plotlyjs import figure_tools, plotly_source
from graphham.report.safe_text import need, one_line
from graphham.report.view import BOUNDARY_PERCENT, RunView
from graphham.results.agreement import accuracy
from graphham.results.run_folder import DERIVED
from graphham.results.unpacked_run import is_unpacked
from graphham.system.atomic import replacing
from graphham.version import __version__

if TYPE_CHECKING:
    from graphham.graph.graph import Graph
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
    from graphham.report import contents, figures

    maps: list[tuple[str, str, Any]] = []
    for level in range(1, view.num_levels + 1):
        kind = "fine groups" if level == 1 else "coarse groups"
        maps.append((f"map{level}", f"Coloured by level {level}: {kind}", level))
    if view.label_names:
        maps.append(("map-label", "Coloured by label", "label"))
    if view.result.memberships:
        maps.append(("map-firm", "Coloured by concentration (orange: undecided)", "concentration"))
    if not maps:
        maps.append(("map-plain", "All nodes", "nothing"))
    drawn = {id_: figures.node_map(view, color) for id_, _, color in maps}
    if view.num_levels:
        drawn["tree"] = figures.group_tree(view)
    if view.num_levels > 1 and not view.nests_exactly:
        # Of levels that nest exactly both would show the tree again, and nothing else.
        drawn["flow"] = figures.merge_flow(view)
        drawn["levels"] = figures.level_heatmap(view)
    if view.label_names and view.num_levels:
        drawn["labels"] = figures.label_heatmap(view)
    known, said = view.result.labels, view.result.prediction
    right = None if known is None or said is None else accuracy(known, said)
    if right is not None:
        drawn["confusion"] = figures.confusion_heatmap(view)
    if view.result.attention_gap:
        drawn["attention"] = figures.attention_histogram(view)
    if sum(isinstance(r.get("epoch"), int) for r in view.run.metrics) > 1:  # a line needs two
        drawn["training"] = figures.training_curves(view)
    boundary = contents.boundary_rows(view)
    sections = [
        ("map", "Map"),
        *([("groups", "Groups")] if view.num_levels else []),
        *([("agreement", "Levels and labels")] if {"levels", "labels"} & drawn.keys() else []),
        *([("classes", "Predictions")] if "confusion" in drawn else []),
        *([("boundary", "Between groups")] if boundary else []),
        *([("training", "Training")] if {"attention", "training"} & drawn.keys() else []),
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
        maps=[(id_, caption) for id_, caption, _ in maps],
        map_note=view.layout.note,
        boundary_share=f"{BOUNDARY_PERCENT}%",
        shown=len(view.drawn_rows),
        nodes=view.num_nodes,
        groups=contents.group_rows(view),
        has_labels=bool(view.label_names),
        label_use="trained on" if view.run.config.get("task") == "classify" else "never trained on",
        right="" if right is None else f"{right:.1%}",
        boundary=boundary,
        has_memberships=bool(view.result.memberships),
        facts=contents.facts(view),
        numbers=contents.numbers(view),
        config=(view.run.path / "config.toml").read_text("utf-8"),
    )


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
