"""Open whatever a user calls a graph (dataset, store, file or object); it is decided here only."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.graph.node_rows import NodeRows
from graphham.graph.store import MANIFEST, holds_parts, open_store
from graphham.io.adapters import from_hetero, from_igraph, from_networkx, from_pyg
from graphham.io.array_edges import edges_of_matrix
from graphham.io.features import attach_features
from graphham.io.labels import attach_labels
from graphham.io.listed_edges import table_of_array, table_of_pairs
from graphham.io.node_tables import as_arrow, is_frame
from graphham.io.reader import graph_of_table, read_graph
from graphham.io.spool import graph_of_edges


def as_graph(
    obj: Any,
    features: Any = None,
    labels: Any = None,
    directed: bool | None = None,
    edge_type: Any = None,
) -> Graph:
    """Turn what the user has into a :class:`Graph`.

    Args:
        obj: A :class:`Graph`; the name of a dataset; a path to a store or an edge file; a NetworkX
            or igraph graph; a square SciPy matrix (ids are ``0..n-1``); an object with
            ``edge_index`` such as PyG's ``Data``, or PyG's ``HeteroData``; an Arrow, polars (also
            lazy) or pandas frame of edges (first two columns); a NumPy array of two columns, or a
            list of pairs, each with a third one for weights.
        features: Replaces the features; see :func:`graphham.io.attach_features`.
        labels: Replaces the labels; see :func:`graphham.io.attach_labels`.
        directed: Keep direction. Without it, a directed NetworkX graph stays directed and all else
            is undirected; a :class:`Graph`, dataset or store stays what it is.
        edge_type: Which edges of ``HeteroData`` to take.

    Raises:
        InputError: The object is of no known kind, or something in it cannot be used.
    """
    graph = _convert(obj, directed, edge_type)
    if directed is not None and graph.directed != directed:
        raise InputError(
            f"{graph.name} is {'directed' if graph.directed else 'undirected'} already; "
            f"read it from its edges to change that"
        )
    if features is not None:
        graph = attach_features(graph, features, labels=labels)
    if labels is not None:
        graph = attach_labels(graph, labels)
    return graph


def _convert(obj: Any, directed: bool | None, edge_type: Any = None) -> Graph:
    if isinstance(obj, Graph):
        return obj
    if isinstance(obj, NodeRows):
        raise InputError(
            "some nodes of a graph were given where a whole graph is needed; give their .graph"
        )
    if isinstance(obj, str | os.PathLike):
        return _from_path(obj, bool(directed))
    if callable(getattr(obj, "is_directed", None)) and hasattr(obj, "adj"):
        return from_networkx(obj, directed)
    if callable(getattr(obj, "get_edgelist", None)) and hasattr(obj, "vs"):
        return from_igraph(obj, directed)
    if hasattr(obj, "edge_types") and hasattr(obj, "node_types"):
        return from_hetero(obj, bool(directed), edge_type)
    if sp.issparse(obj):
        edges = edges_of_matrix(obj, None, "the matrix")
        return graph_of_edges(edges, bool(directed), "the matrix", "graph")
    if is_frame(obj):
        return graph_of_table(as_arrow(obj), bool(directed), "the edge frame")
    if hasattr(obj, "edge_index"):
        return from_pyg(obj, bool(directed))
    if isinstance(obj, np.ndarray | list | tuple | set | frozenset):
        table = table_of_array(obj) if isinstance(obj, np.ndarray) else table_of_pairs(obj)
        weight = "weight" if table.num_columns == 3 else None
        return graph_of_table(table, bool(directed), "the edges", weight)
    raise InputError(
        f"a {type(obj).__name__} is not a graph; give a Graph, a path, a dataset name, a NetworkX "
        f"or igraph graph, a SciPy sparse matrix, PyG data, or edges as a frame, array or list"
    )


def as_nodes(obj: Any) -> tuple[Graph, npt.NDArray[np.int64] | None]:
    """Return the graph that the user means, and its rows where they chose some of its nodes."""
    if isinstance(obj, NodeRows):
        return obj.graph, obj.rows
    return as_graph(obj), None


def labels_at(graph: Graph, rows: npt.NDArray[np.int64], y: Any) -> Graph:
    """Return the graph with labels for some rows only; the others are unknown.

    Args:
        graph: The graph.
        rows: Rows that ``y`` speaks of; no others keep their labels.
        y: One label per row, or ``None`` for the graph's own.
    """
    if y is None:
        if graph.labels is None:
            return graph
        known = graph.labels.values()
        y = [known[row] for row in rows.tolist()]
    values = y.tolist() if hasattr(y, "tolist") else list(y)
    if len(values) != len(rows):
        raise InputError(f"there are {len(values):,} labels for {len(rows):,} nodes; give as many")
    every: list[Any] = [None] * graph.num_nodes
    for row, value in zip(rows.tolist(), values, strict=True):
        every[row] = value
    return attach_labels(graph, every)


def source_kind(source: str | os.PathLike[str]) -> str:
    """Tell what a name stands for: ``dataset``, ``store``, ``parts`` (of a store) or ``file``.

    A dataset's name wins over a file of that name, which ``./cora`` still reaches.

    Raises:
        InputError: It is neither a dataset nor a path, or the folder of a run.
    """
    from graphham.datasets import CATALOG, load_dataset

    path = Path(source).expanduser()
    if isinstance(source, str):
        if source in CATALOG:
            return "dataset"
        if not path.exists() and not any(sign in source for sign in "/\\.:~"):
            try:
                load_dataset(source)  # not a known name: it raises, with the nearest known one
            except InputError as error:
                raise InputError(f"there is no file {source!r} and {error}") from None
    if any((path / name).is_file() for name in ("hierarchy.json", "summary.json")):
        raise InputError(f"{path} is a run folder, not a graph; give what the run was fitted on")
    if holds_parts(path):
        return "parts"
    return "store" if (path / MANIFEST).is_file() else "file"


def _from_path(source: str | os.PathLike[str], directed: bool) -> Graph:
    from graphham.datasets import load_dataset

    kind, path = source_kind(source), Path(source).expanduser()
    if kind == "dataset":
        return load_dataset(str(source))
    return read_graph(path, directed=directed) if kind == "file" else open_store(path)
