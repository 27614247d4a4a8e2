"""Named datasets: two ship with the package, the others come from their authors' files.

``load_dataset("cora")`` needs nothing. For the others the files are looked for below
``GRAPHHAM_DATA``, then in the cache folder, and are downloaded into the cache if in neither.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from graphham.datasets.catalog import (
    CATALOG,
    DataFile,
    DatasetInfo,
    Published,
    dataset_info,
    dataset_names,
)
from graphham.datasets.fetch import Progress, fetch
from graphham.datasets.table import info_rows, list_rows, table1_rows
from graphham.errors import InputError
from graphham.system.folders import cache_folder

if TYPE_CHECKING:
    from graphham.graph.graph import Graph

__all__ = [
    "CATALOG",
    "DataFile",
    "DatasetInfo",
    "Published",
    "cache_folder",
    "dataset_info",
    "dataset_names",
    "fetch_dataset",
    "info_rows",
    "list_rows",
    "load_dataset",
    "table1_rows",
]


def load_dataset(
    name: str, *, root: str | Path | None = None, progress: bool | Progress = True
) -> Graph:
    """Return a dataset as a graph, downloading its files first if they are not on this machine.

    Args:
        name: One of :func:`dataset_names`.
        root: Data folder to use in place of ``GRAPHHAM_DATA`` and the cache.
        progress: Show a bar while downloading; or a function to tell.
    """
    info = dataset_info(name)
    reader = importlib.import_module(f"graphham.datasets.{info.format}")
    if info.is_embedded:
        graph: Graph = reader.load(info)
    else:
        folder = fetch(info, root, progress)
        graph = reader.load(folder, info)
        _check_counts(graph, info, folder)
    return graph


def fetch_dataset(
    name: str, *, root: str | Path | None = None, progress: bool | Progress = True
) -> Path | None:
    """Download a dataset if need be and return its folder; ``None`` for embedded ones."""
    info = dataset_info(name)
    return None if info.is_embedded else fetch(info, root, progress)


def _check_counts(graph: Graph, info: DatasetInfo, folder: Path) -> None:
    """Refuse files that are well-formed but hold another graph."""
    assert graph.labels is not None
    counts = (graph.num_nodes, graph.num_edges, len(graph.labels.classes))
    if counts != (info.nodes, info.edges, info.classes):
        raise InputError(
            f"the files in {folder} hold {counts[0]:,} nodes, {counts[1]:,} edges and {counts[2]} "
            f"classes where {info.name!r} has {info.nodes:,}, {info.edges:,} and {info.classes}; "
            f"remove them and run 'graphham data get {info.name}'"
        )
