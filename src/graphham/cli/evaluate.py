"""``graphham evaluate``, ``reproduce`` and ``methods``: which method is how good, and on what."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import graphham
from graphham.cli.options import (
    NO_OPTIONS,
    GraphArgument,
    GraphOptions,
    QuietOption,
    split_names,
    split_seeds,
    takes_options,
)
from graphham.errors import InputError

app = typer.Typer(rich_markup_mode="rich")

_OUT_HELP = "Folder for results; evaluations/NAME if not given. What is finished there is kept."
_BUDGET_HELP = "Settings every method may try on validation data; 1 is its defaults."
MethodsOption = Annotated[
    str,
    typer.Option(
        "--methods",
        metavar="A,B",
        help="Methods to compare (graphham methods); the others are tested against the first.",
    ),
]
KeepOption = Annotated[
    bool,
    typer.Option(
        "--keep-runs", help="Leave every fitted method as a run folder beside its cell (large)."
    ),
]


@dataclass(frozen=True)
class Protocol:
    """What both comparisons ask besides the methods and the graph."""

    folds: Annotated[int, typer.Option("--folds", help="Number of folds.")] = 5
    seeds: Annotated[
        str,
        typer.Option(
            "--seeds", metavar="0,1,2", help="Each draws its own folds and starts the methods anew."
        ),
    ] = "0"
    out: Annotated[str | None, typer.Option("--out", metavar="DIR", help=_OUT_HELP)] = None
    budget: Annotated[int, typer.Option("--budget", help=_BUDGET_HELP)] = 1
    keep: KeepOption = False
    quiet: QuietOption = False


_USUAL = Protocol()


@app.callback(invoke_without_command=True)
def _evaluate(context: typer.Context) -> None:
    """Compare methods on your own graph or a named one.

    Example:
      graphham evaluate classify cora --methods graphham,gat
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
@takes_options()
def classify(
    graph: GraphArgument,
    methods: MethodsOption = "graphham,graphsage,gat,sgc,logreg",
    protocol: Annotated[
        str,
        typer.Option(
            "--protocol",
            metavar="folds|public_split|folds_sigmoid|fewN",
            help="folds: over the labelled nodes. public_split: the one that came with the data. "
            "folds_sigmoid: folds, one sigmoid per class. few5, few10 ...: so many labels per "
            "class.",
        ),
    ] = "folds",
    options: GraphOptions = NO_OPTIONS,
    asked: Protocol = _USUAL,
) -> None:
    """Measure how well methods predict the labels of nodes they have not seen labelled.

    Examples:
      graphham evaluate classify cora --methods graphham,gat --seeds 0,1,2
      graphham evaluate classify edges.csv --features x.csv --labels nodes.csv:topic
    """
    _run("classify", methods, protocol, graph, options, asked)


@app.command()
@takes_options("labels")
def links(
    graph: GraphArgument,
    methods: MethodsOption = "graphham,graphsage,smoothed,adamic-adar",
    hard: Annotated[
        bool,
        typer.Option(
            "--hard", help="Rank against the likeliest non-neighbours instead of random ones."
        ),
    ] = False,
    scorer: Annotated[
        str,
        typer.Option(
            "--scorer",
            metavar="own|learned",
            help="own: what each method scores pairs by, mostly a cosine. learned: a regression on "
            "shared neighbours, degrees, features and the method's word, fitted to validation "
            "edges; the row clues has no method.",
        ),
    ] = "own",
    options: GraphOptions = NO_OPTIONS,
    asked: Protocol = _USUAL,
) -> None:
    """Measure how well methods rank held-out links above non-links.

    Examples:
      graphham evaluate links cora --methods graphham,smoothed,adamic-adar --hard
      graphham evaluate links cora --methods graphham,gat --scorer learned
    """
    if scorer not in ("own", "learned"):
        raise InputError(f"--scorer must be own or learned, got {scorer!r}")
    protocol = "hard" if hard else "links"
    _run("links", methods, protocol, graph, options, asked, scorer == "learned")


def reproduce(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="WHAT...",
            help="table1 to table4, figure3 to figure6, groups, hierarchy, core, presets, all; or "
            "results, which writes RESULTS.md from the finished cells, or stale, which says what "
            "the present code makes old.",
        ),
    ],
    datasets: Annotated[
        str | None, typer.Option("--datasets", metavar="A,B", help="Only these graphs.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option("--methods", metavar="A,B", help="Only these methods.")
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option("--seeds", metavar="0,1", help="These seeds instead of the study's own."),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option("--budget", help="Settings every method may try on validation data."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version that takes minutes.")
    ] = False,
    out: Annotated[
        str,
        typer.Option("--out", metavar="DIR", help="Folder for cells, tables and figures."),
    ] = "experiments/results",
    file: Annotated[
        str, typer.Option("--file", metavar="FILE", help="Where 'results' writes its text.")
    ] = "RESULTS.md",
    renew: Annotated[
        bool,
        typer.Option("--renew", help="Measure cells of other versions of the code again."),
    ] = False,
    keep: KeepOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make the tables and figures of the paper again, resuming what was begun.

    Needs a clone of the source, where the studies are kept. Run it in several terminals to share
    the work: every cell is measured once.

    Examples:
      graphham reproduce table2 --quick
      graphham reproduce table2 table4 --datasets cora,citeseer
      graphham reproduce stale
      graphham reproduce results
    """
    from graphham.system.console import Screen

    experiments = _experiments()
    screen = Screen(quiet)
    if "stale" in what:
        experiments.write_stale(out, [name for name in what if name != "stale"], screen)
        return
    if "results" in what:
        if len(what) > 1:
            raise InputError("'results' writes what the finished cells say; give it alone")
        experiments.write_page(out, file, screen)
        return
    experiments.reproduce(
        what,
        out,
        screen,
        datasets=None if datasets is None else split_names(datasets),
        methods=None if methods is None else split_names(methods),
        seeds=None if seeds is None else split_seeds(seeds),
        budget=budget,
        quick=quick,
        keep=keep,
        renew=renew,
    ).raise_failures()


def list_methods() -> None:
    """List the methods that can be compared, with one line each.

    Example:
      graphham methods
    """
    from graphham.methods.registry import method_rows

    rows = method_rows()
    width = max(len(name) for name, _, _ in rows) + 2
    for name, line, tasks in rows:
        print(f"{name:<{width}}{' '.join(sorted(tasks)):<16}{line}")


def _run(
    kind: str,
    methods: str,
    protocol: str,
    source: str,
    options: GraphOptions,
    asked: Protocol,
    is_learned: bool = False,
) -> None:
    from graphham.cli.fit import read_and_report
    from graphham.evaluate.comparison import ComparisonPlan, compare_methods
    from graphham.system.console import Screen

    names, seeds = split_names(methods), split_seeds(asked.seeds)
    plan = ComparisonPlan(kind, names, protocol, asked.folds, seeds, asked.budget, is_learned)
    screen = Screen(asked.quiet)
    graph = read_and_report(screen, source, options)
    place = Path(asked.out) if asked.out is not None else Path("evaluations") / Path(source).stem
    outcome, tables, paths = compare_methods(graph, plan, place, screen, asked.keep)
    for table in tables:
        screen.plain(f"\n{table.title}\n")
        screen.plain(table.plain())
    screen.say("Wrote", [str(path) for path in paths])
    outcome.raise_failures()


def _experiments() -> Any:
    """Return the module that reproduces; it belongs to the source, not to the installed package."""
    for root in (Path.cwd(), Path(graphham.__file__).resolve().parents[2]):
        if all((root / "experiments" / name).is_file() for name in ("reproduce.py", "table2.toml")):
            if str(root) not in sys.path:
                sys.path.insert(0, str(root))
            return importlib.import_module("experiments.reproduce")
    raise InputError(
        "'graphham reproduce' needs the folder experiments, which is not installed; clone the "
        "source repository of graphham and run it there"
    )
