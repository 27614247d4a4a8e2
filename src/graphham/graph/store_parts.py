"""A store cut into parts by ranges of nodes, for jobs whose machines cannot hold all of it.

Each part is a store of its own whose large files have holes outside its range. What processes ask
each other for is in :mod:`graphham.parallel.partitioned_graph`.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.graph import Graph, Part
from graphham.graph.spans import span_bounds, span_of
from graphham.graph.store import (
    StoreWriter,
    is_store,
    open_any,
    open_store,
    read_part,
    refuse_taken,
    store_bytes,
)
from graphham.system.disk_room import is_full, naming_full_disk, reason_of
from graphham.system.scratch import publish, scratch_beside


def split_store(
    path: str | os.PathLike[str], parts: int, out: str | os.PathLike[str], overwrite: bool = False
) -> Path:
    """Cut a store into parts by ranges of nodes, one per process of a job; return their folder.

    Every part is a store with all row bounds, ids and labels, but only its own nodes' neighbours
    and features: the rest of these files is a hole that takes no room on disk.

    Args:
        path: The whole store: undirected, without weights, with dense features.
        parts: Number of parts.
        out: The folder to make; it holds ``part-0``, ``part-1``, ... which may go to different
            machines (with a tool that keeps holes, such as ``rsync --sparse``).
        overwrite: Replace an existing folder of parts (never anything else).
    """
    graph = open_store(path)
    folder = Path(out).expanduser()
    refuse_taken(folder, overwrite, "a folder of parts", is_split)
    if graph.directed or graph.weights is not None:
        raise InputError("only an undirected graph without weights can be split")
    if graph.features is None or sp.issparse(graph.features):
        raise InputError("only a graph with dense features can be split; ingest it with such")
    n = graph.num_nodes
    if not 2 <= parts <= -(-n // span_of(n)):
        most = -(-n // span_of(n))
        raise InputError(f"{parts} parts were asked for; this graph can be cut into 2 to {most}")
    advice = "nothing was kept, so make room or choose another --out and run the command again"
    with (
        scratch_beside(folder) as scratch,
        naming_full_disk(folder, store_bytes(graph), advice),
    ):
        try:
            made = scratch / "split"
            made.mkdir()
            whole = graph.fingerprint()
            bounds = span_bounds(n, parts, span_of(n))
            for number, (first, last) in enumerate(itertools.pairwise(bounds)):
                place = made / f"part-{number}"
                place.mkdir()
                part = Part(number, parts, first, last, whole)
                StoreWriter(place, part).write(graph)
            refuse_taken(folder, overwrite, "a folder of parts", is_split)
            publish(made, folder)
        except OSError as error:
            if is_full(error):
                raise
            raise InputError(
                f"cannot write {folder}: {reason_of(error)}; nothing was kept"
            ) from None
    return folder


def is_split(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a folder of parts written by :func:`split_store`, and of nothing else."""
    folder = Path(path)
    if not folder.is_dir():
        return False
    names = [place.name for place in folder.iterdir()]
    return bool(names) and len(list_parts(folder)) == len(names)


def list_parts(path: str | os.PathLike[str]) -> list[tuple[str, int, int]]:
    """Return the name, the first node and one past the last node of every part that is here."""
    opened = (
        (place.name, read_part(place)) for place in Path(path).glob("part-*") if is_store(place)
    )
    parts = sorted((part.number, name, part) for name, part in opened if part is not None)
    return [(name, part.first, part.last) for _, name, part in parts]


def open_part(path: str | os.PathLike[str], number: int, count: int) -> Graph:
    """Open one process's part of a split store.

    Args:
        path: A folder written by :func:`split_store`.
        number: Number of the process.
        count: Number of processes of the job.
    """
    folder = Path(path).expanduser()
    opened = (read_part(place) for place in folder.glob("part-*") if is_store(place))
    parts = next(opened, None)
    if parts is None:
        raise InputError(f"{folder} holds no parts of a store; make them with 'graphham split'")
    if parts.count != count:
        raise InputError(
            f"{folder} holds a store in {parts.count} parts, which takes {parts.count} processes, "
            f"not {count}: give --processes {parts.count}, or split the store anew"
        )
    if not is_store(folder / f"part-{number}"):
        raise InputError(f"{folder} has no part-{number} on this machine; copy it there")
    return open_any(folder / f"part-{number}", advice="split the store again")
