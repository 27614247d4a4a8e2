"""``graphham compare``: two runs side by side as one page, or the nodes that moved as a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphham.errors import InputError
from graphham.report.html import render_page, write_page
from graphham.report.safe_text import need, one_line
from graphham.results.compare import all_moved, comparison_lines
from graphham.system.atomic import creating

if TYPE_CHECKING:
    import pyarrow as pa

    from graphham.results.compare import Comparison

_MOVES_SHOWN = 200


def write_comparison(comparison: Comparison | Sequence[Comparison], out: str | Path) -> Path:
    """Write a page (``.html``) or the table of moved nodes (``.csv``, ``.parquet``).

    Args:
        comparison: Two runs, matched, on one level or on several.
        out: File to write; it must not exist.
    """
    path = Path(out)
    parts = list(comparison) if isinstance(comparison, Sequence) else [comparison]
    if path.suffix.lower() in (".html", ".htm"):
        write_page(comparison_page(parts), path, may_replace=False)
        return path
    return write_moved(all_moved(parts), path)


def write_moved(table: pa.Table, path: Path) -> Path:
    """Write the table of moved nodes as ``.csv`` or ``.parquet``; the file must not exist."""
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise InputError(f"{path} ends in none of .html, .csv and .parquet; name the file so")
    with creating(path) as temporary:
        if suffix == ".csv":
            import pyarrow.csv as csv

            csv.write_csv(table, temporary)
        else:
            import pyarrow.parquet as pq

            pq.write_table(table, temporary)
    return path


def comparison_page(parts: Sequence[Comparison]) -> str:
    """Return the comparison as the text of one self-contained page, a section per level."""
    need("plotly", "the page")
    need("jinja2", "the page")
    from graphham.report.trees import LEAST_BAND, comparison_flow

    first, second = parts[0].first.path.name, parts[0].second.path.name
    return render_page(
        "compare.html",
        {f"flow{part.level}": comparison_flow(part) for part in parts},
        [],
        title=f"{first} and {second} – graphham",
        first=first,
        second=second,
        lines=comparison_lines(parts),
        parts=[_section(part) for part in parts],
        least_band=f"{LEAST_BAND:.0%}",
    )


def _section(comparison: Comparison) -> dict[str, Any]:
    """Return what the page says about one level."""
    moved = comparison.moved_table()
    moves = moved.slice(0, _MOVES_SHOWN).to_pylist()
    groups: list[dict[str, Any]] = [
        {k: one_line(v) if isinstance(v, str) else v for k, v in row.items()}
        for row in comparison.groups_table().to_pylist()
    ]
    for row in moves:
        row["expected"] = groups[row["group_a"]]["name_b"] or "none"
    groups.sort(key=lambda g: int(g["size_a"]), reverse=True)
    return {
        "level": comparison.level,
        "groups": groups,
        "moved": [{k: one_line(v, 100) for k, v in r.items() if v is not None} for r in moves],
        "num_moved": len(moved),
    }
