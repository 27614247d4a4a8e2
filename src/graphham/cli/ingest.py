"""``graphham ingest`` and ``graphham info``: stores of large graphs, and what a folder holds."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from graphham.cli.options import (
    NO_OPTIONS,
    GraphOptions,
    attach_tables,
    open_graph,
    refuse_existing,
    takes_options,
)
from graphham.errors import InputError

if TYPE_CHECKING:
    from rich.progress import Progress

    from graphham.system.console import Screen


_LINE_SECONDS = 5.0

GraphsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="GRAPH...",
        help="What graphham fit accepts, or several edge files (Parquet, CSV, TSV, text, .gz) "
        "that are read as one, in this order. A folder stands for its Parquet files.",
    ),
]


@takes_options("verify")
def ingest(
    graph: GraphsArgument,
    out: Annotated[str, typer.Option("--out", metavar="STORE", help="Folder to write.")],
    options: GraphOptions = NO_OPTIONS,
    memory_gib: Annotated[
        float,
        typer.Option(
            "--memory-gib",
            metavar="GIB",
            help="About how much memory to use for edge files, which may be larger than that; "
            "different ids must fit (up to 150 bytes each, plus their text).",
        ),
    ] = 4.0,
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
      graphham ingest part-0.parquet part-1.parquet --memory-gib 2 --out stores/large
      graphham fit stores/mine --out runs/mine
    """
    place = Path(out)
    if not overwrite:
        refuse_existing(place, "give another --out or --overwrite")

    from graphham.graph.store import refuse_taken, verify_store
    from graphham.system.console import Screen

    screen = Screen()
    refuse_taken(place.expanduser(), overwrite)
    written = _write(screen, graph, options, place.expanduser(), overwrite, memory_gib)
    size = sum(file.stat().st_size for file in written.iterdir())
    screen.say("Wrote", f"{written}, {size:,} bytes")
    if verify:
        screen.say("Verified", f"{verify_store(written):,} bytes match their checksums")
    screen.say("Next", f"graphham fit {written} --out runs/{written.name}")


def _write(
    screen: Screen,
    names: list[str],
    options: GraphOptions,
    place: Path,
    overwrite: bool,
    memory_gib: float,
) -> Path:
    """Read edge files by way of the disk they go to; open anything else as it is."""
    from graphham.cli.fit import read_and_report
    from graphham.graph.store import write_store

    if not memory_gib > 0:
        raise InputError(f"--memory-gib is {memory_gib}; it must be above 0")
    if len(names) == 1 and not _is_edges(names[0]):
        return write_store(read_and_report(screen, names[0], options), place, overwrite)
    from graphham.io import describe
    from graphham.io.edge_streams import EdgeColumns
    from graphham.io.files import unpacking_at_most
    from graphham.io.reader import expand_paths, read_edges
    from graphham.system.scratch import scratch_beside

    begin = time.monotonic()
    columns = EdgeColumns(
        options.source, options.target, options.weight, options.directed, options.skip_bad_rows
    )
    with scratch_beside(place) as scratch:
        with IngestProgress(screen) as progress, unpacking_at_most(options.max_unpacked):
            graph = read_edges(
                expand_paths(names),
                columns,
                scratch=scratch,
                memory_bytes=int(memory_gib * 2**30),
                progress=progress.show,
            )
        graph = attach_tables(graph, options)
        first, *rest = describe(graph.report, graph)
        seconds = time.monotonic() - begin
        assert graph.report is not None
        screen.say("Reading", [f"{graph.report.source}: {first}  ({seconds:.1f} s)", *rest])
        return write_store(graph, place, overwrite)


def _is_edges(name: str) -> bool:
    """Whether a name is an existing file, or a folder of Parquet files, and not a dataset."""
    from graphham.datasets import CATALOG

    path = Path(name).expanduser()
    if name in CATALOG:
        return False
    return path.is_file() or (path.is_dir() and any(path.glob("*.parquet")) and not _is_ours(path))


def _is_ours(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("store.json", "summary.json"))


class IngestProgress:
    """Shows how far reading is and how long the rest will take.

    On a terminal it is a bar, elsewhere a line every few seconds.

    Args:
        screen: Where to show it.
    """

    # Shares of the time, measured on 60 million rows of text ids.
    _PARTS: ClassVar[dict[str, float]] = {
        "Reading": 0.68,
        "Counting": 0.04,
        "Dealing": 0.15,
        "Sorting": 0.13,
    }

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._begin = self._printed = time.monotonic()
        self._bar: Progress | None = None

    def __enter__(self) -> IngestProgress:
        if self._screen.is_live:
            from rich.progress import BarColumn, Progress, TextColumn

            self._bar = Progress(
                TextColumn("[bold]{task.description:<10}[/bold]{task.percentage:>3.0f}%"),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[left]}", markup=False),
                console=self._screen.console,
                transient=True,
            )
            self._task = self._bar.add_task("Reading", total=1.0, left="")
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, stage: str, share: float) -> None:
        """Show that a share of a stage is done."""
        from graphham.system.console import clock

        stages = list(self._PARTS)
        before = sum(self._PARTS[name] for name in stages[: stages.index(stage)])
        done = before + self._PARTS[stage] * min(1.0, share)
        now = time.monotonic()
        spent = now - self._begin
        left = f"left {clock(spent / done * (1 - done) if spent > 1 else None)}"
        if self._bar is not None:
            self._bar.update(self._task, completed=done, description=stage, left=left)
        elif now - self._printed >= _LINE_SECONDS:
            self._printed = now
            self._screen.say(stage, f"{done:.0%} of the work done, {left}")


def split(
    store: Annotated[
        str, typer.Argument(metavar="STORE", help="A store that graphham ingest wrote.")
    ],
    parts: Annotated[
        int, typer.Option("--parts", min=2, help="Number of parts: one per process of the job.")
    ],
    out: Annotated[str, typer.Option("--out", metavar="FOLDER", help="Folder for the parts.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing folder of parts.")
    ] = False,
) -> None:
    """Cut a store into parts for machines that cannot hold all of it.

    Every part knows all ids and holds the neighbours and features of its own nodes; the rest of
    its files are holes that take no room. Copy part-0, part-1, ... to their machines with a tool
    that keeps holes, to the same place on each.

    Example:
      graphham split stores/big --parts 2 --out stores/halves
      graphham fit stores/halves --processes 2 --out runs/big
      rsync -a --sparse stores/halves/part-1 host:stores/halves/
    """
    from graphham.graph.store_parts import split_store
    from graphham.system.console import Screen

    screen = Screen()
    written = split_store(store, parts, out, overwrite)
    sizes = [
        sum(512 * file.stat().st_blocks for file in (written / f"part-{number}").iterdir())
        for number in range(parts)
    ]
    screen.say("Wrote", f"{written}, {parts} parts of up to {max(sizes):,} bytes on disk")
    screen.say("Next", f"graphham fit {written} --processes {parts} --out runs/{written.name}")


@takes_options("verify")
def info(
    path: Annotated[
        str,
        typer.Argument(metavar="PATH", help="A run folder or a zip of it, a store, or any graph."),
    ],
    options: GraphOptions = NO_OPTIONS,
) -> None:
    """Show what a run folder, a store or a graph file holds.

    Example:
      graphham info runs/cora
      graphham info edges.csv --features nodes.csv --skip-bad-rows
    """
    from graphham.system.console import Screen

    screen = Screen()
    folder = Path(path)
    partial = folder.with_name(f"{folder.name}.partial") if folder.name else folder
    zipped = folder.suffix.lower() == ".zip" and folder.is_file()
    if zipped or (folder / "summary.json").is_file() or (not folder.exists() and partial.is_dir()):
        if flags := options.as_flags():
            raise InputError(f"{path} is a run, which is shown as it is; leave out {flags}")
        _show_run(screen, folder)
        return
    from graphham.graph.store import holds_parts
    from graphham.io import describe

    if holds_parts(folder):
        from graphham.graph.store_parts import list_parts

        found = list_parts(folder)
        screen.say("Parts", [f"{name}: nodes {a:,} to {b - 1:,}" for name, a, b in found])
        return
    graph = open_graph(path, options)
    screen.say("Graph", [f"{graph.name}", *describe(graph.report, graph)])


def _show_run(screen: Screen, folder: Path) -> None:
    from graphham.results.run_folder import Run
    from graphham.system.console import group_lines, tree_lines

    run = Run.open(folder)
    about = run.summary["graph"]
    status, config = run.summary["status"], run.config
    screen.say(
        "Run",
        [
            f"{folder} ({status}), method {run.method}, task {config.get('task', 'embed')}, seed "
            f"{config.get('seed', 0)}, made by graphham {run.summary['graphham_version']}",
            f"{about['name']}: {about['nodes']:,} nodes, {about['edges']:,} edges, "
            f"{about['features']:,} features",
        ],
    )
    if not run.has_groups:
        screen.say("Vectors", f"{run.embedding.shape[1]} numbers per node; no groups")
        return
    screen.say("Groups", group_lines(run.summary["hierarchy"]))
    drop = [n for n in run.groups.column_names if n.startswith(("typical_", "boundary_"))]
    screen.say("Tree", tree_lines(run.groups.drop_columns(drop).to_pylist()))
