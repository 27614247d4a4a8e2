"""Open a table about nodes (features or labels), whatever it comes as."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from graphham.errors import InputError
from graphham.graph.ids import NodeIds
from graphham.io.bad_rows import (
    numbers_check,
    skipped_note,
    with_all_faults,
    without_bad_rows,
)
from graphham.io.edge_formats import kind_of
from graphham.io.encode import id_column as as_ids
from graphham.io.encode import listed, undo_dictionary
from graphham.io.files import Raw, check_file, read_parquet, read_raw
from graphham.io.graphml import read_graphml
from graphham.io.header import is_table_header
from graphham.io.text import TextTable

_NUMBER = r"^[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:inf(?:inity)?))$"
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")

# Every column of text takes some kilobytes, however short its cells are.
_MOST_COLUMNS = 100_000


class NodeTable:
    """A table with one id column; the other columns are read when asked for.

    Args:
        origin: What to call the table in messages.
        names: Column names; ``column 1``, ``column 2``, ... where the file has no header.
        content: An Arrow table, or delimited text that is not yet converted.
        has_header: Whether the first row of delimited text holds the names.
    """

    def __init__(
        self, origin: str, names: Sequence[str], content: pa.Table | TextTable, has_header: bool
    ) -> None:
        self.origin, self.names = origin, list(names)
        self._content, self._has_header = content, has_header

    @property
    def is_typed(self) -> bool:
        """Whether columns carry types of their own (Parquet, Arrow) or are text."""
        return not isinstance(self._content, TextTable)

    def position(self, name: str, what: str) -> int:
        """Return the position of a named column; an unknown name is an :class:`InputError`."""
        if name not in self.names:
            raise InputError(
                f"{self.origin} has no {what} column {name!r}; it has {listed(self.names)}"
            )
        return self.names.index(name)

    def ids(self, position: int) -> pa.ChunkedArray:
        """Read the id column as ``int64`` or ``large_string``; a missing id is refused."""
        column = as_ids(self.column(position), self.names[position], self.origin)
        if isinstance(self._content, TextTable) and not self._content.quoted:
            column = pc.ascii_trim_whitespace(column)
        blank = pc.is_null(column)
        if pa.types.is_large_string(column.type):
            blank = pc.or_kleene(blank, pc.equal(column, ""))
        where = pc.index(blank, True).as_py()
        if where >= 0:
            raise InputError(f"{self._place(where)} has no id; give every row the id of its node")
        return column

    def column(self, position: int) -> pa.ChunkedArray:
        """Read one column in its own type, as text if it has none."""
        if isinstance(self._content, TextTable):
            types = {position: pa.large_string()}
            return self._content.read(types, self._has_header)[0]
        return self._content.column(position)

    def numbers(self, positions: Sequence[int]) -> dict[int, pa.ChunkedArray]:
        """Read the numeric ones of some columns.

        Returns:
            ``float32`` columns by position, with nulls where a value is missing; text is left out.

        Raises:
            InputError: A column of delimited text is mostly numbers, but a cell of it is not.
        """
        if not isinstance(self._content, TextTable):
            columns = ((i, self._number(i)) for i in positions)
            return {i: column for i, column in columns if column is not None}
        kept = list(positions)
        if not kept:
            return {}
        if len(kept) > _MOST_COLUMNS:
            raise InputError(
                f"{self.origin} has {len(kept):,} columns to be read as numbers, and text may have "
                f"{_MOST_COLUMNS:,}; write so wide a table as a sparse npz file"
            )
        kinds = dict.fromkeys(kept, pa.float32())
        numbers = self._content.try_read(kinds, self._has_header, MISSING)
        if numbers is None:
            # The slow way, which a table of nothing but numbers never goes.
            texts = self._content.read(dict.fromkeys(kept, pa.large_string()), self._has_header)
            kept = [i for i, cells in zip(kept, texts, strict=True) if not _is_text(cells)]
            kinds = dict.fromkeys(kept, pa.float32())
            numbers = self._content.read(kinds, self._has_header, MISSING) if kept else []
        return dict(zip(kept, numbers, strict=True))

    def _number(self, position: int) -> pa.ChunkedArray | None:
        column = undo_dictionary(self.column(position))
        kind = column.type
        if pa.types.is_null(kind):
            return pa.chunked_array([pa.nulls(len(column), pa.float32())])
        if pa.types.is_boolean(kind):
            return column.cast(pa.uint8()).cast(pa.float32())
        numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        if not numeric and not pa.types.is_decimal(kind):
            return None
        middle = column.cast(pa.float64()) if pa.types.is_decimal(kind) else column
        return middle.cast(pa.float32(), safe=False)

    def leave_out_bad_rows(self, key: int, others: Sequence[int], skip: bool) -> list[str]:
        """Find the rows of delimited text that cannot be read; refuse all of them, or skip them.

        Args:
            key: Position of the id column.
            others: Positions of the columns to be read as numbers where they are.
            skip: Leave bad rows out and return what to remark.
        """
        text = self._content
        if not isinstance(text, TextTable):
            return []
        kinds = dict.fromkeys([key, *others], pa.large_string())
        try:
            self.numbers(others)
            self.ids(key)
            return []
        except InputError as error:
            cells = text.try_read(kinds, self._has_header)
            numeric: list[int] = []
            if cells is not None:
                numeric = [
                    i for i, c in zip(kinds, cells, strict=True) if i != key and not _is_text(c)
                ]
            check = numbers_check(numeric, self.names, MISSING, key)
            if not skip:
                raise with_all_faults(error, text, self._has_header, check) from None
            kept, faults = without_bad_rows(text, self._has_header, check)
            if not faults:
                raise
        self._content = kept
        # Rows of another length hid what the columns are; now their cells can be judged too.
        more = self.leave_out_bad_rows(key, others, skip) if not numeric else []
        return [skipped_note(faults, self.origin), *more]

    def _place(self, row: int) -> str:
        if isinstance(self._content, TextTable):
            line = self._content.line_of(row, self._has_header)
            return f"line {line:,} of {self.origin}"
        return f"row {row + 1:,} of {self.origin}"


def _is_text(cells: pa.ChunkedArray) -> bool:
    """Whether half of the filled cells are no numbers; fewer are mistakes in a numeric column."""
    trimmed = pc.utf8_trim_whitespace(cells)
    filled = trimmed.filter(pc.invert(pc.is_in(trimmed, pa.array(MISSING, pa.large_string()))))
    count = pc.sum(pc.match_substring_regex(filled, _NUMBER)).as_py() or 0
    return bool(0 < len(filled) >= 2 * count)


def split_spec(spec: str | os.PathLike[str]) -> tuple[Path, str | None]:
    """Split ``FILE:column`` at the last colon that leaves an existing file on its left."""
    text = os.fspath(spec)
    whole = Path(text).expanduser()
    if whole.exists() or ":" not in text:
        return whole, None
    colons = [i for i, sign in enumerate(text) if sign == ":"]
    for place in reversed(colons):
        if Path(text[:place]).expanduser().is_file() and text[place + 1 :]:
            return Path(text[:place]).expanduser(), text[place + 1 :]
    # Nothing exists: take the likeliest file for the message ("C:\labels.csv" has a colon too).
    left, _, column = text.rpartition(":")
    return (Path(left).expanduser(), column) if column and len(left) > 1 else (whole, None)


def open_file(path: str | os.PathLike[str], what: str) -> tuple[Any, Raw, str]:
    """Return path, bytes and kind of a file about nodes."""
    file = check_file(path, what)
    raw = read_raw(file)
    return file, raw, kind_of(file, raw)


def node_table(
    file: Any, raw: Raw, kind: str, what: str, graph_ids: NodeIds, named: Sequence[str]
) -> NodeTable:
    """Open the table in a file.

    Args:
        file: Its path.
        raw: Its bytes.
        kind: Its format; ``text``, ``parquet`` or ``graphml`` (the table of node attributes).
        what: "feature" or "label", for messages.
        graph_ids: The ids of the graph; a first row that begins with one of them is likely data.
        named: Column names the user gave; if there are any, the first row must hold names.
    """
    if kind == "parquet":
        table = read_parquet(file, raw)
        return NodeTable(str(file), table.column_names, table, True)
    if kind == "graphml":
        table = read_graphml(file, raw).node_table()
        return NodeTable(str(file), table.column_names, table, True)
    if kind != "text":
        raise InputError(f"{file} is not a table; give the {what}s as CSV, TSV or Parquet")
    text = TextTable(file, raw, f"{what}s")
    first = [f.strip() for f in text.sample[0]]
    if len(first) < 2:
        line = text.line_of(0, False)
        raise InputError(
            f"line {line:,} of {file} has one field ({first[0]!r}); a {what} table needs an id "
            f"column and at least one more"
        )
    is_node = bool(graph_ids.find([first[0]])[0] >= 0)
    has_header = bool(named) or is_table_header(text.sample, is_node, what == "feature")
    names = first if has_header else [f"column {i + 1}" for i in range(len(first))]
    return NodeTable(str(file), names, text, has_header)


def frame_table(frame: Any, origin: str) -> NodeTable:
    """Wrap an Arrow, polars or pandas frame."""
    table = as_arrow(frame)
    return NodeTable(origin, table.column_names, table, True)


def is_frame(value: Any) -> bool:
    """Whether a value is a data frame of some kind."""
    known = ("__arrow_c_stream__", "__dataframe__", "to_arrow")
    if isinstance(value, np.ndarray):
        return False
    return _is_lazy(value) or any(hasattr(value, name) for name in known)


def _is_lazy(value: Any) -> bool:
    """Whether a value is a LazyFrame of polars, which is a plan and no data yet."""
    return type(value).__name__ == "LazyFrame" and callable(getattr(value, "collect", None))


def as_arrow(frame: Any) -> pa.Table:
    """Turn an Arrow, polars or pandas frame into an Arrow table, sharing memory where it can."""
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.table(frame)
    if _is_lazy(frame):
        frame = frame.collect()
    try:
        if type(frame).__module__.partition(".")[0] == "pandas":
            return pa.Table.from_pandas(frame, preserve_index=False)
        if hasattr(frame, "__arrow_c_stream__"):
            return pa.table(frame)
        if hasattr(frame, "to_arrow"):
            return pa.table(frame.to_arrow())
        from pyarrow import interchange

        return interchange.from_dataframe(frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0][:160]
        raise InputError(
            f"the {type(frame).__name__} cannot be read as a table ({reason}); give columns of "
            f"one type each"
        ) from None


def match_ids(
    rows: npt.NDArray[np.int64], ids: pa.ChunkedArray, isolated: bool, what: str, origin: str
) -> npt.NDArray[np.int64]:
    """Return the positions of table rows whose id is not in the graph, or refuse them."""
    unknown = np.flatnonzero(rows < 0)
    if unknown.size and not isolated:
        first = ids[int(unknown[0])].as_py()
        more = f" and {unknown.size - 1:,} more" if unknown.size > 1 else ""
        raise InputError(
            f"the {what} table {origin} ({len(ids):,} rows) has the id {first!r}{more}, which is "
            f"in no edge; correct it, or admit nodes without edges with --isolated (isolated=True)"
        )
    return unknown
