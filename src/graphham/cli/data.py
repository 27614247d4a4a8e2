"""``graphham data``: the named datasets."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from graphham.errors import InputError

app = typer.Typer(rich_markup_mode="rich")

_FORMATS = ("text", "markdown", "csv")
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of a dataset.")]


@app.callback(invoke_without_command=True)
def _data(context: typer.Context) -> None:
    """List, describe and fetch the named datasets.

    Example:
      graphham data list
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("list")
def list_datasets() -> None:
    """List all datasets: size, and whether they are on this machine.

    Example:
      graphham data list
    """
    from graphham.datasets import list_rows

    columns = ["name", "nodes", "edges", "classes", "status", "title"]
    print_table([{c: row[c] for c in columns} for row in list_rows()], "text")


@app.command("info")
def show_info(name: NameArgument) -> None:
    """Say where a dataset comes from, its licence, its files and their checksums.

    Example:
      graphham data info pubmed
    """
    from graphham.datasets import info_rows

    rows = info_rows(name)
    width = max(len(what) for what, _ in rows) + 2
    for what, value in rows:
        print(f"{what:<{width}}{value}")


@app.command("get")
def get(name: NameArgument) -> None:
    """Download a dataset into the cache folder, unless it is on this machine.

    Example:
      graphham data get citeseer
    """
    from graphham.datasets import fetch_dataset

    folder = fetch_dataset(name)
    print(f"{name} is part of the package" if folder is None else f"{name} is in {folder}")


@app.command("table")
def table(
    names: Annotated[
        str | None,
        typer.Option(
            "--names",
            metavar="A,B",
            help="Which datasets, fetched if need be; those on this machine if not given.",
        ),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", metavar="|".join(_FORMATS), help="How to print it.")
    ] = "text",
) -> None:
    """Print Table 1 of the paper: measured here, and as published.

    raw_edges counts as the paper does, edges counts each pair of neighbours once.

    Example:
      graphham data table --names cora,debian --format markdown
    """
    if form not in _FORMATS:
        raise InputError(f"there is no table format {form!r}; choose {', '.join(_FORMATS)}")
    from graphham.datasets import dataset_info, table1_rows

    wanted = None
    if names is not None:
        wanted = [dataset_info(name.strip()).name for name in names.split(",")]
    print_table(table1_rows(wanted), form)


def print_table(rows: Sequence[dict[str, Any]], form: str) -> None:
    """Print rows with the same keys as aligned text, Markdown or CSV."""
    head = list(rows[0])
    if form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(head)
        writer.writerows([["" if v is None else v for v in row.values()] for row in rows])
        return
    cells = [head, *([_cell(value) for value in row.values()] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(head))]
    right = [
        isinstance(next((r[c] for r in rows if r[c] is not None), ""), int | float) for c in head
    ]
    padded = [
        [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)]
        for line in cells
    ]
    if form == "markdown":
        rule = [("-" * (w - 1) + ":") if r else "-" * w for w, r in zip(widths, right, strict=True)]
        for line in (padded[0], rule, *padded[1:]):
            print(f"| {' | '.join(line)} |")
        return
    for line in padded:
        print("  ".join(line).rstrip())


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
