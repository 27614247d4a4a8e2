"""``graphham fit``: a graph in, a run folder out."""

from __future__ import annotations

import functools
import io
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from graphham.cli.failures import StoppedError
from graphham.cli.fit_settings import (
    NO_FLAGS,
    Flags,
    Settings,
    check_begun,
    model_option,
    wanted_fit,
)
from graphham.cli.options import (
    NO_OPTIONS,
    GraphArgument,
    GraphOptions,
    QuietOption,
    open_graph,
    option,
    takes_options,
)
from graphham.errors import InputError

if TYPE_CHECKING:
    from graphham.graph.graph import Graph
    from graphham.methods.base import Method
    from graphham.results.run_folder import Run
    from graphham.results.tracking import Tracker
    from graphham.system.console import Screen

_CONFIG_HELP = "Settings as TOML, such as the config.toml of another run; flags win over it."
_SET_HELP = "Any other setting, such as train.lr=0.005; may be repeated."
_run_option = functools.partial(option, "The run folder")


@takes_options()
def fit(
    graph: GraphArgument,
    out: Annotated[
        str | None,
        _run_option("--out", "Folder to write; runs/NAME if not given. It must not exist.", "RUN"),
    ] = None,
    method: Annotated[
        str | None,
        model_option(
            "--method",
            "Another method than GraphHAM, such as asp2vec; 'graphham methods' lists them.",
            "NAME",
        ),
    ] = None,
    options: GraphOptions = NO_OPTIONS,
    flags: Flags = NO_FLAGS,
    config: Annotated[str | None, model_option("--config", _CONFIG_HELP, "FILE")] = None,
    settings: Annotated[list[str] | None, model_option("--set", _SET_HELP, "NAME=VALUE")] = None,
    resume: Annotated[
        bool, _run_option("--resume", "Continue a run that was stopped or killed.")
    ] = False,
    overwrite: Annotated[
        bool, _run_option("--overwrite", "Replace a run of that name once the new one is finished.")
    ] = False,
    track: Annotated[
        str | None,
        _run_option(
            "--track",
            "Also tell TensorBoard (events beside the run, or in FOLDER) or MLflow how it goes.",
            "tensorboard[:FOLDER]|mlflow[:ADDRESS]",
        ),
    ] = None,
    quiet: QuietOption = False,
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
    wanted = wanted_fit(method, config, settings or [], flags, resume)
    # Refused before the graph is read: that may take minutes.
    if out is not None:
        _check_place(Path(out), resume, overwrite, wanted.given)

    from graphham.cli.processes import die_with_parent, is_child, is_first, run_processes

    if flags.processes is not None and flags.processes > 1 and not is_child():
        run_processes(flags.processes, sys.argv[1:])
        return
    die_with_parent()
    from graphham.system.console import Screen

    screen = Screen(quiet) if is_first() else Screen(True, io.StringIO())
    opened = read_and_report(screen, graph, options, parts=wanted.is_graphham)
    name = opened.name or "graph"
    usual = Path("runs") / (name if wanted.is_graphham else f"{name}-{wanted.name}")
    place = usual if out is None else Path(out)
    _check_place(place, resume, overwrite, wanted.given)
    how: dict[str, Any] = {"task": wanted.task, "resume": resume, "overwrite": overwrite}
    if track is not None and is_first():
        from graphham.results.tracking import make_tracker

        how["tracker"] = make_tracker(track, place)
    run = fit_and_report(screen, wanted.make(), opened, place, **how)
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
    tracker: Tracker | None = None,
    **how: Any,
) -> Run:
    """Fit, show the progress, and say what came out and where it is.

    Args:
        screen: Where it is said.
        method: What to fit.
        graph: The graph.
        out: The run folder.
        tracker: Who else hears about progress.
        **how: What else :meth:`~graphham.methods.base.Method.fit_to_run` takes.
    """
    from graphham.cli.processes import joined_job
    from graphham.results.tracking import Listeners
    from graphham.system.console import TrainingProgress, clock, group_lines

    begin = time.monotonic()
    device = str(getattr(method, "device", "cpu"))
    with joined_job(device) as ranks, TrainingProgress(screen) as progress:
        heard: Any = progress if tracker is None else Listeners(progress, tracker)
        try:
            run = method.fit_to_run(graph, out, listener=heard, ranks=ranks, **how)
        finally:
            if tracker is not None:
                tracker.close()
    if run.has_groups:
        screen.say("Groups", group_lines(run.summary["hierarchy"]))
    if run.config.get("task") == "classify":
        screen.say("Classes", class_lines(run))
    files = sorted({*run.summary["files"], "summary.json"})
    half = (len(files) + 1) // 2
    is_old = how.get("resume") and not progress.has_begun
    screen.say(
        "Finished" if is_old else "Wrote",
        [
            f"{run.path} before, so there was nothing to resume"
            if is_old
            else f"{run.path} in {clock(time.monotonic() - begin)}",
            "  ".join(files[:half]),
            "  ".join(files[half:]),
        ],
    )
    return run


def class_lines(run: Run) -> list[str]:
    """Say how many labels are predicted right, on nodes held out and on all that have one."""
    from graphham.results.agreement import accuracy

    found, held_out = run.result(), run.summary["training"]["validation"]
    if found.labels is None or found.prediction is None:
        return []
    what = "micro-F1" if found.labels.is_multi else "accuracy"
    lines = [] if held_out is None else [f"{what} {held_out:.1%} on the validation nodes"]
    whole = accuracy(found.labels, found.prediction)
    if whole is not None:
        count = int(found.labels.known.sum())
        lines.append(f"{what} {whole:.1%} on all {count:,} labelled nodes, trained on or not")
    return lines


def _check_place(out: Path, resume: bool, overwrite: bool, given: list[Settings]) -> None:
    if resume:
        check_begun(out, given)
        return
    from graphham.results.run_places import check_place

    check_place(out, overwrite)
