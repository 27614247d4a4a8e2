"""Write docs/cli.md from the command line itself; Sphinx calls it before every build."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from docs_results import ROOT, table

PATH = ROOT / "docs" / "cli.md"


def build() -> str:
    """Return the whole page."""
    lines = [
        "# Commands",
        "",
        "<!-- written by scripts/docs_cli.py; do not edit -->",
        "",
        "The same text as `graphham COMMAND --help`. Exit codes: 0 done, 2 something in the input",
        "or the settings must change (one sentence says what), 130 stopped by Ctrl-C, 1 a bug of",
        "ours (`GRAPHHAM_TRACEBACK=1` shows where).",
        "",
    ]
    for path, command in commands():
        lines += [f"## {path}", "", *page(path, command)]
    return "\n".join(lines)


def commands() -> Iterator[tuple[str, Any]]:
    """Yield the full name and the click command of everything that can be run."""
    import typer

    from graphham.cli.main import app

    yield from _walk("graphham", typer.main.get_command(app))


def _walk(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if not inner:
        yield path, command
        return
    for name, child in inner.items():
        yield from _walk(f"{path} {name}", child)


def page(path: str, command: Any) -> list[str]:
    """Return the help of one command as Markdown."""
    text = inspect.cleandoc(command.help or "")
    about, _, examples = text.partition("\nExample")
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    names = " ".join(p.metavar or p.name.upper() for p in arguments)
    usage = " ".join(part for part in (path, names, "[OPTIONS]" if options else "") if part)
    lines = ["```sh", usage, "```", "", *about.strip().splitlines(), ""]
    if examples:
        shown = [line.strip() for line in examples.splitlines()[1:] if line.strip()]
        lines += ["```sh", *shown, "```", ""]
    rows = [[f"`{p.metavar or p.name.upper()}`", _cell(getattr(p, "help", ""))] for p in arguments]
    for option in options:
        kind = f" {option.metavar}" if option.metavar else "" if option.is_flag else " VALUE"
        rows.append(
            ["`" + f"{', '.join(option.opts)}{kind}".replace("|", "\\|") + "`", _cell(option.help)]
        )
    return [*lines, *table(["", "meaning"], rows), ""] if rows else lines


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def write_page() -> None:
    """Write the page unless it is there as it should be: a new date would rebuild everything."""
    text = build()
    if not PATH.is_file() or PATH.read_text("utf-8") != text:
        PATH.write_text(text, "utf-8")


if __name__ == "__main__":
    write_page()
