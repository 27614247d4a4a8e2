"""Read a graph that need not fit into memory: ids in a table, edges on disk, rows range by range.

The result equals what :func:`graphham.io.read_graph` makes of the same edges, to the bit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.graph.graph import Graph, ReadReport, refuse_sum
from graphham.graph.ids import NodeIds
from graphham.io.edge_streams import EdgeSource, NotIntegersError, open_source
from graphham.io.edges import lonely_note
from graphham.io.encode import as_exact_integers
from graphham.io.external_sort import Spool, WeightSumError, sort_spool
from graphham.io.id_table import IdTable
from graphham.io.reader import title_of

Progress = Callable[[str, float], None]

_ID_SHARE = 0.6  # of the memory may go to the ids; sorting may take what they leave


def read_external(
    paths: Sequence[Path],
    scratch: Path,
    *,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    directed: bool = False,
    memory_gib: float = 4.0,
    progress: Progress | None = None,
) -> Graph | None:
    """Read edge files of any size into a graph whose large parts are mapped from ``scratch``.

    Several files count as one, in the order given.

    Args:
        paths: Parquet or delimited text (also gzipped).
        scratch: An empty folder on a disk with room for about 24 bytes per edge row (40 with
            weights); the graph is valid as long as it exists.
        source: Column of the first endpoint.
        target: Column of the second endpoint.
        weight: Column of the edge weights.
        directed: Keep the direction of edges.
        memory_gib: About how much memory to use; too little for the ids is an error.
        progress: Told the stage and the share of it that is done.

    Returns:
        The graph, or ``None`` if one of the files is of a kind that must be read whole.

    Raises:
        InputError: Something cannot be used; the message is one sentence that says what to do.
    """
    if not memory_gib > 0:
        raise InputError(f"--memory-gib is {memory_gib}; it must be above 0")
    asked = (source, target, weight)
    try:
        return _read(paths, scratch, asked, directed, int(memory_gib * 2**30), progress or _silent)
    except OSError as error:
        raise InputError(
            f"reading {paths[0]} by way of {scratch.parent} failed ({error}); make room there for "
            f"about 24 bytes per edge row (40 with weights), or write to another disk"
        ) from None


def _silent(stage: str, share: float) -> None:
    """Show no progress."""


def _read(
    paths: Sequence[Path],
    scratch: Path,
    asked: tuple[str | None, str | None, str | None],
    directed: bool,
    memory: int,
    report: Progress,
) -> Graph | None:
    sources = [open_source(path, *asked, scratch) for path in paths]
    streams = [s for s in sources if s is not None]
    if len(streams) < len(sources):
        return None
    integers = all(s.has_integers for s in streams)
    weighted = asked[2] is not None
    try:
        spool, table, firsts = _spool(streams, integers, weighted, scratch, memory, report)
    except NotIntegersError:
        spool, table, firsts = _spool(streams, False, weighted, scratch, memory, report)
    origin = str(paths[0])
    if len(paths) > 1:
        origin += f" and {len(paths) - 1:,} more file{'s' * (len(paths) > 2)}"
    if not spool.num_rows:
        raise InputError(f"{origin} has no edges; it needs at least one")
    ids, place = _in_order(table.ids())
    notes = _notes(streams, firsts, spool, ids)
    if len(ids) < 2:
        raise InputError(
            f"{origin} has a single node; a graph needs at least two nodes and an edge between them"
        )
    left = memory - table.num_bytes
    try:
        rows = sort_spool(spool, len(ids), place, directed, scratch, left, report)
    except WeightSumError as error:
        refuse_sum(ids, error.row, error.other, error.total, origin)
    if not len(rows.indices):
        raise InputError(
            f"{origin} has no edges between two different nodes; it needs at least one"
        )
    stored = len(rows.indices) // (1 if directed else 2)
    return Graph(
        indptr=rows.indptr,
        indices=rows.indices,
        ids=ids,
        weights=rows.weights,
        directed=directed,
        name=title_of(paths[0]),
        report=ReadReport(
            source=origin,
            rows_read=spool.num_rows,
            duplicates_merged=spool.num_rows - rows.self_loops - stored,
            self_loops_dropped=rows.self_loops,
            isolated=rows.isolated,
            components=rows.components,
            notes=notes,
        ),
    )


def _spool(
    streams: Sequence[EdgeSource],
    integers: bool,
    weighted: bool,
    scratch: Path,
    memory: int,
    progress: Progress,
) -> tuple[Spool, IdTable, list[int]]:
    """Encode every edge to disk; also return the first row of each file."""
    table = IdTable(int(memory * _ID_SHARE), integers)
    total = sum(s.num_bytes for s in streams)
    pairs_file, weights_file = scratch / "pairs", scratch / "pair-weights"
    num_rows, bytes_before = 0, 0
    firsts: list[int] = []
    with pairs_file.open("wb") as pairs, weights_file.open("wb") as values:
        for stream in streams:
            firsts.append(num_rows)
            with _ahead(stream.batches(integers)) as batches:
                for batch in batches:
                    table.encode(batch.source, batch.target).tofile(pairs)
                    if batch.weights is not None:
                        batch.weights.tofile(values)
                    num_rows += len(batch.source)
                    progress("Reading", (bytes_before + batch.share * stream.num_bytes) / total)
            bytes_before += stream.num_bytes
    table.forget_slots()
    return Spool(pairs_file, weights_file if weighted else None, num_rows), table, firsts


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


def _in_order(values: Any) -> tuple[NodeIds, npt.NDArray[np.int32] | None]:
    """Return the ids in row order and the row of each code if that differs.

    Whole numbers get rows in ascending order, text in order of first appearance.
    """
    numbers = values if isinstance(values, np.ndarray) else as_exact_integers(values)
    if numbers is None:
        return NodeIds(values), None
    order = np.argsort(numbers, kind="stable")
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return NodeIds(numbers[order]), place


def _notes(
    streams: Sequence[EdgeSource], firsts: Sequence[int], spool: Spool, ids: NodeIds
) -> tuple[str, ...]:
    """Remark on first lines that may have been misunderstood."""
    if ids.kind == "integer":
        return ()
    notes = []
    for stream, first in zip(streams, firsts, strict=True):
        note = stream.header_note
        if stream.first_line is not None and _is_lonely(first, spool):
            note = lonely_note(stream.first_line)
        if note:
            notes.append(note if len(streams) == 1 else f"{stream.path}: {note}")
    return tuple(notes)


def _is_lonely(row: int, spool: Spool) -> bool:
    """Whether the ids of an edge occur in no other one."""
    if spool.num_rows < 3:
        return False
    ends = np.fromfile(spool.pairs, np.int32, 2, offset=8 * row)
    before = 0
    for pairs, _ in spool.chunks():
        found: npt.NDArray[np.bool_] = np.any(np.isin(pairs, ends), axis=1)
        if before <= row < before + len(pairs):
            found[row - before] = False
        if found.any():
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
