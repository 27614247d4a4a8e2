"""``graphham fit``: a graph in, a run folder out."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphham.cli.failures import StoppedError
from graphham.cli.fit_settings import Flags, Settings, check_begun, wanted_fit
from graphham.cli.options import (
    NO_OPTIONS,
    GraphArgument,
    GraphOptions,
    open_graph,
    takes_graph_options,
)
from graphham.errors import InputError

if TYPE_CHECKING:
    from graphham.graph.graph import Graph
    from graphham.methods.base import Method
    from graphham.results.run_folder import Run
    from graphham.system.console import Screen

_RUN = "The run folder"
_MODEL = "Model and training"


@takes_graph_options()
def fit(
    graph: GraphArgument,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="RUN",
            rich_help_panel=_RUN,
            help="Folder to write; runs/NAME if not given. It must not exist.",
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            metavar="embed|classify",
            rich_help_panel=_MODEL,
            help="embed never trains on labels; classify trains on them and predicts all nodes.",
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            metavar="NAME",
            rich_help_panel=_MODEL,
            help="Another method than GraphHAM, such as asp2vec; 'graphham methods' lists them.",
        ),
    ] = None,
    options: GraphOptions = NO_OPTIONS,
    groups: Annotated[
        str | None,
        typer.Option(
            "--groups",
            metavar="12,5",
            rich_help_panel=_MODEL,
            help="Groups per level, fine to coarse; chosen from the graph if not given.",
        ),
    ] = None,
    dim: Annotated[
        int | None,
        typer.Option(
            "--dim", rich_help_panel=_MODEL, help="Width of the embedding (128), all layers."
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option("--epochs", rich_help_panel=_MODEL, help="Passes over the nodes.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", rich_help_panel=_MODEL, help="Every draw follows it.")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset",
            metavar="default|paper",
            rich_help_panel=_MODEL,
            help="The best settings we know, or the paper's as literally as they train.",
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            metavar="FILE",
            rich_help_panel=_MODEL,
            help="Settings as TOML, such as the config.toml of another run; flags win over it.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            rich_help_panel=_MODEL,
            help="Any other setting, such as train.lr=0.005; may be repeated.",
        ),
    ] = None,
    tree: Annotated[
        str | None,
        typer.Option(
            "--tree",
            metavar="FILE",
            rich_help_panel=_MODEL,
            help="Tree for gne and spacene: nested JSON, or an edge list of 'parent child' lines.",
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", rich_help_panel=_MODEL, help="cpu, cuda, cuda:1, ...")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            rich_help_panel=_MODEL,
            help="Threads that prepare batches; the result does not depend on it.",
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes",
            min=1,
            rich_help_panel=_MODEL,
            help="Processes that share a sampled fit; the result depends on train.shards alone.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", rich_help_panel=_RUN, help="Continue a run that was stopped or killed."
        ),
    ] = False,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            rich_help_panel=_RUN,
            help="Replace a run of that name once the new one is finished.",
        ),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print remarks and errors only.")
    ] = False,
) -> None:
    """Fit GraphHAM, or another method, to a graph and write a run folder.

    Examples:
      graphham fit cora --out runs/cora
      graphham fit edges.csv --features nodes.parquet --labels nodes.parquet:topic
      graphham fit cora --task classify --groups 12,5 --seed 1 --out runs/classes
      graphham fit cora --method asp2vec --set aspects=3 --out runs/aspects
      graphham fit edges.csv --method gne --tree tree.json --out runs/spheres
    """
    if resume and overwrite:
        raise InputError("--resume continues a run and --overwrite replaces it; give one of them")
    flags = Flags(
        task=task,
        groups=groups,
        dim=dim,
        epochs=epochs,
        seed=seed,
        preset=preset,
        tree=tree,
        device=device,
        workers=workers,
        processes=processes,
        resume=resume or None,
    )
    wanted = wanted_fit(method, config, settings or [], flags)
    # Refused before the graph is read: that may take minutes.
    if out is not None:
        _check_place(Path(out), resume, overwrite, wanted.given)

    from graphham.cli.processes import die_with_parent, is_child, is_first, run_processes

    if processes is not None and processes > 1 and not is_child():
        run_processes(processes, sys.argv[1:])
        return
    die_with_parent()
    from graphham.system.console import Screen

    screen = Screen(quiet) if is_first() else Screen(True, io.StringIO())
    opened = read_and_report(screen, graph, options, parts=wanted.is_graphham)
    name = opened.name or "graph"
    usual = Path("runs") / (name if wanted.is_graphham else f"{name}-{wanted.name}")
    place = usual if out is None else Path(out)
    _check_place(place, resume, overwrite, wanted.given)
    run = fit_and_report(
        screen, wanted.make(), opened, place, task=wanted.task, resume=resume, overwrite=overwrite
    )
    if run.summary.get("status") == "interrupted":
        screen.remark(
            f"stopped early, so {run.path} holds the best state so far; "
            f"'graphham fit {graph} --out {run.path} --resume' continues"
        )
        raise StoppedError
    screen.say(
        "Next",
        [
            f"graphham report {run.path}",
            f"graphham explore {run.path}",
            f"graphham export {run.path} --format csv --out vectors.csv",
            f"python: import graphham as gh; model = gh.load({str(run.path)!r})",
        ],
    )


def read_and_report(
    screen: Screen, source: str, options: GraphOptions, parts: bool = False
) -> Graph:
    """Open a graph and say what was seen and how long it took."""
    from graphham.io import describe

    begin = time.monotonic()
    graph = open_graph(source, options, parts)
    first, *rest = describe(graph.report, graph)
    seconds = time.monotonic() - begin
    screen.say("Reading", [f"{source}: {first}  ({seconds:.1f} s)", *rest])
    return graph


def fit_and_report(
    screen: Screen,
    method: Method,
    graph: Graph,
    out: Path,
    *,
    task: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> Run:
    """Fit, show the progress, and say what came out and where it is."""
    from graphham.cli.processes import joined_job
    from graphham.system.console import TrainingProgress, clock, group_lines

    begin = time.monotonic()
    device = str(getattr(method, "device", "cpu"))
    with joined_job(device) as ranks, TrainingProgress(screen) as progress:
        run = method.fit_to_run(
            graph,
            out,
            task=task,
            resume=resume,
            overwrite=overwrite,
            listener=progress,
            ranks=ranks,
        )
    if run.has_groups:
        screen.say("Groups", group_lines(run.summary["hierarchy"]))
    validation = run.summary["training"]["validation"]
    if run.config.get("task") == "classify" and validation is not None:
        screen.say("Classes", f"right on {validation:.1%} of the validation nodes")
    files = sorted({*run.summary["files"], "summary.json"})
    half = (len(files) + 1) // 2
    screen.say(
        "Wrote",
        [
            f"{run.path} in {clock(time.monotonic() - begin)}",
            "  ".join(files[:half]),
            "  ".join(files[half:]),
        ],
    )
    return run


def _check_place(out: Path, resume: bool, overwrite: bool, given: list[Settings]) -> None:
    if resume:
        check_begun(out, given)
        return
    from graphham.results.run_places import check_place

    check_place(out, overwrite)
