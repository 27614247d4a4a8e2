"""Turn spooled edges into sorted rows on disk, holding one range of nodes in memory at a time.

The edges are dealt out to ranges of rows that each hold about as many entries as the processor's
cache, then every range is sorted on its own and appended to the result: sequential reading and
writing only, whatever the size of the graph.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.graph.graph import fits_single
from graphham.system.jit import exact, frozen, jit

Progress = Callable[[str, float], None]

_CHUNK = 1 << 20  # edges read from the spool at once
_RANGE = 1 << 20  # entries a range should hold: 8 MiB of keys
_MOST_RANGES = 1024
_BYTES_PER_ENTRY = 48  # while a range is sorted: keys, positions, weights, results
_BLOCKS = 1 << 14
_ONE_PLACE = threading.Lock()
_DIGIT = 11  # bits sorted by in one pass: as many stretches as the cache follows


class WeightSumError(Exception):
    """The weights of an edge's duplicates add up to more than single precision holds.

    Args:
        row: Row of the first end.
        other: Row of the second.
        total: The sum.
    """

    def __init__(self, row: int, other: int, total: float) -> None:
        super().__init__(row, other, total)
        self.row, self.other, self.total = row, other, total


class SpoolFiles:
    """Edges on disk in the order they were read: ``(rows, 2)`` int32 codes and float64 weights.

    Args:
        folder: Where to keep files.
        is_weighted: Edges have weights.
    """

    def __init__(self, folder: Path, is_weighted: bool) -> None:
        self.folder, self.is_weighted, self.num_rows = folder, is_weighted, 0
        self._pairs, self._weights = folder / "pairs", folder / "pair-weights"
        for file in (self._pairs, self._weights):
            file.write_bytes(b"")

    def append(self, pairs: npt.NDArray[np.int32], weights: npt.NDArray[np.float64] | None) -> None:
        """Write some edges behind the others."""
        for file, values in ((self._pairs, pairs), (self._weights, weights)):
            if values is not None:
                with file.open("ab") as stream:
                    values.tofile(stream)
        self.num_rows += len(pairs)

    def chunks(
        self, first: int = 0
    ) -> Iterator[tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]]:
        """Yield pairs and weights from a row on in pieces; no weights is an empty array."""
        none = np.empty(0, dtype=np.float64)
        for start in range(first, self.num_rows, _CHUNK):
            count = min(_CHUNK, self.num_rows - start)
            flat = np.fromfile(self._pairs, np.int32, 2 * count, offset=8 * start)
            weights = none
            if self.is_weighted:
                weights = np.fromfile(self._weights, np.float64, count, offset=8 * start)
            yield flat.reshape(-1, 2), weights

    def remove(self) -> None:
        """Give back the room on disk."""
        self._pairs.unlink()
        self._weights.unlink()


@dataclass(frozen=True)
class Rows:
    """A graph in compressed rows whose large parts are mapped files.

    Args:
        indptr: ``(num_nodes + 1,)`` int64 row bounds.
        indices: ``(num_stored,)`` int32 neighbours.
        weights: ``(num_stored,)`` float32, or ``None``.
        self_loops: How many edges were loops.
        components: Number of (weakly) connected components.
        isolated: Number of nodes without any edge.
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32] | None
    self_loops: int
    components: int
    isolated: int


def sort_spool(
    spool: SpoolFiles,
    num_nodes: int,
    place: npt.NDArray[np.int32] | None,
    directed: bool,
    memory_bytes: int,
    progress: Progress,
) -> Rows:
    """Merge duplicates, drop loops and sort, as :func:`graphham.graph.graph.build_graph` does.

    Args:
        spool: The edges; its files are removed, those of the result lie in its folder.
        num_nodes: Number of nodes.
        place: ``(num_nodes,)`` row of each code, or ``None`` if codes are rows.
        directed: Keep direction instead of storing every edge both ways.
        memory_bytes: How much memory sorting may take.
        progress: Told the stage and the share of it that is done.
    """
    move = frozen(np.empty(0, np.int32) if place is None else place)
    counts = np.zeros(num_nodes, dtype=np.int64)
    loops = done = 0
    for pairs, _ in spool.chunks():
        loops += int(_count(pairs, move, directed, counts))
        done += len(pairs)
        progress("Counting", done / spool.num_rows)
    plan = _Plan.of(counts, memory_bytes)
    _deal(spool, plan, move, directed, progress)
    return _sort_ranges(plan, spool.is_weighted, directed, loops, spool.folder, progress)


@dataclass(frozen=True)
class _Plan:
    """Which rows make up each range.

    Args:
        bounds: ``(ranges + 1,)`` first row of each range.
        starts: ``(ranges + 1,)`` first entry of each range.
        of_block: ``(blocks,)`` range of each block of ``1 << shift`` rows.
        shift: Size of a block.
        bits: Bits of a column in a key.
    """

    bounds: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    of_block: npt.NDArray[np.int32]
    shift: int
    bits: int

    @staticmethod
    def of(counts: npt.NDArray[np.int64], memory_bytes: int) -> _Plan:
        """Cut the rows into ranges of about equal work."""
        n, total = len(counts), int(counts.sum())
        size = max(_RANGE, total // _MOST_RANGES)
        shift = max(0, (n - 1).bit_length() - _BLOCKS.bit_length() + 1)
        blocks = np.add.reduceat(counts, np.arange(0, n, 1 << shift)) if n else counts
        before = np.cumsum(blocks) - blocks
        cuts = np.searchsorted(before, np.arange(size, total, size))
        firsts = np.unique(np.concatenate([[0], cuts[cuts < len(blocks)]]))
        of_block = np.zeros(len(blocks), dtype=np.int32)
        of_block[firsts[1:]] = 1
        of_block = np.cumsum(of_block, dtype=np.int32)
        bounds = np.append(firsts << shift, n)
        starts = np.append(before[firsts], total)
        largest = int(np.diff(starts).max())
        if largest * _BYTES_PER_ENTRY > memory_bytes:
            need = largest * _BYTES_PER_ENTRY / 2**30
            raise InputError(
                f"sorting needs {need:.2f} GiB and {memory_bytes / 2**30:.2f} GiB are left; "
                f"raise --memory-gib"
            )
        return _Plan(bounds, starts, of_block, shift, max(1, (n - 1).bit_length()))


def _deal(
    spool: SpoolFiles,
    plan: _Plan,
    move: npt.NDArray[np.int32],
    directed: bool,
    progress: Progress,
) -> None:
    """Write every entry as ``local row << bits | column`` into the stretch of its range."""
    folder, weighted = spool.folder, spool.is_weighted
    filled = plan.starts[:-1].copy()
    # Weights of duplicates are added in the order of build_graph: first all edges as written, then
    # all turned around. Without weights order is nothing and one pass is enough.
    turns: list[tuple[bool, bool]] = [(True, not directed)]
    if weighted and not directed:
        turns = [(True, False), (False, True)]
    with _positional(folder / "keys") as keys_file, _positional(folder / "values") as values_file:
        done = 0
        for forward, backward in turns:
            for pairs, weights in spool.chunks():
                count = len(pairs) * (forward + backward)
                keys = np.empty(count, dtype=np.uint64)
                values = np.empty(count if weighted else 0, dtype=np.float64)
                ends = np.zeros(len(filled) + 1, dtype=np.int64)
                args = (pairs, weights, move, plan.of_block, plan.bounds, plan.shift, plan.bits)
                _group(*args, forward, backward, ends, keys, values)
                for r in np.flatnonzero(np.diff(ends)):
                    piece = slice(ends[r], ends[r + 1])
                    _put(keys_file, keys[piece], 8 * int(filled[r]))
                    if weighted:
                        _put(values_file, values[piece], 8 * int(filled[r]))
                    filled[r] += ends[r + 1] - ends[r]
                done += len(pairs)
                progress("Dealing", done / (spool.num_rows * len(turns)))
    spool.remove()


def _sort_ranges(
    plan: _Plan, weighted: bool, directed: bool, loops: int, folder: Path, progress: Progress
) -> Rows:
    n, total = int(plan.bounds[-1]), int(plan.starts[-1])
    indptr = np.zeros(n + 1, dtype=np.int64)
    parent = np.arange(n, dtype=np.int32)
    touched = np.zeros(n, dtype=np.bool_)
    with (folder / "indices").open("wb") as out, (folder / "weights").open("wb") as out_weights:
        for r, (start, stop) in enumerate(zip(plan.starts[:-1], plan.starts[1:], strict=True)):
            keys = np.fromfile(folder / "keys", np.uint64, stop - start, offset=8 * int(start))
            values = np.empty(0, dtype=np.float64)
            if weighted:
                values = np.fromfile(
                    folder / "values", np.float64, stop - start, offset=8 * int(start)
                )
            keys, values = _sorted(keys, values)
            if weighted:
                keys, sums = _merged(keys, values)
                fits = fits_single(sums)
                if not bool(fits.all()):
                    worst = int(np.flatnonzero(~fits)[0])
                    row, column = divmod(int(keys[worst]), 1 << plan.bits)
                    raise WeightSumError(int(plan.bounds[r]) + row, column, float(sums[worst]))
                sums.astype(np.float32).tofile(out_weights)
            columns = np.empty(len(keys), dtype=np.int32)
            count = _unpack(
                keys, plan.bounds[r], plan.bits, directed, indptr, parent, touched, columns
            )
            columns[:count].tofile(out)
            progress("Sorting", float(stop) / total if total else 1.0)
    (folder / "keys").unlink()
    (folder / "values").unlink()
    np.cumsum(indptr, out=indptr)
    return Rows(
        indptr,
        _mapped(folder / "indices", np.int32),
        _mapped(folder / "weights", np.float32) if weighted else None,
        loops,
        int((parent == np.arange(n)).sum()),
        int(n - touched.sum()),
    )


def _sorted(
    keys: npt.NDArray[np.uint64], values: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float64]]:
    """Sort keys, and values along with them if there are any; equal keys stay in order."""
    bits = int(keys.max()).bit_length() if len(keys) else 0
    passes = max(1, -(-bits // _DIGIT))
    width = max(1, -(-bits // passes))
    other_keys, other_values = np.empty_like(keys), np.empty_like(values)
    for step in range(passes):
        _sort_by_digit(keys, values, step * width, width, other_keys, other_values)
        keys, other_keys = other_keys, keys
        values, other_values = other_values, values
    return keys, values


def _merged(
    keys: npt.NDArray[np.uint64], values: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float64]]:
    """Return each of some sorted keys once, with the sum of its weights in order of arrival."""
    first = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    # As build_graph adds them, so that both ways agree to the bit.
    sums = np.add.reduceat(values, starts) if len(starts) else values
    return keys[starts], sums


class _positional:  # noqa: N801 - reads as a function, as contextlib's own do
    """A file written to at any place."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> int:
        binary = getattr(os, "O_BINARY", 0)  # Windows would write line ends its own way
        self._handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | binary, 0o600)
        return self._handle

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)


def _put(handle: int, values: npt.NDArray[Any], offset: int) -> None:
    view = memoryview(values.view(np.uint8).data)
    while len(view):
        written = _write_at(handle, view, offset)
        view, offset = view[written:], offset + written


def _write_at(handle: int, view: memoryview, offset: int) -> int:
    if hasattr(os, "pwrite"):
        return os.pwrite(handle, view, offset)
    with _ONE_PLACE:  # Windows: a file has one place, which threads must not move for each other
        os.lseek(handle, offset, os.SEEK_SET)
        return os.write(handle, view)


def _mapped(file: Path, kind: Any) -> npt.NDArray[Any]:
    if file.stat().st_size == 0:
        return np.empty(0, kind)
    mapped: npt.NDArray[Any] = np.memmap(file, kind, "r")
    return mapped.view(np.ndarray)


@jit
def _count(pairs: Any, move: Any, directed: bool, counts: Any) -> Any:
    loops = 0
    moves = len(move) > 0
    for i in range(len(pairs)):
        s, t = pairs[i, 0], pairs[i, 1]
        if s == t:
            loops += 1
            continue
        if moves:
            s, t = move[s], move[t]
        counts[s] += 1
        if not directed:
            counts[t] += 1
    return loops


@jit
def _group(
    pairs: Any,
    weights: Any,
    move: Any,
    of_block: Any,
    bounds: Any,
    shift: Any,
    bits: Any,
    forward: bool,
    backward: bool,
    ends: Any,
    keys: Any,
    values: Any,
) -> None:
    """Group the entries of some edges by range; range ``r`` ends up in ``ends[r]:ends[r + 1]``."""
    moves, weighted = len(move) > 0, len(weights) > 0
    for step in range(2):
        for i in range(len(pairs)):
            s, t = np.int64(pairs[i, 0]), np.int64(pairs[i, 1])
            if s == t:
                continue
            if moves:
                s, t = np.int64(move[s]), np.int64(move[t])
            for turn in range(2):
                if (turn == 0 and forward) or (turn == 1 and backward):
                    row, column = (s, t) if turn == 0 else (t, s)
                    r = of_block[row >> shift]
                    if step == 0:
                        ends[r + 1] += 1
                    else:
                        at = ends[r]
                        ends[r] += 1
                        keys[at] = np.uint64(((row - bounds[r]) << bits) | column)
                        if weighted:
                            values[at] = weights[i]
        if step == 0:
            for r in range(1, len(ends)):
                ends[r] += ends[r - 1]
        else:
            # Every start has moved to its end, which is where the next one began.
            for r in range(len(ends) - 1, 0, -1):
                ends[r] = ends[r - 1]
            ends[0] = 0


@jit
def _sort_by_digit(
    keys: Any, values: Any, low: Any, width: Any, out_keys: Any, out_values: Any
) -> None:
    """Order keys by the ``width`` bits above bit ``low``, keeping the order of equal digits."""
    shift, mask = np.uint64(low), (np.uint64(1) << np.uint64(width)) - np.uint64(1)
    weighted = len(values) > 0
    ends = np.zeros((1 << width) + 1, dtype=np.int64)
    for key in keys:
        ends[np.int64((key >> shift) & mask) + 1] += 1
    for stop in range(1, len(ends)):
        ends[stop] += ends[stop - 1]
    for i in range(len(keys)):
        key = keys[i]
        digit = np.int64((key >> shift) & mask)
        at = ends[digit]
        ends[digit] = at + 1
        out_keys[at] = key
        if weighted:
            out_values[at] = values[i]


@exact
def _root(parent: Any, node: Any) -> Any:
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@jit
def _unpack(
    keys: Any,
    low: Any,
    bits: Any,
    directed: bool,
    sizes: Any,
    parent: Any,
    touched: Any,
    columns: Any,
) -> Any:
    """Write the columns of sorted keys, each key once; count them by row and join components."""
    mask = (np.int64(1) << bits) - 1
    count, last = 0, np.int64(-1)
    for i in range(len(keys)):
        key = np.int64(keys[i])
        if key == last:
            continue
        last = key
        row, column = low + (key >> bits), key & mask
        columns[count] = column
        count += 1
        sizes[row + 1] += 1
        touched[row] = True
        if directed:
            touched[column] = True
        if column > row and not directed:
            continue  # the other direction of the edge joins them
        a, b = _root(parent, row), _root(parent, column)
        if a < b:
            parent[b] = a
        elif b < a:
            parent[a] = b
    return count
