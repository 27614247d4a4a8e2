"""Put the commands together and run them."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import graphham
from graphham.cli import data, demo, doctor, evaluate, fit, ingest, look, outputs, tune
from graphham.cli.failures import run_safely
from graphham.cli.processes import is_member, leave
from graphham.system.threads import start_few_threads

app = typer.Typer(
    name="graphham",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo.demo)
app.command()(fit.fit)
app.command()(tune.tune)
app.command()(look.report)
app.command()(look.explore)
app.command()(look.compare)
app.command()(look.neighbors)
app.command()(look.names)
app.command()(look.explain)
app.command()(outputs.embed)
app.command()(outputs.export)
app.command()(ingest.ingest)
app.command()(ingest.split)
app.command()(ingest.info)
app.command()(doctor.doctor)
app.command()(evaluate.reproduce)
app.command("methods")(evaluate.list_methods)
app.add_typer(data.app, name="data")
app.add_typer(evaluate.app, name="evaluate")


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"graphham {graphham.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Find node embeddings and a nested hierarchy of groups in a graph.

    Start with: graphham demo

    Then with your own: graphham fit edges.csv --out runs/mine
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code.

    Args:
        arguments: What follows ``graphham``; the process's own arguments if not given.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show a sign must not stop us
            stream.reconfigure(errors="replace")
    start_few_threads()
    if arguments is None and is_member():
        leave(lambda: run_safely(app, arguments))
    return run_safely(app, arguments)
