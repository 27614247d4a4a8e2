"""Edges of delimited text: which columns they are in, and whether the first line is a header."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from graphham.errors import InputError
from graphham.io.bad_rows import skipped_note, with_all_faults, without_bad_rows
from graphham.io.edge_streams import Batch, EdgeColumns, EdgeSource, NotIntegersError
from graphham.io.files import Raw
from graphham.io.header import is_edge_header, is_sure_header
from graphham.io.text import TextTable, is_integer, shorten
from graphham.io.weights import is_usable, number_of, text_weights


def open_text(path: Path, raw: Raw, columns: EdgeColumns) -> EdgeSource:
    """Open delimited text."""
    edges = _TextEdges(TextTable(path, raw, "edges"), columns)
    notes: tuple[str, ...] = ()
    if columns.skip_bad_rows:
        kept, faults = without_bad_rows(edges.table, edges.layout.has_header, edges.fault)
        if faults:
            edges, notes = _TextEdges(kept, columns), (skipped_note(faults, path),)
    layout, table = edges.layout, edges.table
    return EdgeSource(
        str(path),
        edges.batches,
        has_integers=layout.has_integers and table.integers_are_exact(),
        is_weighted=layout.weight is not None,
        num_bytes=table.num_bytes,
        notes=notes,
        header_note=layout.header_note,
        first_line=None if layout.has_header else layout.names,
        remarks=edges.remarks,
        **layout.unread(),
    )


@dataclass(frozen=True)
class _Layout:
    """Where the edges of a text table are.

    Args:
        names: The fields of the first line.
        source: Position of the first end.
        target: Position of the second end.
        weight: Position of the weight, or ``None``.
        has_header: The first line holds names.
        has_integers: The ids of the first lines are all whole numbers.
        header_note: What to remark if ids are text: the header might have been an edge.
    """

    names: tuple[str, ...]
    source: int
    target: int
    weight: int | None
    has_header: bool
    has_integers: bool
    header_note: str

    def unread(self) -> dict[str, Any]:
        """Return what to say of the columns that are neither ends nor weights."""
        read = (self.source, self.target, self.weight)
        left = [i for i in range(len(self.names)) if i not in read]
        if self.has_header:
            return {"unread": tuple(self.names[i] for i in left)}
        return {
            "unread": tuple(f"{i + 1} ({self.names[i]!r})" for i in left),
            "how_to_weigh": "for weights, put a header above them and name it with --weight",
        }

    @staticmethod
    def of(table: TextTable, columns: EdgeColumns) -> _Layout:
        """Find the columns of an edge table and whether it has a header."""
        first = table.sample[0]
        if len(first) < 2:
            line = table.line_of(0, False)
            raise InputError(
                f"line {line:,} of {table.path} has one field ({shorten(first)}) where an edge "
                f"needs two; separate the endpoints by a comma, tab or space"
            )
        names = tuple(f.strip() for f in first)
        asked = any(v is not None for v in (columns.source, columns.target, columns.weight))
        s, t, w = 0, 1, None
        has_header = asked or is_edge_header(table.sample)
        if asked:
            s, t, w = columns.positions(names, str(table.path))
        integers = all(
            is_integer(row[i]) for row in table.sample[has_header:] for i in (s, t) if i < len(row)
        )
        note = ""
        if has_header and not asked and not is_sure_header(names):
            note = f"the first line ({names[0]!r}, {names[1]!r}) was taken for a header"
        return _Layout(names, s, t, w, has_header, integers, note)


class _TextEdges:
    """The edges of a text table, batch by batch."""

    def __init__(self, table: TextTable, columns: EdgeColumns) -> None:
        self.table, self.layout = table, _Layout.of(table, columns)

    def remarks(self) -> list[str]:
        """Say how many lines were left out."""
        count = self.table.num_comments
        if not count:
            return []
        lines = "1 line that begins" if count == 1 else f"{count:,} lines that begin"
        return [f"left out {lines} with # or %: no edges; put quotes around an id that does"]

    def batches(self, integers: bool) -> Iterator[Batch]:
        table, layout = self.table, self.layout
        kind = pa.int64() if integers else pa.large_string()
        types = {layout.source: kind, layout.target: kind}
        if layout.weight is not None:
            types[layout.weight] = pa.large_string()
        before = 0
        try:
            for columns in table.batches(types, layout.has_header):
                yield self._batch(columns, before)
                before += len(columns[0])
        except pa.ArrowInvalid as error:
            if integers:  # text below whole numbers, or a real mistake: look again
                raise NotIntegersError from None
            try:
                table.explain(error, types, layout.has_header)
            except InputError as first:
                raise self._all_faults(first) from None
        except InputError as first:
            raise self._all_faults(first) from None
        if not before:
            raise InputError(f"{table.path} has a header but no edges; it needs at least one")

    def fault(self, fields: Sequence[str]) -> str:
        """Say what is wrong with a row; "" if nothing is."""
        layout = self.layout
        for position in (layout.source, layout.target):
            if not fields[position].strip():
                return f"no id in column {position + 1}"
        if layout.weight is not None and not is_usable(number_of(fields[layout.weight].strip())):
            return f"the weight {fields[layout.weight].strip()!r}"
        return ""

    def _all_faults(self, first: InputError) -> InputError:
        return with_all_faults(first, self.table, self.layout.has_header, self.fault)

    def _batch(self, columns: list[pa.Array], before: int) -> Batch:
        layout = self.layout
        ends = [
            self._ids(column, position, before)
            for position, column in zip((layout.source, layout.target), columns[:2], strict=True)
        ]
        weights = None
        if layout.weight is not None:
            name = layout.names[layout.weight]
            weights = text_weights(columns[2], self.table, name, layout.has_header, before)
        # The stream does not tell how far it is; the rows so far against the bytes do, roughly.
        size = sum(column.nbytes for column in columns) or 1
        rows = max(1, len(columns[0]))
        expected = self.table.num_bytes / max(1.0, size / rows)
        return Batch(ends[0], ends[1], weights, min(1.0, (before + rows) / expected))

    def _ids(self, column: pa.Array, position: int, before: int) -> pa.Array:
        """Return ids without the blanks around them; an empty one is refused by its line."""
        if pa.types.is_integer(column.type):
            return column
        # Quotes protect blanks; without any quotes in the file "a, b" means b and not " b".
        if not self.table.quoted:
            # Blanks that a table may be padded with; a no-break space is part of an id.
            column = pc.ascii_trim_whitespace(column)
        where = pc.index(column, pa.scalar("", pa.large_string())).as_py()
        if where >= 0:
            line = self.table.line_of(before + where, self.layout.has_header)
            raise InputError(
                f"line {line:,} of {self.table.path} has no id in column {position + 1}; "
                f"every edge needs two endpoints"
            )
        return column
