"""Put a graph together from an edge file and optional tables, and say what was seen."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.graph import Graph, ReadReport, build_graph, fits_single
from graphham.io.edges import read_edges
from graphham.io.encode import Edges
from graphham.io.features import attach_features
from graphham.io.labels import attach_labels
from graphham.io.weights import advice_for


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

    Raises:
        InputError: Something cannot be used; the message is one sentence that says what to do.
    """
    path = Path(edges).expanduser()
    title = name or title_of(path)
    graph = graph_of_edges(
        read_edges(path, source, target, weight, directed), directed, str(path), title
    )
    if features is not None:
        graph = attach_features(graph, features, id_column, isolated, labels)
    if labels is not None:
        graph = attach_labels(graph, labels, id_column, isolated)
    return graph


def graph_of_edges(edges: Edges, directed: bool, origin: str, name: str) -> Graph:
    """Build a graph from edges, refusing one without a single edge between two nodes."""
    _refuse_odd_weights(edges, origin)
    if edges.is_matrix and not directed:
        edges = _upper_triangle(edges)
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
    if graph.num_nodes < 2:
        raise InputError(
            f"{origin} has a single node; a graph needs at least two nodes and an edge between them"
        )
    if graph.num_edges == 0:
        raise InputError(
            f"{origin} has no edges between two different nodes; it needs at least one"
        )
    assert graph.report is not None
    return replace(graph, report=replace(graph.report, notes=edges.notes))


def _refuse_odd_weights(edges: Edges, origin: str) -> None:
    if edges.weights is None:
        return
    odd = np.flatnonzero(~fits_single(edges.weights))
    if odd.size:
        first = int(odd[0])
        ends = edges.ids[int(edges.source[first])], edges.ids[int(edges.target[first])]
        raise InputError(
            f"the edge {ends[0]!r} - {ends[1]!r} of {origin} has the weight "
            f"{edges.weights[first]}; {advice_for(float(edges.weights[first]))}"
        )


def _upper_triangle(edges: Edges) -> Edges:
    """Make one edge of the two entries (i, j) and (j, i) of a matrix; the larger weight counts."""
    n = len(edges.ids)
    low, high = np.minimum(edges.source, edges.target), np.maximum(edges.source, edges.target)
    if edges.weights is None:
        key = np.unique(low * n + high)
        return replace(edges, source=key // n, target=key % n)
    shape = (n, n)
    matrix = sp.coo_matrix((edges.weights, (edges.source, edges.target)), shape=shape).tocsr()
    both = sp.triu(matrix.maximum(matrix.T)).tocoo()
    return replace(
        edges, source=both.row.astype(np.int64), target=both.col.astype(np.int64), weights=both.data
    )


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
