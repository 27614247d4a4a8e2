"""``graphham fit``: a graph in, a run folder out."""

from __future__ import annotations

import io
import sys
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphham.cli.failures import StoppedError
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
)
from graphham.errors import InputError

if TYPE_CHECKING:
    from graphham.graph.graph import Graph
    from graphham.results.run_folder import Run
    from graphham.system.console import Screen

_RUN = "The run folder"
_MODEL = "Model and training"


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
    features: FeaturesOption = None,
    labels: LabelsOption = None,
    id_column: IdOption = None,
    source: SourceOption = None,
    target: TargetOption = None,
    weight: WeightOption = None,
    directed: DirectedOption = False,
    isolated: IsolatedOption = False,
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
    from graphham.config.settings import make_config

    if resume and overwrite:
        raise InputError("--resume continues a run and --overwrite replaces it; give one of them")
    options = GraphOptions(features, labels, id_column, source, target, weight, directed, isolated)
    from graphham.cli.other_methods import asked_method, fit_other, preset_of

    name = asked_method(method, config)
    if not name.startswith("graphham"):
        given_options = {
            "--groups": groups,
            "--preset": preset,
            "--device": device,
            "--workers": workers,
            "--processes": processes,
            "--resume": resume or None,
        }
        asked = {"dim": dim, "epochs": epochs, "seed": seed, "tree": tree}
        fit_other(
            name,
            graph,
            options,
            out=out,
            task=task,
            unused=given_options,
            config=config,
            settings={**parse_settings(settings or []), **_known(asked)},
            overwrite=overwrite,
            quiet=quiet,
        )
        return
    if tree is not None:
        raise InputError(
            "--tree is for the methods gne and spacene; GraphHAM finds its groups by itself"
        )
    preset, fixed = preset_of(name, preset)
    given = [
        read_settings(config) if config is not None else {},
        parse_settings(settings or []),
        {
            "preset": preset,
            "task": task,
            "groups": parse_groups(groups),
            "dim": dim,
            "train.epochs": epochs,
            "seed": seed,
            "device": device,
            "train.workers": workers,
        },
        fixed,
    ]
    chosen = make_config(*given)
    check_device(chosen.device)
    # Refused before the graph is read: that may take minutes.
    if out is not None:
        _check_place(Path(out), resume, overwrite, given)

    from graphham.cli.processes import die_with_parent, is_child, is_first, run_processes

    if processes is not None and processes > 1 and not is_child():
        run_processes(processes, sys.argv[1:])
        return
    die_with_parent()
    from graphham.system.console import Screen

    screen = Screen(quiet) if is_first() else Screen(True, io.StringIO())
    opened = read_and_report(screen, graph, options, parts=True)
    place = Path(out) if out is not None else Path("runs") / (opened.name or "graph")
    _check_place(place, resume, overwrite, given)
    run = fit_and_report(screen, opened, chosen, place, resume=resume, overwrite=overwrite)
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


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def parse_groups(text: str | None) -> tuple[int, ...] | None:
    """Read ``12,5`` as the groups of each level."""
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"--groups {text!r} is not a list of whole numbers; write it like 12,5"
        ) from None


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """Read ``name=value`` pairs; values are TOML, and plain words are text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name.strip():
            raise InputError(f"--set {pair!r} is not NAME=VALUE; write it like train.lr=0.005")
        try:
            found[name.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[name.strip()] = value.strip()
    return found


def check_device(name: str) -> None:
    """Refuse a device that torch does not know or that this machine does not have."""
    if name == "cpu":
        return  # do not load torch to learn what everybody has
    import torch

    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise InputError(
            f"the device {name!r} cannot be used here; leave --device out to compute on the cpu"
        ) from None


def read_settings(path: str | Path) -> dict[str, Any]:
    """Read settings from TOML; what a run's ``config.toml`` says about its graph is no setting."""
    from graphham.config.settings import read_config

    return {name: value for name, value in read_config(path).items() if name != "graph"}


def check_settings_kept(out: Path, given: list[dict[str, Any]]) -> None:
    """Refuse to resume a run with other settings than it was started with."""
    from graphham.config.settings import make_config

    partial = out.with_name(f"{out.name}.partial")
    begun = next((f for f in (partial, out) if (f / "config.toml").is_file()), None)
    if begun is None:
        return  # there is nothing to resume, and whoever opens the run says so
    kept = read_settings(begun / "config.toml")
    before, after = (_flat(make_config(kept, *more).to_dict()) for more in ([], given))
    for name, value in after.items():
        if before.get(name) != value:
            raise InputError(
                f"a resumed run keeps its settings, but {name} was {before.get(name)!r} and is "
                f"now {value!r}; leave it out, or start a new run with another --out"
            )


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= (
            _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
        )
    return flat


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
    graph: Graph,
    config: Any,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
) -> Run:
    """Fit, show the progress, and say what came out and where it is."""
    from graphham.cli.processes import joined_job
    from graphham.methods.fitting import fit_to_run
    from graphham.system.console import TrainingProgress, clock, group_lines

    begin = time.monotonic()
    with joined_job(config.device) as ranks, TrainingProgress(screen) as progress:
        run = fit_to_run(
            graph, config, out, resume=resume, overwrite=overwrite, listener=progress, ranks=ranks
        )
    screen.say("Groups", group_lines(run.summary["hierarchy"]))
    screen.say(
        "Wrote",
        [
            f"{run.path} in {clock(time.monotonic() - begin)}",
            "embedding.npy  nodes.parquet  groups.parquet  hierarchy.json  model.safetensors",
            "config.toml  metrics.jsonl  summary.json",
        ],
    )
    return run


def _check_place(out: Path, resume: bool, overwrite: bool, given: list[dict[str, Any]]) -> None:
    if resume:
        check_settings_kept(out, given)
    if out.exists() and not (resume or overwrite):
        raise InputError(
            f"the run folder {out} exists already; choose another --out or give --overwrite"
        )
