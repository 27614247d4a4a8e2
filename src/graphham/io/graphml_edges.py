"""Edges of GraphML files, whose nodes count even without an edge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from graphham.errors import InputError
from graphham.io.edge_streams import Batch, EdgeColumns, EdgeSource
from graphham.io.files import Raw
from graphham.io.graphml import read_graphml


def open_graphml(path: Path, raw: Raw, columns: EdgeColumns) -> EdgeSource:
    """Read a GraphML file; its edges are one batch."""
    content = read_graphml(path, raw)
    if not content.source:
        raise InputError(f"{path} has no edges; it needs at least one")
    notes: tuple[str, ...] = ()
    if content.directed and not columns.directed:
        notes = ("the file calls its edges directed; they were read as undirected",)
    weights = None
    if columns.weight is not None:
        weights = content.edge_numbers(columns.weight, str(path))
    source, target, nodes = (
        pa.array(ids, pa.large_string()) for ids in (content.source, content.target, content.nodes)
    )

    def batches(integers: bool) -> Iterator[Batch]:
        yield Batch(source, target, weights)

    return EdgeSource(
        str(path),
        batches,
        has_integers=False,
        is_weighted=weights is not None,
        num_bytes=len(raw),
        nodes=nodes,
        notes=notes,
    )
