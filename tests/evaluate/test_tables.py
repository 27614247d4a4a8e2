"""Every format of a table holds the same numbers."""

import csv
import io

from graphham.evaluate.tables import Column, Spread, Table, join_markdown


def test_every_format_holds_the_same_numbers() -> None:
    columns = (Column("m", "a|b_c"), Column("x", "x", "score"), Column("d", "d", "change"))
    rows = (
        {"m": "50%", "x": Spread(0.12345, 0.01), "d": -0.0456},
        {"m": "none", "x": None, "d": None},
    )
    table = Table("T", columns, rows, ("note",))
    assert "| 50%" in table.markdown()
    assert "0.123 ± 0.010" in table.markdown()
    assert r"a\|b_c" in table.markdown()
    parsed = list(csv.reader(io.StringIO(table.csv())))
    assert parsed == [
        ["m", "x", "x_sd", "d"],
        ["50%", "0.12345", "0.01", "-0.0456"],
        ["none", "", "", ""],
    ]
    latex = table.latex()
    assert r"50\% & 0.123 $\pm$ 0.010 & $-$0.046 \\" in latex
    assert latex.count(r"\\") == 3
    assert "note" in table.plain()


def test_joined_tables_repeat_no_note_and_leave_empty_ones_out() -> None:
    columns = (Column("m", "m"),)
    full, empty = (
        Table(n, columns, rows, ("note",)) for n, rows in (("A", ({"m": 1},)), ("B", ()))
    )
    seen: set[str] = set()
    text = join_markdown([full, empty, full], seen)
    assert text.count("note") == 1
    assert "### B" not in text
    assert join_markdown([full], {"A"}).startswith("| m")
