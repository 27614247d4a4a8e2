"""``graphham tune``: which settings suit a graph, and at what cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphham.cli.options import (
    NO_OPTIONS,
    GraphArgument,
    GraphOptions,
    QuietOption,
    split_names,
    takes_options,
)

if TYPE_CHECKING:
    from graphham.evaluate.setting_search import Trial


@takes_options()
def tune(
    graph: GraphArgument,
    trials: Annotated[
        int, typer.Option("--trials", min=1, help="Fits there shall be, earlier ones included.")
    ] = 12,
    task: Annotated[
        str,
        typer.Option(
            "--task",
            metavar="embed|classify",
            help="Score on held-out links (embed) or on validation labels (classify).",
        ),
    ] = "embed",
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="DIR", help="Where trials are kept; tuning/NAME if absent."),
    ] = None,
    objectives: Annotated[
        str,
        typer.Option(
            "--objectives", metavar="A,B", help="Of the frontier: some of score,seconds,dim."
        ),
    ] = "score,seconds",
    sampler: Annotated[
        str,
        typer.Option(
            "--sampler",
            metavar="auto|random|optuna",
            help="Who proposes settings; optuna needs the extra 'tune'.",
        ),
    ] = "auto",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Decides every draw.")] = 0,
    options: GraphOptions = NO_OPTIONS,
    quiet: QuietOption = False,
) -> None:
    """Try settings of GraphHAM on a graph; stop at any time, the same command goes on.

    Examples:
      graphham tune cora --trials 8
      graphham tune cora --task classify --objectives score,seconds,dim
      graphham fit cora --config tuning/cora/best.toml
    """
    from graphham.cli.fit import read_and_report
    from graphham.errors import InputError
    from graphham.evaluate.setting_search import BEST_FILE, SettingSearch, frontier
    from graphham.system.console import Screen

    if task not in ("embed", "classify"):
        raise InputError(f"there is no task {task!r}; choose embed or classify")
    wanted = split_names(objectives)
    frontier([], wanted)  # a wrong name is refused before the work
    screen = Screen(quiet)
    opened = read_and_report(screen, graph, options)
    folder = Path("tuning") / (opened.name or "graph") if out is None else Path(out)
    search = SettingSearch(
        opened,
        folder,
        task,  # type: ignore[arg-type]
        seed,
        sampler=sampler,
    )
    found = search.run(trials, lambda trial: screen.say("Trial", trial_line(trial)))
    screen.say("Frontier", [trial_line(trial) for trial in frontier(found, wanted)] or "no trial")
    screen.say("", f"no other trial is better in all of: {', '.join(wanted)}")
    read_by = f" {flags}" if (flags := options.as_flags()) else ""
    screen.say("Next", f"graphham fit {graph}{read_by} --config {folder / BEST_FILE}")


def trial_line(trial: Trial) -> str:
    """Write a trial on one line."""
    changed = ", ".join(f"{k}={v}" for k, v in trial.settings.items()) or "the usual settings"
    if trial.error:
        return f"{trial.number:>3}  refused: {trial.error}"
    values = trial.values
    return f"{trial.number:>3}  score {values['score']:.3f}  {values['seconds']:.0f} s  {changed}"
