"""``graphham embed`` and ``graphham export``: carry a fitted run to new nodes and other tools."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphham.cli.options import (
    NO_OPTIONS,
    GraphArgument,
    GraphOptions,
    open_graph,
    refuse_existing,
    takes_options,
)
from graphham.errors import InputError
from graphham.results.formats import FORMATS, format_of

if TYPE_CHECKING:
    import pyarrow as pa

RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="A finished run folder (the --out of an earlier fit), or a zip of it."
    ),
]
_ADVICE = "give another --out or remove it first"


@takes_options("labels")
def embed(
    run: RunArgument,
    graph: GraphArgument,
    out: Annotated[
        str, typer.Option("--out", metavar="FILE", help="Table to write: .parquet or .csv.")
    ],
    options: GraphOptions = NO_OPTIONS,
    with_map: Annotated[
        bool,
        typer.Option("--map", help="Add map_x and map_y: each node's place on the run's map."),
    ] = False,
    new_only: Annotated[
        bool,
        typer.Option(
            "--new-only",
            help="GRAPH and --features hold new nodes alone, linked to ids of the run: they are "
            "joined to the run's graph, and only they are written.",
        ),
    ] = False,
) -> None:
    """Give vectors and memberships to the nodes of any graph, without refitting.

    The nodes need not have been seen in training; they need the same features. Methods without
    memberships give vectors only, and where a method cannot place new nodes it says so.

    Examples:
      graphham embed runs/cora new_edges.csv --features new_nodes.parquet --out new.parquet
      graphham embed runs/cora links.csv --features new_nodes.csv --new-only --out new.csv
    """
    path = Path(out)
    form = format_of(path)
    if form not in ("parquet", "csv"):
        raise InputError(f"--out {out} ends in neither .parquet nor .csv; name the file so")
    refuse_existing(path, _ADVICE)

    from graphham.cli.fit import read_and_report
    from graphham.methods.registry import load_method
    from graphham.results.node_columns import node_columns
    from graphham.results.run_folder import Run
    from graphham.system.atomic import creating
    from graphham.system.console import Screen

    screen = Screen()
    method = load_method(run)
    if new_only:
        # The table describes new nodes, so it is read once these are known.
        links = read_and_report(screen, graph, replace(options, features=None, drop=None))
        found = method.read_new(links, options.features, options.id_column)
    else:
        found = method.read(read_and_report(screen, graph, options))
    opened = Run.open(run)
    names = opened.hierarchy.names if opened.has_groups else ()
    table = node_columns(found, names, is_flat=form == "csv")
    if with_map:
        import pyarrow as pa

        from graphham.results.projection import place_on_map

        places = place_on_map(opened, found.embedding)
        for column, name in enumerate(("map_x", "map_y")):
            table = table.append_column(name, pa.array(places[:, column].copy()))
    with creating(path) as temporary:
        _write(table, temporary, form)
    what = "vectors and memberships" if found.memberships else "vectors"
    screen.say("Wrote", f"{path}: {what} of {found.num_nodes:,} nodes")


def _write(table: pa.Table, path: Path, form: str) -> None:
    if form == "csv":
        import pyarrow.csv as csv

        csv.write_csv(table, path)
    else:
        import pyarrow.parquet as pq

        pq.write_table(table, path, compression="zstd")


@takes_options()
def export(
    run: RunArgument,
    out: Annotated[
        str, typer.Option("--out", metavar="FILE", help="File to write; it must not exist.")
    ],
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="|".join(FORMATS),
            help="Taken from the file's name if not given (.txt and .vec: word2vec, .npz: pyg).",
        ),
    ] = None,
    graph: Annotated[
        str | None,
        typer.Option(
            "--graph",
            metavar="GRAPH",
            help="The graph, for graphml, pyg and edges, where the run does not hold it.",
        ),
    ] = None,
    options: GraphOptions = NO_OPTIONS,
) -> None:
    """Write a run in the format of another tool.

    Examples:
      graphham export runs/cora --format word2vec --out cora.txt
      graphham export runs/cora --format graphml --out cora.graphml
      graphham export runs/cora --format edges --out links.parquet
    """
    path = Path(out)
    chosen = form or format_of(path)
    if chosen is None:
        raise InputError(f"the name {out} does not tell the format; give --format")
    refuse_existing(path, _ADVICE)

    from graphham.results.export import export_run
    from graphham.results.run_folder import Run
    from graphham.system.console import Screen

    screen = Screen()
    opened = Run.open(run)
    nodes = None
    if graph is not None:
        nodes = open_graph(graph, options)
    written = export_run(opened, path, chosen, nodes)
    screen.say("Wrote", f"{written.path} ({written.format})")
    for note in written.notes:
        screen.remark(note)
