"""Tables as Markdown, CSV and LaTeX, all from the same rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from graphham.system.atomic import write_bytes

Kind = Literal["text", "count", "score", "change", "p", "effect", "seconds"]

_LATEX = {"&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "±": r"$\pm$", "−": "$-$"}


@dataclass(frozen=True)
class Spread:
    """A mean with its deviation."""

    mean: float
    deviation: float


@dataclass(frozen=True)
class Column:
    """One column.

    Args:
        key: Name in the rows and in the CSV file.
        title: Head of the column.
        kind: How values are written.
    """

    key: str
    title: str
    kind: Kind = "text"


def text_columns(*keys: str) -> tuple[Column, ...]:
    """Return columns of text whose heads are their keys."""
    return tuple(Column(key, key) for key in keys)


@dataclass(frozen=True)
class Table:
    """Rows under a title.

    Args:
        title: One line above.
        columns: In order.
        rows: Values by column key; missing ones show as a dash.
        notes: Lines below.
        name: What tells its file apart from the study's other tables.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[dict[str, Any], ...]
    notes: tuple[str, ...] = ()
    name: str = ""

    def text(self) -> list[list[str]]:
        """Return head and rows as text."""
        lines = [[column.title for column in self.columns]]
        lines += [
            [show(row.get(column.key), column.kind) for column in self.columns] for row in self.rows
        ]
        return lines

    def markdown(self) -> str:
        """Return the table in Markdown, aligned so that it reads well as plain text."""
        lines = [[cell.replace("|", r"\|") for cell in line] for line in self.text()]
        widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(self.columns))]
        rule = [
            "-" * width if column.kind == "text" else "-" * (width - 1) + ":"
            for column, width in zip(self.columns, widths, strict=True)
        ]
        padded = [
            [
                cell.ljust(width) if column.kind == "text" else cell.rjust(width)
                for cell, column, width in zip(line, self.columns, widths, strict=True)
            ]
            for line in lines
        ]
        shown = [f"| {' | '.join(line)} |" for line in (padded[0], rule, *padded[1:])]
        return "\n".join([*shown, *(["", *self.notes] if self.notes else [])]) + "\n"

    def plain(self) -> str:
        """Return the table for a terminal."""
        lines = self.text()
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        shown = [
            "  ".join(
                cell.ljust(width) if column.kind == "text" else cell.rjust(width)
                for cell, column, width in zip(line, self.columns, widths, strict=True)
            ).rstrip()
            for line in lines
        ]
        return "\n".join([*shown, *self.notes]) + "\n"

    def csv(self) -> str:
        """Return the table as CSV with unrounded numbers; spreads become two columns."""
        spread = {
            column.key
            for column in self.columns
            if any(isinstance(row.get(column.key), Spread) for row in self.rows)
        }
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        head: list[str] = []
        for column in self.columns:
            head += [column.key, f"{column.key}_sd"] if column.key in spread else [column.key]
        writer.writerow(head)
        for row in self.rows:
            line: list[Any] = []
            for column in self.columns:
                value = row.get(column.key)
                if isinstance(value, Spread):
                    line += [value.mean, value.deviation]
                else:
                    line += [value, None] if column.key in spread else [value]
            writer.writerow(["" if value is None else value for value in line])
        return out.getvalue()

    def latex(self) -> str:
        """Return the table as a LaTeX tabular with booktabs rules."""
        layout = "".join("l" if column.kind == "text" else "r" for column in self.columns)
        head, *body = [[_latex(cell) for cell in line] for line in self.text()]
        lines = [
            f"% {self.title}",
            rf"\begin{{tabular}}{{{layout}}}",
            r"\toprule",
            " & ".join(head) + r" \\",
            r"\midrule",
            *(" & ".join(line) + r" \\" for line in body),
            r"\bottomrule",
            r"\end{tabular}",
        ]
        return "\n".join([*lines, *(f"% {note}" for note in self.notes)]) + "\n"

    def write(self, folder: Path, name: str) -> list[Path]:
        """Write ``name.md``, ``name.csv`` and ``name.tex`` into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        shown = f"# {self.title}\n\n{self.markdown()}"
        paths = []
        for ending, text in (("md", shown), ("csv", self.csv()), ("tex", self.latex())):
            path = folder / f"{name}.{ending}"
            write_bytes(path, text.encode())
            paths.append(path)
        return paths


def show(value: Any, kind: Kind) -> str:
    """Write one value the way its column asks for."""
    if value is None:
        return "-"
    if isinstance(value, Spread):
        if kind == "seconds":
            return f"{value.mean:.1f}"
        return f"{value.mean:.3f} ± {value.deviation:.3f}"
    if kind == "count":
        return f"{value:,}"
    if kind == "score":
        return f"{value:.3f}"
    if kind == "change":
        return f"{value:+.3f}".replace("-", "−")
    if kind == "effect":
        return f"{value:+.2f}".replace("-", "−")
    if kind == "p":
        return "<.001" if value < 0.001 else f"{value:.3f}"
    if kind == "seconds":
        return f"{value:.1f}"
    return str(value)


def join_markdown(tables: Sequence[Table], seen: set[str], depth: int = 3) -> str:
    """Return several tables under headings.

    Args:
        tables: In order; empty ones are left out.
        seen: Titles and notes that were written before and need not be repeated; grows.
        depth: Of the headings.
    """
    parts = []
    for table in tables:
        if not table.rows:
            continue
        notes = tuple(note for note in table.notes if note not in seen)
        seen.update(notes)
        body = replace(table, notes=notes).markdown()
        parts.append(body if table.title in seen else f"{'#' * depth} {table.title}\n\n{body}")
    return "\n".join(parts)


def _latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text)
