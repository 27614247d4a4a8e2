"""Edge files of any size as a stream of batches."""

from __future__ import annotations

import contextlib
import gzip
import shutil
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from graphham.errors import InputError
from graphham.io.edges import (
    endpoints,
    refuse_blank_ids,
    text_layout,
    trim,
)
from graphham.io.encode import id_column
from graphham.io.files import check_file, kind_of
from graphham.io.textstream import StreamedTable
from graphham.io.weights import text_weights, weights_of

_BATCH_ROWS = 1 << 18


class NotIntegersError(Exception):
    """A file that began with whole numbers holds an id that is none: read everything as text."""


@dataclass(frozen=True)
class Batch:
    """Some edges of a file.

    Args:
        source: First ends without nulls, ``int64`` or text.
        target: Second ends.
        weights: One weight per edge, or ``None``.
        share: Share of the file that is read once this batch is.
    """

    source: pa.Array
    target: pa.Array
    weights: npt.NDArray[np.float64] | None
    share: float


class EdgeSource(Protocol):
    """A file of edges that can be read piece by piece, more than once."""

    path: Path
    num_bytes: int
    has_integers: bool
    header_note: str
    """What to remark about a header if ids turn out to be text."""
    first_line: tuple[str, ...] | None
    """The fields of the first line if it was read as an edge although it might be a header."""

    def batches(self, integers: bool) -> Iterator[Batch]:
        """Yield the edges; with ``integers`` a text id is a :class:`NotIntegersError`."""
        ...


def open_source(
    path: Path, source: str | None, target: str | None, weight: str | None, scratch: Path
) -> EdgeSource | None:
    """Open an edge file as a stream, or return ``None`` if it has to be read whole.

    Args:
        path: CSV, TSV, whitespace text (all also gzipped) or Parquet; other kinds are read whole.
        source: Name of the first endpoint column, or ``None``.
        target: Name of the second.
        weight: Name of the weight column, or ``None``.
        scratch: Folder for an unpacked copy of a gzipped file.
    """
    file = check_file(path, "edge")
    if not file.is_file():  # a pipe can be read once only
        return None
    with file.open("rb") as stream:
        start = stream.read(256)
    plain = file
    if start[:2] == b"\x1f\x8b":
        plain = _unpacked(file, scratch)
        with plain.open("rb") as stream:
            start = stream.read(256)
    kind = kind_of(file, start)
    if kind == "parquet":
        return _ParquetSource.open(plain, file, source, target, weight)
    if kind != "text":
        return None
    table = StreamedTable.open(plain, file)
    return None if table is None else _TextSource(table, source, target, weight)


def _unpacked(file: Path, scratch: Path) -> Path:
    place = scratch / f"unpacked-{len(list(scratch.glob('unpacked-*')))}"
    try:
        with gzip.open(file) as packed, place.open("wb") as out:
            shutil.copyfileobj(packed, out, 1 << 22)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError(
            f"the gzip file {file} is damaged or cut short; fetch or compress it again"
        ) from None
    if not place.stat().st_size:
        raise InputError(f"the file {file} is empty once unpacked; it needs at least one row")
    return place


class _ParquetSource:
    """Edges of a Parquet file, decoded a quarter of a million rows at a time."""

    header_note = ""
    first_line: tuple[str, ...] | None = None

    def __init__(self, file: Path, path: Path, names: list[str], kinds: list[Any]) -> None:
        self._file, self.path, self._names = file, path, names
        self.num_bytes = file.stat().st_size
        plain = [k.value_type if pa.types.is_dictionary(k) else k for k in kinds[:2]]
        self.has_integers = all(pa.types.is_integer(k) or pa.types.is_floating(k) for k in plain)

    @classmethod
    def open(
        cls, file: Path, path: Path, source: str | None, target: str | None, weight: str | None
    ) -> _ParquetSource | None:
        try:
            schema = pq.ParquetFile(file).schema_arrow
            names = [str(name) for name in schema.names]
        except (pa.ArrowException, OSError, ValueError, MemoryError):
            return None  # the whole reader says what is wrong
        if len(set(names)) < len(names) or len(names) < 2:
            return None
        s, t, w = endpoints(names, source, target, weight, str(path))
        wanted = [i for i in (s, t, w) if i is not None]
        return cls(file, path, [names[i] for i in wanted], [schema.types[i] for i in wanted])

    def batches(self, integers: bool) -> Iterator[Batch]:
        before = 0
        with self._refusing_damage():
            opened = pq.ParquetFile(self._file)
            total = max(1, opened.metadata.num_rows)
            stream = opened.iter_batches(_BATCH_ROWS, columns=self._names, use_threads=False)
        while True:
            with self._refusing_damage():
                batch = next(stream, None)
                if batch is None:
                    return
                # Pages carry no checksum by default, and texts may not even be UTF-8.
                batch.validate(full=True)
            yield self._checked(batch, before, total, integers)
            before += len(batch)

    def _checked(self, batch: pa.RecordBatch, before: int, total: int, integers: bool) -> Batch:
        weights = None
        if len(self._names) == 3:
            column = pa.chunked_array([batch.column(self._names[2])])
            weights = weights_of(column, self._names[2], str(self.path), before)
        ends = []
        for name in self._names[:2]:
            column = batch.column(name)
            if not pa.types.is_string(column.type):
                column = id_column(pa.chunked_array([column]), name, str(self.path))
                column = column.combine_chunks()
                if isinstance(column, pa.ChunkedArray):
                    column = pa.concat_arrays(column.chunks)
            if column.null_count:
                where = before + pc.index(pc.is_null(column), True).as_py()
                raise InputError(
                    f"row {where + 1:,} of {self.path} has no id in column {name!r}; "
                    f"every edge needs two endpoints"
                )
            is_integer = pa.types.is_integer(column.type)
            if integers and not is_integer:  # unsigned numbers beyond int64
                raise NotIntegersError
            ends.append(column.cast(pa.large_string()) if is_integer and not integers else column)
        return Batch(ends[0], ends[1], weights, (before + len(batch)) / total)

    @contextlib.contextmanager
    def _refusing_damage(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
            reason = str(error).splitlines()[0].rstrip(".")[:160]
            raise InputError(
                f"{self.path} is not a complete Parquet file, it may be cut short ({reason}); "
                f"write it again"
            ) from None


class _TextSource:
    """Edges of a delimited text file."""

    def __init__(
        self, table: StreamedTable, source: str | None, target: str | None, weight: str | None
    ) -> None:
        self._table = table
        self._layout = text_layout(table, source, target, weight)
        self.path, self.num_bytes = table.path, table.num_bytes
        self.has_integers = self._layout.has_integers and table.integers_are_exact()
        self.header_note = self._layout.header_note
        self.first_line = None if self._layout.has_header else self._layout.names

    def batches(self, integers: bool) -> Iterator[Batch]:
        table, layout = self._table, self._layout
        kind = pa.int64() if integers else pa.large_string()
        types = {layout.source: kind, layout.target: kind}
        if layout.weight is not None:
            types[layout.weight] = pa.large_string()
        before = 0
        try:
            for columns in table.batches(types, layout.has_header):
                table.rows_before = before
                yield self._checked([pa.chunked_array([c]) for c in columns])
                before += len(columns[0])
        except pa.ArrowInvalid as error:
            if integers:
                raise NotIntegersError from None
            table.explain(error, types, layout.has_header)
        if not before:
            raise InputError(f"{self.path} has a header but no edges; it needs at least one")

    def _checked(self, columns: list[pa.ChunkedArray]) -> Batch:
        table, layout = self._table, self._layout
        ends = []
        for position, raw in zip((layout.source, layout.target), columns[:2], strict=True):
            column = trim(raw, table)
            refuse_blank_ids(column, table, position, layout.has_header)
            ends.append(pa.concat_arrays(column.chunks))
        weights = None
        if layout.weight is not None:
            name = layout.names[layout.weight]
            weights = text_weights(columns[2], table, name, layout.has_header)
        # The stream does not tell how far it is; the rows so far against the bytes do, roughly.
        size = sum(column.nbytes for column in columns) or 1
        rows = max(1, len(columns[0]))
        guess = self.num_bytes / max(1.0, size / rows)
        return Batch(ends[0], ends[1], weights, min(1.0, (table.rows_before + rows) / guess))
