"""Put a graph together from an edge file and optional tables, and say what was seen."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from graphham.errors import InputError
from graphham.graph.graph import Graph, ReadReport
from graphham.graph.ids import NodeIds
from graphham.io.direction import MOST_ROWS, direction_remark
from graphham.io.edge_formats import open_edges
from graphham.io.edge_streams import EdgeColumns, EdgeSource, NotIntegersError, unread_notes
from graphham.io.features import attach_features
from graphham.io.files import IN_MEMORY_BYTES, SpillFolder
from graphham.io.labels import attach_labels
from graphham.io.parquet_edges import table_edges
from graphham.io.spool import Progress, Spool, in_memory


def _silent(stage: str, share: float) -> None:
    """Show no progress."""


def read_graph(
    edges: str | os.PathLike[str],
    *,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    directed: bool = False,
    features: Any = None,
    labels: Any = None,
    id_column: str | None = None,
    isolated: bool = False,
    name: str | None = None,
    skip_bad_rows: bool = False,
    fill_missing: str | None = None,
) -> Graph:
    """Read a graph from files.

    The first two columns of a table are the endpoints unless ``source`` and ``target`` name them.
    A header is recognised (see :func:`graphham.io.header.is_edge_header`; naming a column says that
    there is one), lines that begin with ``#`` or ``%`` are comments. Ids that are all whole numbers
    become integers with rows in ascending order; otherwise they stay text, with rows in order of
    first appearance. "007" and numbers beyond 64 bits are text: ids come back exactly as written.
    An npz holds ``edges`` (count, 2), or CSR parts (``data, indices, indptr, shape``), and
    optionally ``ids`` and ``weights``; GraphML keeps its isolated nodes.

    Args:
        edges: CSV, TSV or whitespace text (also .gz), Parquet, npz or GraphML (also .gz).
        source: Column of the first endpoint.
        target: Column of the second endpoint.
        weight: Column of the edge weights; without it every edge of a table weighs the same.
        directed: Keep the direction of edges.
        features: What :func:`attach_features` accepts; a label column of the same file is left out.
        labels: What :func:`attach_labels` accepts, such as ``"nodes.csv:section"``.
        id_column: Name of the id column in the feature and label tables.
        isolated: Admit nodes that occur in features or labels but in no edge.
        name: What to call the graph; the file's name if not given.
        skip_bad_rows: Leave rows out that cannot be used, and count and show them, instead of
            refusing the file.
        fill_missing: ``"mean"`` or ``"zero"`` for features that are missing.

    Raises:
        InputError: Something cannot be used; the message is one sentence that says what to do.
    """
    columns = EdgeColumns(source, target, weight, directed, skip_bad_rows)
    graph = read_edges([Path(edges).expanduser()], columns, name=name)
    if features is not None:
        graph = attach_features(
            graph,
            features,
            id_column,
            isolated,
            labels,
            fill_missing=fill_missing,
            skip_bad_rows=skip_bad_rows,
        )
    if labels is not None:
        graph = attach_labels(graph, labels, id_column, isolated, skip_bad_rows)
    return graph


def read_edges(
    paths: Sequence[Path],
    columns: EdgeColumns,
    *,
    name: str | None = None,
    scratch: Path | None = None,
    memory_bytes: int | None = None,
    in_memory_bytes: int = IN_MEMORY_BYTES,
    progress: Progress | None = None,
) -> Graph:
    """Read edge files of any format and size; several count as one, in the order given.

    Args:
        paths: The files.
        columns: Where in the files the edges are.
        name: What to call the graph; the first file's name if not given.
        scratch: An empty folder on a disk with room for about 24 bytes per edge row (40 with
            weights); the large parts of a large graph are mapped from it. Without it the graph
            is in memory, and what it takes to read a large one is put into a temporary folder.
        memory_bytes: About how much memory to use; too little for the ids is an error.
        in_memory_bytes: Edges that take less are read without touching the disk.
        progress: Told the stage and the share of it that is done.

    Raises:
        InputError: Something cannot be used; the message is one sentence that says what to do.
    """
    origin = str(paths[0])
    if len(paths) > 1:
        origin += f" and {len(paths) - 1:,} more file{'s' * (len(paths) > 2)}"

    def opened(spill: SpillFolder) -> list[EdgeSource]:
        return [open_edges(path, columns, spill) for path in paths]

    memory = 1 << 62 if memory_bytes is None else memory_bytes
    # Plain arrays take several times the size of the edges while they are sorted.
    spill = SpillFolder(scratch, min(in_memory_bytes, memory // 8))
    graph = _read(opened, columns.directed, origin, spill, memory, progress or _silent)
    return replace(graph, name=name or title_of(paths[0]))


def graph_of_table(
    table: pa.Table, directed: bool, origin: str, weight: str | None = None
) -> Graph:
    """Build a graph from a table in memory whose first two columns are the endpoints.

    Args:
        table: The table.
        directed: Keep the direction of edges.
        origin: What to call the table in messages.
        weight: Column of the weights; other columns are not read, and that is remarked.
    """
    columns = EdgeColumns(weight=weight)

    def opened(_: SpillFolder) -> list[EdgeSource]:
        return [table_edges(table, columns, origin)]

    return _read(opened, directed, origin, SpillFolder(), 1 << 62, _silent)


def _read(
    opened: Callable[[SpillFolder], list[EdgeSource]],
    directed: bool,
    origin: str,
    spill: SpillFolder,
    memory: int,
    progress: Progress,
) -> Graph:
    """Put a graph together from streams of edges."""
    try:
        sources = opened(spill)
        _refuse_unlike(sources)
        try:
            integers = all(source.has_integers for source in sources)
            spool, firsts = _spool(sources, integers, spill, memory, progress)
        except NotIntegersError:
            spool, firsts = _spool(sources, False, spill, memory, progress)
        if not spool.num_rows:
            raise InputError(f"{origin} has no edges; it needs at least one")
        ids = spool.finish()
        notes = _notes(sources, firsts, spool, ids)
        if spool.num_rows <= MOST_ROWS:
            remark = direction_remark(spool.pairs(), len(ids), directed)
            notes = notes if remark is None else (*notes, remark)
        graph = spool.graph(directed, origin, "graph", progress)
        assert graph.report is not None
        graph = replace(graph, report=replace(graph.report, notes=notes))
        return in_memory(graph) if spill.is_temporary else graph
    except OSError as error:
        raise InputError(
            f"reading {origin} by way of {spill.parent} failed ({error}); make room there for "
            f"about 24 bytes per edge row (40 with weights), or use another disk (TMPDIR)"
        ) from None
    finally:
        spill.close()


def _refuse_unlike(sources: Sequence[EdgeSource]) -> None:
    """Refuse files that cannot be read as one."""
    for source in sources:
        if source.row_ids is not None and len(sources) > 1:
            raise InputError(
                f"{source.origin} numbers its nodes by row, so it cannot be joined with other "
                f"files; read it alone or write its edges as pairs of ids"
            )
        if source.is_weighted != sources[0].is_weighted:
            raise InputError(
                f"only one of {sources[0].origin} and {source.origin} has weights; give all files "
                f"weights or none"
            )


def _spool(
    sources: Sequence[EdgeSource],
    integers: bool,
    spill: SpillFolder,
    memory: int,
    progress: Progress,
) -> tuple[Spool, list[int]]:
    """Collect all edges, on disk if they are many; also return the first row of each file."""
    spool = Spool(sources, integers, spill, memory)
    total = sum(source.num_bytes for source in sources)
    bytes_before = 0
    firsts: list[int] = []
    for source in sources:
        firsts.append(spool.num_rows)
        with _ahead(source.batches(integers)) as batches:
            for batch in batches:
                spool.add(batch)
                progress("Reading", (bytes_before + batch.share * source.num_bytes) / total)
        bytes_before += source.num_bytes
    return spool, firsts


@contextlib.contextmanager
def _ahead(items: Iterator[Any]) -> Iterator[Iterator[Any]]:
    """Take items from an iterator in a thread, one ahead of their use."""
    with ThreadPoolExecutor(1, "graphham-read") as pool:

        def taken() -> Iterator[Any]:
            coming = pool.submit(next, items, None)
            while (item := coming.result()) is not None:
                coming = pool.submit(next, items, None)
                yield item

        yield taken()


def _notes(
    sources: Sequence[EdgeSource], firsts: Sequence[int], spool: Spool, ids: NodeIds
) -> tuple[str, ...]:
    """Collect remarks, also on first lines that may have been misunderstood."""
    notes = []
    for source, first in zip(sources, firsts, strict=True):
        remarks = [*source.notes, *source.remarks(), *source.late_notes]
        if ids.kind == "text" and source.header_note:
            remarks.append(source.header_note)
        fields = source.first_line
        if ids.kind == "text" and fields is not None and _is_lonely(first, spool):
            remarks.append(
                f"the first line ({fields[0]!r}, {fields[1]!r}) was read as an edge; if it is a "
                f"header, name its columns with --source and --target"
            )
        notes += [r if len(sources) == 1 else f"{source.origin}: {r}" for r in remarks]
    return (*notes, *unread_notes(sources))


def _is_lonely(row: int, spool: Spool) -> bool:
    """Whether the ids of an edge occur in no other one."""
    if spool.num_rows < 3:
        return False
    ends = next(spool.pairs(row))[0]
    before = 0
    for pairs in spool.pairs():
        shared = before + np.flatnonzero(np.any(np.isin(pairs, ends), axis=1))
        if np.any(shared != row):
            return False
        before += len(pairs)
    return True


def expand_paths(names: Sequence[str]) -> list[Path]:
    """Return the files named; a folder stands for the Parquet files in it, by name."""
    files: list[Path] = []
    for name in names:
        path = Path(name).expanduser()
        inside = sorted(path.glob("*.parquet")) if path.is_dir() else []
        files += inside or [path]
    return files


def describe(report: ReadReport | None, graph: Graph) -> list[str]:
    """Say in a few lines what was read and what was done about it."""
    seen = report or ReadReport()
    rows = f"{_count(seen.rows_read, 'edge row')}, " if seen.rows_read else ""
    kind = "whole numbers" if graph.ids.kind == "integer" else "text"
    lines = [
        f"{rows}{_count(graph.num_nodes, 'node')} (ids: {kind}, kept), "
        f"{_count(graph.num_edges, 'directed edge' if graph.directed else 'edge')}"
        f"{' with weights' if graph.weights is not None else ''}"
    ]
    if report is not None:
        lines.append(
            f"{_count(seen.duplicates_merged, 'duplicate edge')} merged, "
            f"{_count(seen.self_loops_dropped, 'self-loop')} dropped, "
            f"{_count(seen.components, 'component')}, {_count(seen.isolated, 'isolated node')}"
        )
    if graph.features is not None:
        layout = "sparse" if graph.has_sparse_features else str(graph.features.dtype)
        lines.append(f"{_count(graph.num_features, 'feature')} ({layout})")
    if graph.labels is not None:
        kind = "multi-label" if graph.labels.is_multi else "one per node"
        lines.append(
            f"{_count(len(graph.labels.classes), 'class', 'classes')} ({kind}), labels known for "
            f"{_count(int(graph.labels.known.sum()), 'node')}"
        )
    return lines + [f"note: {note}" for note in seen.notes]


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def title_of(path: Path) -> str:
    """Return what to call the graph in a file."""
    name = path.name.removesuffix(".gz")
    return Path(name).stem or path.name
