"""Rows of a text table that cannot be used: named all at once, or left out where asked for."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence

from graphham.errors import InputError
from graphham.io.text import SPACE, TextTable, is_number, shorten

# Looks at the fields of a row and says what is wrong with it; nothing is "".
Check = Callable[[Sequence[str]], str]
_SHOWN = 10
_MOST = 10_000  # enough to know that a file is of another kind


def bad_rows(table: TextTable, has_header: bool, check: Check) -> Iterator[tuple[int, str]]:
    """Yield the line and the fault of every row that cannot be used."""
    for _, line, _, fault in _judged(table, has_header, check):
        if fault:
            yield line, fault


def with_all_faults(
    error: InputError, table: TextTable, has_header: bool, check: Check
) -> InputError:
    """Return an error about one row as one about all rows of the file that are bad."""
    found: list[tuple[int, str]] = []
    try:
        for one in bad_rows(table, has_header, check):
            found.append(one)
            if len(found) >= _MOST:
                break
    except InputError:  # not UTF-8 or an open quote: then that is the fault
        return error
    if len(found) < 2:
        return error
    count = f"{_MOST:,} or more" if len(found) >= _MOST else f"{len(found):,}"
    return InputError(
        f"{error}; {count} lines of {table.path} are bad, mend them or leave them out with "
        f"--skip-bad-rows (skip_bad_rows=True): {listed_faults(found)}"
    )


def listed_faults(found: Sequence[tuple[int, str]]) -> str:
    """Write the first faults, all on one line: the command line prints an error as one."""
    parts = [f"line {line:,}: {fault}" for line, fault in found[:_SHOWN]]
    if len(found) > _SHOWN:
        parts.append(f"and {len(found) - _SHOWN:,} more")
    return "; ".join(parts)


def without_bad_rows(
    table: TextTable, has_header: bool, check: Check
) -> tuple[TextTable, list[tuple[int, str]]]:
    """Return the table without the rows that cannot be used, and these with their faults."""
    separator = "\t" if table.separator == SPACE else table.separator
    text = io.StringIO()
    plain = csv.writer(text, delimiter=separator, lineterminator="\n")
    quoting = csv.writer(text, delimiter=separator, lineterminator="\n", quoting=csv.QUOTE_ALL)
    faults: list[tuple[int, str]] = []
    for number, line, fields, fault in _judged(table, has_header, check):
        if fault:
            faults.append((line, fault))
        elif number == 0 or fields:
            # An id that begins like a comment was no comment because of its quotes.
            (quoting if fields and fields[0][:1] in ("#", "%") else plain).writerow(fields)
    if not faults:
        return table, faults
    # The rows that are left may look as if something else separated them.
    return TextTable(table.path, text.getvalue().encode(), table.what, separator), faults


def skipped_note(faults: Sequence[tuple[int, str]], path: object) -> str:
    """Say what was left out."""
    rows = "1 bad row was" if len(faults) == 1 else f"{len(faults):,} bad rows were"
    return f"{rows} left out of {path}: {listed_faults(faults)}"


def _judged(
    table: TextTable, has_header: bool, check: Check
) -> Iterator[tuple[int, int, list[str], str]]:
    expected = table.num_columns
    for number, (line, fields) in enumerate(table.rows()):
        fault = ""
        if len(fields) != expected:
            fields_text = f"{len(fields)} field{'s' * (len(fields) != 1)}"
            fault = f"{fields_text} instead of {expected} ({shorten(fields)})"
        elif number >= has_header:
            fault = check(fields)
        yield number, line, fields, fault


def numbers_check(
    numeric: Sequence[int], names: Sequence[str], missing: Sequence[str], key: int
) -> Check:
    """Return the check of a table about nodes: an id, and numbers where numbers belong."""

    def check(fields: Sequence[str]) -> str:
        if not fields[key].strip():
            return "no id"
        for i in numeric:
            cell = fields[i].strip()
            if cell not in missing and not is_number(cell):
                return f"{cell!r} in column {names[i]!r} is not a number"
        return ""

    return check
