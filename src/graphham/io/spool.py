"""Collect the edges of a stream and make them a graph: in memory if small, else by way of disk.

Both ways give the same graph to the bit. The small one uses plain arrays and compiles nothing; the
large one codes ids in a hash table, keeps edges on disk and sorts them range by range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from graphham.errors import InputError
from graphham.graph.graph import Graph, ReadReport, build_graph, refuse_sum
from graphham.graph.ids import NodeIds
from graphham.io.array_edges import tidy_rows
from graphham.io.edge_streams import Batch, EdgeSource
from graphham.io.encode import Edges, as_exact_integers
from graphham.io.files import SpillFolder

if TYPE_CHECKING:
    from graphham.io.external_sort import SpoolFiles

Progress = Callable[[str, float], None]

_ID_SHARE = 0.6  # of the memory may go to the ids; sorting may take what they leave


class Spool:
    """Edges that wait until all are known; on disk once they are too many for memory.

    Args:
        sources: Where they come from.
        integers: The ids are ``int64`` and not text.
        spill: Where to put them, and how much may stay in memory.
        memory: How many bytes the ids and sorting may take once edges are on disk.
    """

    def __init__(
        self, sources: Sequence[EdgeSource], integers: bool, spill: SpillFolder, memory: int
    ) -> None:
        self._nodes = [source.nodes for source in sources if source.nodes is not None]
        self._row_ids, self._is_weighted = sources[0].row_ids, sources[0].is_weighted
        self._integers, self._spill, self._memory = integers, spill, memory
        self._batches: list[Batch] = []
        self._num_bytes = self.num_rows = 0
        self._files: SpoolFiles | None = None

    def add(self, batch: Batch) -> None:
        """Take in some edges."""
        self.num_rows += len(batch.source)
        if self._files is not None:
            self._write(batch)
            return
        self._batches.append(batch)
        parts = (batch.source, batch.target, batch.weights)
        self._num_bytes += sum(part.nbytes for part in parts if part is not None)
        if self._num_bytes > self._spill.in_memory_bytes:
            self._move_to_disk()

    def finish(self) -> NodeIds:
        """Give every id its row, once all edges are in, and return the ids in row order."""
        self._place: npt.NDArray[np.int32] | None = None
        if self._files is not None:
            self._table.forget_slots()
            values = None if self._row_ids is not None else self._table.ids()
        else:
            values = self._encode()
        if self._row_ids is not None:
            self._ids = self._row_ids
        else:
            self._ids, self._place = _in_order(values)
        return self._ids

    def pairs(self, first: int = 0) -> Iterator[npt.NDArray[np.int32]]:
        """Yield the ``(rows, 2)`` codes of the edges from one on as they came, once finished."""
        if self._files is None:
            yield self._codes[first:]
        else:
            yield from (pairs for pairs, _ in self._files.chunks(first))

    def graph(self, directed: bool, origin: str, name: str, progress: Progress) -> Graph:
        """Return the graph without duplicates and loops, rows sorted; the spool is then empty."""
        if self._files is not None:
            return self._sorted(directed, origin, name, progress)
        rows = self._codes if self._place is None else self._place[self._codes]
        edges = Edges(rows[:, 0], rows[:, 1], self._ids, self._weights)
        graph = graph_of_edges(edges, directed, origin, name)
        progress("Sorting", 1.0)
        return graph

    def _encode(self) -> Any:
        """Code the ids of edges in memory by order of appearance, and return the distinct ids."""
        batches, self._batches = self._batches, []
        self._weights = None
        if self._is_weighted:
            self._weights = np.concatenate([b.weights for b in batches if b.weights is not None])
        ends = [_joined([b.source for b in batches]), _joined([b.target for b in batches])]
        if self._row_ids is not None:
            self._codes = np.stack([end.to_numpy() for end in ends], axis=1)
            return None
        line_by_line = np.arange(2 * self.num_rows).reshape(2, -1).T.reshape(-1)
        ids = _joined([*self._nodes, _joined(ends).take(pa.array(line_by_line))])
        coded = ids.dictionary_encode()
        codes = coded.indices.to_numpy()[len(ids) - 2 * self.num_rows :]
        self._codes = codes.reshape(-1, 2)
        distinct = coded.dictionary
        return distinct.to_numpy() if self._integers else distinct

    def _move_to_disk(self) -> None:
        # The compiled code takes a while to load, which small files are spared.
        from graphham.io.external_sort import SpoolFiles
        from graphham.io.id_table import IdTable

        self._table = IdTable(int(self._memory * _ID_SHARE), self._integers)
        self._files = SpoolFiles(self._spill.path, self._is_weighted)
        for ids in self._nodes:
            self._table.encode(ids, ids)
        for batch in self._batches:
            self._write(batch)
        self._batches = []

    def _write(self, batch: Batch) -> None:
        assert self._files is not None
        if self._row_ids is None:
            codes = self._table.encode(batch.source, batch.target)
        else:
            ends = [end.to_numpy().astype(np.int32) for end in (batch.source, batch.target)]
            codes = np.stack(ends, axis=1)
        self._files.append(codes, batch.weights)

    def _sorted(self, directed: bool, origin: str, name: str, progress: Progress) -> Graph:
        from graphham.io.external_sort import WeightSumError, sort_spool

        assert self._files is not None
        left = self._memory - self._table.num_bytes
        try:
            rows = sort_spool(self._files, len(self._ids), self._place, directed, left, progress)
        except WeightSumError as error:
            refuse_sum(self._ids, error.row, error.other, error.total, origin)
        stored = len(rows.indices) // (1 if directed else 2)
        report = ReadReport(
            source=origin,
            rows_read=self.num_rows,
            duplicates_merged=self.num_rows - rows.self_loops - stored,
            self_loops_dropped=rows.self_loops,
            isolated=rows.isolated,
            components=rows.components,
        )
        graph = Graph(
            indptr=rows.indptr,
            indices=rows.indices,
            ids=self._ids,
            weights=rows.weights,
            directed=directed,
            name=name,
            report=report,
        )
        return _with_edges(graph, origin)


def graph_of_edges(edges: Edges, directed: bool, origin: str, name: str) -> Graph:
    """Build a graph from edges in memory, refusing one without an edge between two nodes."""
    edges = tidy_rows(edges, directed, origin)
    graph = build_graph(
        edges.source,
        edges.target,
        len(edges.ids),
        ids=edges.ids,
        weights=edges.weights,
        directed=directed,
        origin=origin,
        name=name,
    )
    return _with_edges(graph, origin)


def _with_edges(graph: Graph, origin: str) -> Graph:
    if graph.num_nodes < 2:
        raise InputError(
            f"{origin} has a single node; a graph needs at least two nodes and an edge between them"
        )
    if graph.num_edges == 0:
        raise InputError(
            f"{origin} has no edges between two different nodes; it needs at least one"
        )
    return graph


def in_memory(graph: Graph) -> Graph:
    """Return a graph whose arrays do not depend on files."""
    weights = None if graph.weights is None else np.array(graph.weights)
    return replace(graph, indices=np.array(graph.indices), weights=weights)


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    """Return arrays as one; unless all are whole numbers they become ``large_string``."""
    kind = parts[0].type if all(pa.types.is_integer(p.type) for p in parts) else pa.large_string()
    return pa.concat_arrays([part.cast(kind) for part in parts])


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
