"""``graphham ingest`` and ``graphham info``: stores of large graphs, and what a folder holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphham.cli.options import (
    DirectedOption,
    FeaturesOption,
    GraphArgument,
    GraphOptions,
    IdOption,
    IsolatedOption,
    LabelsOption,
    SourceOption,
    TargetOption,
    WeightOption,
    open_graph,
    refuse_existing,
)

if TYPE_CHECKING:
    from graphham.console import Screen


def ingest(
    graph: GraphArgument,
    out: Annotated[str, typer.Option("--out", metavar="STORE", help="Folder to write.")],
    features: FeaturesOption = None,
    labels: LabelsOption = None,
    id_column: IdOption = None,
    source: SourceOption = None,
    target: TargetOption = None,
    weight: WeightOption = None,
    directed: DirectedOption = False,
    isolated: IsolatedOption = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read the store back and compare every checksum.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing store.")
    ] = False,
) -> None:
    """Write a graph as a store: a folder that opens instantly and may exceed memory.

    Example:
      graphham ingest edges.csv.gz --features nodes.parquet --out stores/mine --verify
      graphham fit stores/mine --out runs/mine
    """
    place = Path(out)
    if not overwrite:
        refuse_existing(place, "give another --out or remove it first")

    from graphham.cli.fit import read_and_report
    from graphham.console import Screen
    from graphham.store import verify_store, write_store

    screen = Screen()
    options = GraphOptions(features, labels, id_column, source, target, weight, directed, isolated)
    written = write_store(read_and_report(screen, graph, options), place, overwrite)
    size = sum(file.stat().st_size for file in written.iterdir())
    screen.say("Wrote", f"{written}, {size:,} bytes")
    if verify:
        screen.say("Verified", f"{verify_store(written):,} bytes match their checksums")
    screen.say("Next", f"graphham fit {written} --out runs/{written.name}")


def info(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A run folder, a store, or any graph.")
    ],
) -> None:
    """Show what a run folder, a store or a graph file holds.

    Example:
      graphham info runs/cora
    """
    from graphham.console import Screen

    screen = Screen()
    folder = Path(path)
    partial = folder.with_name(f"{folder.name}.partial") if folder.name else folder
    if (folder / "summary.json").is_file() or (not folder.exists() and partial.is_dir()):
        _show_run(screen, folder)
        return
    from graphham.io import describe

    graph = open_graph(path, GraphOptions())
    screen.say("Graph", [f"{graph.name}", *describe(graph.report, graph)])


def _show_run(screen: Screen, folder: Path) -> None:
    from graphham.console import group_lines, tree_lines
    from graphham.saved import Run

    run = Run.open(folder)
    about = run.summary["graph"]
    status, config = run.summary["status"], run.config
    screen.say(
        "Run",
        [
            f"{run.path} ({status}), task {config.get('task', 'embed')}, seed "
            f"{config.get('seed', 0)}, made by graphham {run.summary['graphham_version']}",
            f"{about['name']}: {about['nodes']:,} nodes, {about['edges']:,} edges, "
            f"{about['features']:,} features",
        ],
    )
    screen.say("Groups", group_lines(run.summary["hierarchy"]))
    drop = [n for n in run.groups.column_names if n.startswith(("typical_", "boundary_"))]
    screen.say("Tree", tree_lines(run.groups.drop_columns(drop).to_pylist()))
