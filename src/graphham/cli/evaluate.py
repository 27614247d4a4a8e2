"""``graphham evaluate``, ``reproduce`` and ``methods``: which method is how good, and on what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
)
from graphham.errors import InputError

if TYPE_CHECKING:
    from graphham.evaluate.running import Outcome
    from graphham.system.console import Screen

app = typer.Typer(rich_markup_mode="rich")

MethodsOption = Annotated[
    str,
    typer.Option(
        "--methods",
        metavar="A,B",
        help="Methods to compare (graphham methods); the others are tested against the first.",
    ),
]
FoldsOption = Annotated[int, typer.Option("--folds", help="Number of folds.")]
SeedsOption = Annotated[
    str,
    typer.Option(
        "--seeds", metavar="0,1,2", help="Each draws its own folds and starts the methods anew."
    ),
]
OutOption = Annotated[
    str | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Folder for results; evaluations/NAME if not given. What is finished there is kept.",
    ),
]
BudgetOption = Annotated[
    int,
    typer.Option(
        "--budget", help="Settings every method may try on validation data; 1 is its defaults."
    ),
]
KeepOption = Annotated[
    bool,
    typer.Option(
        "--keep-runs", help="Leave every fitted method as a run folder beside its cell (large)."
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print remarks and errors only.")]


@app.callback(invoke_without_command=True)
def _evaluate(context: typer.Context) -> None:
    """Compare methods on your own graph or a named one.

    Example:
      graphham evaluate classify cora --methods graphham,gat
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def classify(
    graph: GraphArgument,
    methods: MethodsOption = "graphham,graphsage,gat,sgc,logreg",
    protocol: Annotated[
        str,
        typer.Option(
            "--protocol",
            metavar="p1|p2|p2s|few5|few10|few20",
            help="p2: folds over nodes. p1: the split that came with the data. fewN: N labels per "
            "class. p2s: folds, one sigmoid per class.",
        ),
    ] = "p2",
    folds: FoldsOption = 5,
    seeds: SeedsOption = "0",
    out: OutOption = None,
    budget: BudgetOption = 1,
    features: FeaturesOption = None,
    labels: LabelsOption = None,
    id_column: IdOption = None,
    source: SourceOption = None,
    target: TargetOption = None,
    weight: WeightOption = None,
    directed: DirectedOption = False,
    isolated: IsolatedOption = False,
    keep: KeepOption = False,
    quiet: QuietOption = False,
) -> None:
    """Measure how well methods predict the labels of nodes they have not seen labelled.

    Examples:
      graphham evaluate classify cora --methods graphham,gat --seeds 0,1,2
      graphham evaluate classify edges.csv --features x.csv --labels nodes.csv:topic
    """
    options = GraphOptions(features, labels, id_column, source, target, weight, directed, isolated)
    _run("classify", graph, options, methods, protocol, folds, seeds, out, budget, keep, quiet)


@app.command()
def links(
    graph: GraphArgument,
    methods: MethodsOption = "graphham,graphsage,smoothed,adamic-adar",
    hard: Annotated[
        bool,
        typer.Option(
            "--hard", help="Rank against the likeliest non-neighbours instead of random ones."
        ),
    ] = False,
    folds: FoldsOption = 5,
    seeds: SeedsOption = "0",
    out: OutOption = None,
    budget: BudgetOption = 1,
    features: FeaturesOption = None,
    id_column: IdOption = None,
    source: SourceOption = None,
    target: TargetOption = None,
    weight: WeightOption = None,
    directed: DirectedOption = False,
    isolated: IsolatedOption = False,
    keep: KeepOption = False,
    quiet: QuietOption = False,
) -> None:
    """Measure how well methods rank held-out links above non-links.

    Example:
      graphham evaluate links cora --methods graphham,smoothed,adamic-adar --hard
    """
    options = GraphOptions(features, None, id_column, source, target, weight, directed, isolated)
    protocol = "hard" if hard else "links"
    _run("links", graph, options, methods, protocol, folds, seeds, out, budget, keep, quiet)


def reproduce(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="WHAT...",
            help="table1 to table4, figure3 to figure6, groups, hierarchy, all; or results, which "
            "writes RESULTS.md from the finished cells.",
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
        typer.Option(
            "--out", metavar="DIR", help="Folder for cells, tables, figures and summaries."
        ),
    ] = "experiments/results",
    file: Annotated[
        str, typer.Option("--file", metavar="FILE", help="Where 'results' writes its text.")
    ] = "RESULTS.md",
    keep: KeepOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make the tables and figures of the paper again, resuming what was begun.

    Run it in several terminals to share the work: every cell is measured once.

    Examples:
      graphham reproduce table2 --quick
      graphham reproduce table2 table4 --datasets cora,citeseer
      graphham reproduce results
    """
    from graphham.system.console import Screen

    screen = Screen(quiet)
    if "results" in what:
        if len(what) > 1:
            raise InputError("'results' writes what the finished cells say; give it alone")
        _write_results(screen, out, file)
        return
    from graphham.evaluate.reproduce import reproduce as run

    outcome = run(
        what,
        out,
        screen,
        datasets=_names(datasets),
        methods=_names(methods),
        seeds=None if seeds is None else _seeds(seeds),
        budget=budget,
        quick=quick,
        keep=keep,
    )
    _finish(screen, outcome)


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
    source: str,
    options: GraphOptions,
    methods: str,
    protocol: str,
    folds: int,
    seeds: str,
    out: str | None,
    budget: int,
    keep: bool,
    quiet: bool,
) -> None:
    from graphham.evaluate.splits import check_protocol
    from graphham.methods.registry import method_class
    from graphham.system.console import Screen

    check_protocol(kind, protocol)
    names = _names(methods) or []
    drawn = _seeds(seeds)
    if folds < 2:
        raise InputError(f"--folds must be at least 2, got {folds}")
    if budget < 1:
        raise InputError(f"--budget must be at least 1, got {budget}")
    for name in names:
        if kind not in method_class(name).tasks:
            raise InputError(f"the method {name} does not serve {kind}; see 'graphham methods'")
    from graphham.cli.fit import read_and_report
    from graphham.evaluate.comparison import compare_methods

    screen = Screen(quiet)
    graph = read_and_report(screen, source, options)
    place = Path(out) if out is not None else Path("evaluations") / Path(source).stem
    outcome, tables, paths = compare_methods(
        graph, kind, names, protocol, folds, drawn, budget, place, screen, keep
    )
    for table in tables:
        screen.plain(f"\n{table.title}\n")
        screen.plain(table.plain())
    screen.say("Wrote", [str(path) for path in paths])
    _finish(screen, outcome)


def _write_results(screen: Screen, out: str, file: str) -> None:
    from graphham.evaluate.results import write_results
    from graphham.evaluate.summaries import gather

    count, paths = gather(out)
    screen.say("Gathered", f"{count} cells into {len(paths)} summaries")
    screen.say("Wrote", str(write_results(out, file)))


def _finish(screen: Screen, outcome: Outcome) -> None:
    """Fail at the end if a cell failed: the others were worth finishing first."""
    if outcome.failures:
        key, trace = next(iter(outcome.failures.items()))
        raise RuntimeError(
            f"{len(outcome.failures)} cells failed, first {key}: {trace.strip().splitlines()[-1]}"
        )


def _names(text: str | None) -> list[str] | None:
    if text is None:
        return None
    found = [name.strip() for name in text.split(",") if name.strip()]
    if not found:
        raise InputError("give at least one name, separated by commas")
    twice = next((name for name in found if found.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{twice!r} is named twice; name each once")
    return found


def _seeds(text: str) -> list[int]:
    try:
        found: list[Any] = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InputError(
            f"--seeds takes whole numbers separated by commas, such as 0,1,2, got {text!r}"
        ) from None
    if not found or min(found) < 0:
        raise InputError(f"--seeds takes whole numbers from 0 on, got {text!r}")
    return list(dict.fromkeys(found))
