"""Tables about the datasets, for the command line and for reports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphham.datasets.catalog import DatasetInfo, dataset_info, dataset_names
from graphham.datasets.fetch import locate, search_folders

if TYPE_CHECKING:
    from graphham.graph.graph import Graph

Row = dict[str, Any]


def list_rows() -> list[Row]:
    """Return one row per dataset: name, what it is, its size, and whether it is here."""
    return [
        {
            "name": info.name,
            "title": info.title,
            "nodes": info.nodes,
            "edges": info.edges,
            "classes": info.classes,
            "status": _status(info),
        }
        for info in map(dataset_info, dataset_names())
    ]


def info_rows(name: str) -> list[tuple[str, str]]:
    """Return everything known about one dataset as pairs of what and value."""
    info = dataset_info(name)
    rows = [
        ("name", info.name),
        ("title", info.title),
        ("nodes", f"{info.nodes:,}"),
        ("edges", f"{info.edges:,} undirected, each once, no self-loops"),
        ("classes", str(info.classes)),
        ("features", info.features),
        ("source", info.source),
        ("licence", info.licence),
        ("status", _status(info)),
    ]
    if info.published:
        rows.append(("edges in the paper", f"{info.published.edges:,}"))
    if info.is_embedded:
        return rows
    rows.append(("looked for in", ", ".join(str(f / info.folder) for f in search_folders())))
    for file in info.files:
        rows.append(("file", f"{file.path} from {file.url or 'no public address'}"))
        rows.append(("checksum", _checksum(file.sha256, file.is_original)))
    if info.how_made:
        rows.append(("how it is made", info.how_made))
    return rows


def table1_rows(names: Sequence[str] | None = None, *, root: str | Path | None = None) -> list[Row]:
    """Return Table 1 of the paper, measured here beside what was published.

    Args:
        names: Which datasets; by default all that are on this machine, and the others of the paper
            with their published values alone. Asking by name downloads what is missing.
        root: Data folder to use in place of ``GRAPHHAM_DATA`` and the cache.

    Returns:
        Rows with ``name``; ``nodes``, ``edges`` (ours: undirected, once, no loops), ``raw_edges``
        (counted as the paper does), ``classes`` and ``clustering`` as measured, ``None`` where the
        data is not here; and the same with ``paper_`` in front as published (``paper_edges`` is to
        be compared with ``raw_edges``), ``None`` where the paper has no such graph.
    """
    from graphham.datasets import load_dataset

    rows = []
    for info in map(dataset_info, dataset_names() if names is None else names):
        is_here = info.is_embedded or locate(info, root) is not None
        if is_here or names is not None:
            rows.append(_measured(load_dataset(info.name, root=root), info))
        elif info.published:
            empty = dict.fromkeys(("nodes", "edges", "raw_edges", "classes", "clustering"))
            rows.append({"name": info.name, **empty, **_published(info)})
    return rows


def clustering_coefficient(graph: Graph) -> float:
    """Return the mean local clustering coefficient, 0 for nodes with fewer than two neighbours."""
    from graphham.graph.csr import mean_clustering

    return mean_clustering(graph.indptr, graph.indices)


def _measured(graph: Graph, info: DatasetInfo) -> Row:
    assert graph.labels is not None
    assert graph.report is not None
    return {
        "name": info.name,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "raw_edges": graph.report.rows_read * (2 if info.counts_both_ways else 1),
        "classes": len(graph.labels.classes),
        "clustering": clustering_coefficient(graph),
        **_published(info),
    }


def _published(info: DatasetInfo) -> Row:
    paper = info.published
    return {
        "paper_nodes": paper.nodes if paper else None,
        "paper_edges": paper.edges if paper else None,
        "paper_classes": paper.classes if paper else None,
        "paper_clustering": paper.clustering if paper else None,
    }


def _status(info: DatasetInfo) -> str:
    if info.is_embedded:
        return "in the package"
    if locate(info) is not None:
        return "on this machine"
    return "to download" if all(f.url for f in info.files) else "to be put there by hand"


def _checksum(sha256: str | None, is_original: bool) -> str:
    if sha256 is None:
        return "none known; verified by counts"
    if not is_original:
        return f"sha256 {sha256} for the pickle-free copy; the original is verified by counts"
    return f"sha256 {sha256}"
