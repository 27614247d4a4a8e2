"""Edges of Parquet files and of tables in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from graphham.errors import InputError
from graphham.graph.graph import fits_single
from graphham.io.edge_streams import Batch, EdgeColumns, EdgeSource, NotIntegersError
from graphham.io.encode import id_column
from graphham.io.files import (
    Raw,
    forget_pages,
    open_parquet_file,
    parquet_batches,
    refusing_damage,
)
from graphham.io.weights import weights_of


def open_parquet(path: Path, raw: Raw, columns: EdgeColumns) -> EdgeSource:
    """Open a Parquet file, to be decoded a quarter of a million rows at a time."""
    with refusing_damage(path):
        schema = open_parquet_file(raw).schema_arrow
        pa.array([str(name) for name in schema.names])  # a damaged name is not even text
    pieces = partial(_pieces, path, raw)
    return _source(schema, columns, str(path), pieces, len(raw))


def table_edges(table: pa.Table, columns: EdgeColumns, origin: str) -> EdgeSource:
    """Take the edges out of an Arrow table."""
    pieces = partial(_rows_of, table)
    source = _source(table.schema, columns, origin, pieces, max(1, table.nbytes))
    return replace(source, how_to_weigh="")


def _source(
    schema: pa.Schema, columns: EdgeColumns, origin: str, pieces: Any, num_bytes: int
) -> EdgeSource:
    names = [str(name) for name in schema.names]
    if len(names) < 2:
        raise InputError(
            f"{origin} has {len(names)} column where an edge needs two; give a source and a target"
        )
    chosen = [i for i in columns.positions(names, origin) if i is not None]
    kinds = [schema.types[i] for i in chosen[:2]]
    plain = [k.value_type if pa.types.is_dictionary(k) else k for k in kinds]

    late_notes: list[str] = []

    def batches(integers: bool) -> Iterator[Batch]:
        late_notes.clear()
        before, faults = 0, [0, 0]
        for piece, total in pieces(chosen):
            after = before + len(piece)
            if columns.skip_bad_rows:
                piece = _usable(piece, before, faults)
            yield _batch(piece, [names[i] for i in chosen], origin, (before, total), integers)
            before = after
        if faults[0]:
            late_notes.append(
                f"{faults[0]:,} bad rows were left out of {origin}; the first is row {faults[1]:,}"
            )

    return EdgeSource(
        origin,
        batches,
        has_integers=all(pa.types.is_integer(k) or pa.types.is_floating(k) for k in plain),
        is_weighted=columns.weight is not None,
        num_bytes=num_bytes,
        late_notes=late_notes,
        unread=tuple(name for i, name in enumerate(names) if i not in chosen),
    )


def _usable(piece: pa.RecordBatch, before: int, faults: list[int]) -> pa.RecordBatch:
    """Return the rows with both ends and a weight that can be used; count the others."""
    good = pc.and_(pc.is_valid(piece.column(0)), pc.is_valid(piece.column(1)))
    keep = good.to_numpy(zero_copy_only=False)
    if piece.num_columns == 3 and _is_numeric(piece.schema.types[2]):
        values = piece.column(2).cast(pa.float64()).to_numpy(zero_copy_only=False)
        keep = keep & fits_single(values)
    bad = np.flatnonzero(~keep)
    if bad.size:
        faults[1] = faults[1] or before + int(bad[0]) + 1
        faults[0] += bad.size
        piece = piece.filter(pa.array(keep))
    return piece


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _pieces(path: Path, raw: Raw, chosen: list[int]) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield some columns of a Parquet file batch by batch, and its number of rows."""
    with refusing_damage(path):
        names = open_parquet_file(raw).schema_arrow.names
    # Columns are asked for by name; where names repeat only their place tells them apart.
    asked = [names[i] for i in chosen] if len(set(names)) == len(names) else None
    for batch, total in parquet_batches(path, raw, asked):
        yield batch.select(asked or chosen), total
        forget_pages(raw)


def _rows_of(table: pa.Table, chosen: list[int]) -> Iterator[tuple[pa.RecordBatch, int]]:
    for batch in table.select(chosen).to_batches():
        yield batch, len(table)


def _batch(
    piece: pa.RecordBatch,
    names: list[str],
    origin: str,
    progress: tuple[int, int],
    integers: bool,
) -> Batch:
    """Check some rows; ``progress`` is how many came before them, and how many there are."""
    before, total = progress
    weights = None
    if len(names) == 3:
        weights = weights_of(piece.column(2), names[2], origin, before)
    ends = []
    for column, name in zip(piece.columns[:2], names[:2], strict=True):
        if not pa.types.is_string(column.type):
            column = id_column(column, name, origin)
        if column.null_count:
            where = before + pc.index(pc.is_null(column), True).as_py()
            raise InputError(
                f"row {where + 1:,} of {origin} has no id in column {name!r}; "
                f"every edge needs two endpoints"
            )
        is_integer = pa.types.is_integer(column.type)
        if integers and not is_integer:  # unsigned numbers beyond int64
            raise NotIntegersError
        ends.append(column.cast(pa.large_string()) if is_integer and not integers else column)
    return Batch(ends[0], ends[1], weights, (before + len(piece)) / max(1, total))
