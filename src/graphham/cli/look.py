"""``graphham report``, ``explore``, ``compare``, ``neighbors``, ``names``, ``explain``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphham.cli.outputs import RunArgument
from graphham.errors import InputError

if TYPE_CHECKING:
    from graphham.graph.graph import Graph
    from graphham.results.result import FitResult

_GraphOption = Annotated[
    str | None,
    typer.Option(
        "--graph",
        metavar="GRAPH",
        help="The graph of the run, for runs that do not keep it because it is large.",
    ),
]


def report(
    run: RunArgument,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Page to write; RUN/report.html if not given and RUN can be written to.",
        ),
    ] = None,
) -> None:
    """Write everything about a run as one HTML page that needs no network.

    Example:
      graphham report runs/cora
    """
    from graphham.cli.options import refuse_existing
    from graphham.results.run_folder import Run
    from graphham.system.console import Screen

    if out is not None:
        refuse_existing(Path(out), "give another --out or remove it first")
    screen = Screen()
    opened = Run.open(run)
    from graphham.report.html import write_report

    path = write_report(opened, out)
    screen.say("Wrote", f"{path} ({path.stat().st_size / 1e6:.1f} MB); open it in any browser")


def explore(
    run: RunArgument,
    export: Annotated[
        str | None,
        typer.Option(
            "--export",
            metavar="FOLDER",
            help="Write a copy that works without a server, and stop.",
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port on 127.0.0.1; 0: a free one.")
    ] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address.")
    ] = False,
    no_token: Annotated[
        bool,
        typer.Option(
            "--no-token",
            help="Let every user and program of this machine in, without the token of the address.",
        ),
    ] = False,
    graph: _GraphOption = None,
    beside: Annotated[
        str | None,
        typer.Option(
            "--beside",
            metavar="RUN",
            help="Another run, on a map of its own: what is chosen in one is marked in both.",
        ),
    ] = None,
    new: Annotated[
        str | None,
        typer.Option(
            "--new",
            metavar="FILE",
            help="Nodes embedded after the fit, shown as new: what embed --new-only --map wrote.",
        ),
    ] = None,
) -> None:
    """Look at a run in the browser: map, hierarchy, nodes, groups and why they are there.

    Examples:
      graphham explore runs/cora
      graphham explore runs/new --beside runs/old
      graphham explore runs/cora --export cora-page
    """
    from graphham.system.console import Screen

    screen = Screen()
    given = _open_graph(graph)
    if export is not None:
        from graphham.explore.static_copy import export_static

        folder = export_static(run, export, given, beside, new)
        screen.say("Wrote", f"{folder}; open {folder / 'index.html'} in any browser")
        return
    if not (Path(run) / "summary.json").is_file():
        from graphham.results.run_folder import Run

        Run.open(run)  # says what is wrong; a run that looks right is read beside the server
    from graphham.explore.launch import serve

    def announce(address: str) -> None:
        screen.say("Explore", f"{address}   (Ctrl-C stops it)")

    serve(
        run,
        port=port,
        graph=given,
        open_browser=not no_browser,
        announce=announce,
        has_token=not no_token,
        beside=beside,
        new=new,
    )


def compare(
    run_a: Annotated[str, typer.Argument(metavar="RUN_A", help="A finished run folder.")],
    run_b: Annotated[str, typer.Argument(metavar="RUN_B", help="Another one.")],
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Page to write (.html), or the table of moved nodes (.csv, .parquet); nothing is "
            "written if not given.",
        ),
    ] = None,
    level: Annotated[
        int | None,
        typer.Option(
            "--level", min=1, help="Level to match groups on (1: fine); all if not given."
        ),
    ] = None,
) -> None:
    """Show how the groups of two runs map onto each other and which nodes moved.

    Where a run has no groups, the nearest nodes in both are compared instead.

    Example:
      graphham compare runs/a runs/b --out a-b.html
    """
    from graphham.cli.options import refuse_existing
    from graphham.results.run_folder import Run
    from graphham.system.console import Screen

    if out is not None:
        refuse_existing(Path(out), "give another --out or remove it first")
    screen = Screen()
    first, second = Run.open(run_a), Run.open(run_b)
    from graphham.report.run_comparison import write_comparison, write_moved
    from graphham.results.compare import compare_levels, compare_runs, comparison_lines

    if first.has_groups and second.has_groups:
        one = [] if level is None else [compare_runs(first, second, level)]
        parts = one or compare_levels(first, second)
        screen.say("Compare", comparison_lines(parts))
        if out is not None:
            screen.say("Wrote", str(write_comparison(parts, out)))
        return
    from graphham.results.compare_vectors import compare_vectors

    by_vectors = compare_vectors(first, second)
    screen.say("Compare", by_vectors.lines())
    if out is None:
        return
    if Path(out).suffix.lower() in (".html", ".htm"):
        screen.say("Page", "none without groups; --out FILE.csv lists whose neighbours changed")
    else:
        screen.say("Wrote", str(write_moved(by_vectors.moved_table(), Path(out))))


def neighbors(
    run: RunArgument,
    node: Annotated[
        str | None, typer.Argument(metavar="ID", help="The id of a node, as you wrote it.")
    ] = None,
    everybody: Annotated[
        bool,
        typer.Option("--all", help="Ask for every node, by an index; needs --out FILE.parquet."),
    ] = False,
    inside: Annotated[
        str | None,
        typer.Option(
            "--inside",
            metavar="GROUP",
            help="Only members of this group: LEVEL-GROUP, such as 2-5, or its name.",
        ),
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, help="How many to show.")] = 10,
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="FILE", help="Also write them: .csv or .parquet."),
    ] = None,
) -> None:
    """List the nodes most like one node, in the whole graph or inside one group.

    Examples:
      graphham neighbors runs/cora 31336
      graphham neighbors runs/cora 31336 --inside 2-5 --count 20
      graphham neighbors runs/cora --all --out near.parquet
    """
    from graphham.cli.options import refuse_existing
    from graphham.results.run_folder import Run
    from graphham.system.console import Screen

    if (node is None) != everybody or (everybody and (out is None or inside is not None)):
        raise InputError(
            "give the ID of one node, or --all with --out FILE.parquet (and without --inside)"
        )
    if out is not None:
        refuse_existing(Path(out), "give another --out or remove it first")
    opened = Run.open(run)
    if node is None:
        _write_all_neighbors(opened.result(), count, Path(str(out)))
        return
    from graphham.results.similar import similar_nodes

    titles = None
    if "title" in opened.nodes.column_names:
        titles = opened.nodes["title"].combine_chunks()
    tree = opened.hierarchy if opened.has_groups else None
    found = similar_nodes(opened.result(), tree, node, count, inside, titles)
    screen = Screen()
    lines = []
    for row in found.to_pylist():
        groups = " < ".join(str(v) for k, v in row.items() if k.startswith("group_"))
        title = f"  {row['title']}" if row.get("title") else ""
        lines.append(f"{row['similarity']:.3f}  {row['id']}{title}  {groups}".rstrip())
    screen.say("Nearest", lines or "none: the group has no other member")
    if out is not None:
        from graphham.report.run_comparison import write_moved

        screen.say("Wrote", str(write_moved(found, Path(out))))


def _write_all_neighbors(found: FitResult, count: int, out: Path) -> None:
    from graphham.report.run_comparison import write_moved
    from graphham.results.neighbor_index import NeighborIndex
    from graphham.system.console import Screen

    table = NeighborIndex(found).query(count=count)
    Screen().say("Wrote", f"{write_moved(table, out)}: {count} nearest of {len(found.ids):,} nodes")


def names(
    run: RunArgument,
    by_labels: Annotated[
        bool,
        typer.Option("--labels", help="Name groups after their most frequent labels; kept in RUN."),
    ] = False,
    usual: Annotated[
        bool,
        typer.Option("--usual", help="Bring back the names of the fit, but for those you gave."),
    ] = False,
    graph: _GraphOption = None,
) -> None:
    """Show the tree of groups by name, or name them after labels.

    Examples:
      graphham names runs/cora
      graphham names runs/cora --labels
    """
    from graphham.errors import InputError
    from graphham.results.run_folder import Run
    from graphham.results.run_names import name_run
    from graphham.system.console import Screen, tree_lines

    if by_labels and usual:
        raise InputError("--labels and --usual are two ways to name groups; give one of them")
    opened = Run.open(run)
    if by_labels or usual:
        opened = name_run(opened, _open_graph(graph), by_labels=by_labels)
    screen = Screen()
    screen.say("Groups", tree_lines(opened.groups.to_pylist()))


def explain(
    run: RunArgument,
    node: Annotated[str, typer.Argument(metavar="ID", help="The id of a node, as you wrote it.")],
    graph: _GraphOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print every number as JSON instead of lines.")
    ] = False,
) -> None:
    """Say why a node is in its groups: features, links and levels, in parts that add up.

    Examples:
      graphham explain runs/cora 31336
      graphham explain runs/cora 31336 --json
    """
    import json

    from graphham.errors import InputError
    from graphham.methods.registry import load_method

    method = load_method(run, _open_graph(graph))
    if not hasattr(method, "explain"):
        raise InputError(f"the method {method.name} has no explanations; fit graphham for them")
    said = method.explain(node)
    print(json.dumps(said.to_dict(), indent=2) if as_json else said)


def _open_graph(graph: str | None) -> Graph | None:
    if graph is None:
        return None
    from graphham.cli.options import GraphOptions, open_graph

    return open_graph(graph, GraphOptions())
