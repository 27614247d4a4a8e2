"""Take a graph from whatever the user already has, and hand it back to other libraries."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Collection
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.graph import Graph, Labels
from graphham.graph.ids import NodeIds
from graphham.io.added_nodes import add_notes
from graphham.io.encode import Edges, listed
from graphham.io.features import attach_features
from graphham.io.labels import attach_labels
from graphham.io.spool import graph_of_edges
from graphham.io.writer import edge_weights

_MASKS = ("train_mask", "val_mask", "test_mask")
_PYG_READ = frozenset({"edge_index", "edge_weight", "x", "y", "num_nodes", "node_id", *_MASKS})


def from_networkx(graph: Any, directed: bool | None = None) -> Graph:
    """Convert a NetworkX graph; the edge attribute ``weight`` is used where any edge has it.

    Integers stay integers if all nodes are; otherwise every node is known by its text.
    """
    nodes = list(graph.nodes)
    keep = bool(graph.is_directed()) if directed is None else directed
    whole = all(isinstance(v, int | np.integer) and not isinstance(v, bool) for v in nodes)
    ids = NodeIds(nodes if whole else [str(v) for v in nodes])
    twice = ids.first_duplicate()
    if twice is not None:
        raise InputError(f"two nodes of the NetworkX graph read {twice!r} as text; rename one")
    row = {node: i for i, node in enumerate(nodes)}
    triples = list(graph.edges(data="weight"))
    source = np.fromiter((row[a] for a, _, _ in triples), np.int64, count=len(triples))
    target = np.fromiter((row[b] for _, b, _ in triples), np.int64, count=len(triples))
    given = [w for _, _, w in triples]
    weights = None
    if any(w is not None for w in given):
        try:
            weights = np.array([1.0 if w is None else float(w) for w in given])
        except (TypeError, ValueError, OverflowError):
            raise InputError("an edge weight of the NetworkX graph is not a number") from None
    edges = Edges(source, target, ids, weights)
    done = graph_of_edges(edges, keep, "the NetworkX graph", str(graph.name or "graph"))
    of_nodes = {key for _, data in graph.nodes(data=True) for key in data}
    of_edges = {key for *_, data in graph.edges(data=True) for key in data} - {"weight"}
    return _said(done, "NetworkX graph", of_nodes, of_edges)


def from_igraph(graph: Any, directed: bool | None = None) -> Graph:
    """Convert an igraph graph: ids from the vertex attribute ``name``, weights from ``weight``.

    Without names the ids are ``0..n-1``.
    """
    count = int(graph.vcount())
    named = list(graph.vs.attributes())
    ids = NodeIds.range(count)
    if "name" in named:
        ids = NodeIds([str(value) for value in graph.vs["name"]])
        twice = ids.first_duplicate()
        if twice is not None:
            raise InputError(f"two vertices of the igraph graph are named {twice!r}; rename one")
    ends = np.array(graph.get_edgelist(), dtype=np.int64).reshape(-1, 2)
    of_edges = list(graph.es.attributes())
    weights = None
    if "weight" in of_edges and len(ends):
        try:
            weights = np.array([1.0 if w is None else float(w) for w in graph.es["weight"]])
        except (TypeError, ValueError, OverflowError):
            raise InputError("an edge weight of the igraph graph is not a number") from None
    keep = bool(graph.is_directed()) if directed is None else directed
    edges = Edges(ends[:, 0], ends[:, 1], ids, weights)
    done = graph_of_edges(edges, keep, "the igraph graph", "graph")
    return _said(done, "igraph graph", {*named} - {"name"}, {*of_edges} - {"weight"})


def _said(graph: Graph, what: str, of_nodes: Collection[Any], of_edges: Collection[Any]) -> Graph:
    """Remark on the attributes that a graph does not take over."""
    notes = []
    if of_nodes:
        named = listed(sorted(map(str, of_nodes)), "").strip()
        notes.append(
            f"attributes of the {what}'s nodes were not read: {named}; give them as features or "
            f"labels"
        )
    if of_edges:
        named = listed(sorted(map(str, of_edges)), "").strip()
        notes.append(f"attributes of the {what}'s edges were not read: {named}")
    return add_notes(graph, *notes) if notes else graph


def from_pyg(data: Any, directed: bool = False) -> Graph:
    """Convert an object with PyG's attributes; PyG itself is not needed.

    Reads ``edge_index``, ``edge_weight``, ``x``, ``y``, ``num_nodes`` and the train, validation and
    test masks. A negative ``y`` is unknown; a table of zeros and ones is multi-label.
    """
    ends = _array(data.edge_index)
    if ends.ndim != 2 or ends.shape[0] != 2 or ends.dtype.kind not in "iu":
        raise InputError(f"edge_index has shape {ends.shape}; it must be (2, num_edges) integers")
    x, y = getattr(data, "x", None), getattr(data, "y", None)
    stated = getattr(data, "num_nodes", None)
    least = int(ends.max()) + 1 if ends.size else 0
    n = int(stated) if stated is not None else len(x) if x is not None else least
    if ends.size and (int(ends.min()) < 0 or least > n):
        worst = int(ends.min()) if int(ends.min()) < 0 else least - 1
        raise InputError(f"edge_index names node {worst}, but there are {n:,} nodes")
    weight = getattr(data, "edge_weight", None)
    weights = None if weight is None else _array(weight).astype(np.float64).reshape(-1)
    if weights is not None and len(weights) != ends.shape[1]:
        raise InputError(f"there are {len(weights):,} edge weights for {ends.shape[1]:,} edges")
    rows = ends.astype(np.int64)
    # PyG lists both directions of an undirected edge, as a matrix does.
    edges = Edges(rows[0], rows[1], NodeIds.range(n), weights, is_matrix=True)
    graph = graph_of_edges(edges, directed, "PyG data", "graph")
    if x is not None:
        graph = attach_features(graph, _array(x))
    if y is not None:
        graph = _with_targets(graph, _array(y))
    unread = [name for name in _keys(data) if name not in _PYG_READ]
    if unread:
        advice = "; give edge_weight for weights" if "edge_attr" in unread else ""
        named = listed(unread, "").strip()
        graph = add_notes(graph, f"attributes of the PyG data were not read: {named}{advice}")
    return replace(graph, splits=_splits(data))


def from_hetero(data: Any, directed: bool = False, edge_type: Any = None) -> Graph:
    """Convert one edge type of PyG's ``HeteroData``.

    Between nodes of one type the graph is as :func:`from_pyg` makes it. Nodes of two types get the
    ids ``TYPE/ROW``, and features if both types have equally many.

    Args:
        data: The object; PyG itself is not needed.
        directed: Keep the direction of edges.
        edge_type: ``(source type, relation, target type)``, or the relation alone where it tells;
            not needed where there is one.
    """
    kinds = [tuple(map(str, kind)) for kind in data.edge_types]
    asked = edge_type if edge_type is None or isinstance(edge_type, str) else tuple(edge_type)
    chosen = [kind for kind in kinds if asked is None or asked in (kind, kind[1])]
    if len(chosen) != 1:
        raise InputError(
            f"the HeteroData has the edge types {', '.join(map(repr, kinds))}; choose one with "
            f"as_graph(data, edge_type=...)"
        )
    first, _, last = chosen[0]
    ends = data[chosen[0]]
    left, right = data[first], data[last]
    if first == last:
        parts = {name: getattr(left, name, None) for name in ("x", "y", "num_nodes", *_MASKS)}
        weight = getattr(ends, "edge_weight", None)
        return from_pyg(
            SimpleNamespace(edge_index=ends.edge_index, edge_weight=weight, **parts), directed
        )
    counts = [_node_count(store, name) for store, name in ((left, first), (right, last))]
    rows = _array(ends.edge_index).astype(np.int64)
    names = [f"{kind}/{i}" for kind, n in zip((first, last), counts, strict=True) for i in range(n)]
    weight = getattr(ends, "edge_weight", None)
    weights = None if weight is None else _array(weight).astype(np.float64).reshape(-1)
    edges = Edges(rows[0], rows[1] + counts[0], NodeIds(names), weights)
    graph = graph_of_edges(edges, directed, "PyG data", "graph")
    tables = [getattr(store, "x", None) for store in (left, right)]
    if all(x is not None for x in tables):
        x, z = (_array(table) for table in tables)
        if x.shape[1] == z.shape[1]:
            return attach_features(graph, np.concatenate([x, z]))
    if any(x is not None for x in tables):
        graph = add_notes(
            graph, f"features were not read: {first} and {last} do not have equally many"
        )
    return graph


def _node_count(store: Any, name: str) -> int:
    stated, x = getattr(store, "num_nodes", None), getattr(store, "x", None)
    if stated is None and x is None:
        raise InputError(f"the nodes {name!r} of the HeteroData have neither num_nodes nor x")
    return int(stated) if stated is not None else len(_array(x))


def _keys(data: Any) -> list[str]:
    keys = getattr(data, "keys", None)
    found = keys() if callable(keys) else keys if keys is not None else vars(data)
    return [str(name) for name in found if getattr(data, str(name), None) is not None]


def _with_targets(graph: Graph, y: npt.NDArray[Any]) -> Graph:
    if len(y) != graph.num_nodes:
        return graph  # a label of the whole graph says nothing about its nodes
    if y.ndim == 2 and y.shape[1] > 1:
        known = sp.csr_matrix(np.nan_to_num(y) > 0)
        return replace(graph, labels=Labels(tuple(range(y.shape[1])), matrix=known))
    flat = y.reshape(-1)
    if flat.dtype.kind == "f":
        unknown = ~np.isfinite(flat)
        whole = np.where(unknown, -1, flat).astype(np.int64)
        if not np.array_equal(whole[~unknown], flat[~unknown]):
            return graph  # a regression target is not a class
        flat = whole
    return attach_labels(graph, [None if v < 0 else v for v in flat.tolist()])


def _splits(data: Any) -> dict[str, npt.NDArray[np.int64]]:
    masks = {}
    for name in _MASKS:
        mask = getattr(data, name, None)
        if mask is None:
            continue
        values = _array(mask)
        # Several splits side by side are common; the first is the one papers report.
        first = values if values.ndim == 1 else values[:, 0]
        masks[name.removesuffix("_mask")] = np.flatnonzero(first)
    return masks


def to_networkx(graph: Graph) -> Any:
    """Return a NetworkX graph with the user's ids, edge weights and node labels."""
    if importlib.util.find_spec("networkx") is None:
        raise InputError("to_networkx needs the package networkx; install it first")
    import networkx as nx

    made = nx.DiGraph(name=graph.name) if graph.directed else nx.Graph(name=graph.name)
    ids = graph.ids.tolist()
    if graph.labels is None:
        made.add_nodes_from(ids)
    else:
        pairs = zip(ids, graph.labels.values(), strict=True)
        made.add_nodes_from(
            (node, {} if label is None else {"label": label}) for node, label in pairs
        )
    edges = graph.edge_list().tolist()
    if graph.weights is None:
        made.add_edges_from((ids[a], ids[b]) for a, b in edges)
    else:
        weights = edge_weights(graph).tolist()
        triples = zip(edges, weights, strict=True)
        made.add_weighted_edges_from((ids[a], ids[b], w) for (a, b), w in triples)
    return made


def to_pyg(graph: Graph) -> Any:
    """Return PyG ``Data`` whose rows follow the graph's; the ids go along as ``node_id``."""
    if importlib.util.find_spec("torch_geometric") is None:
        raise InputError("to_pyg needs the package torch_geometric; install it first")
    import torch

    make = importlib.import_module("torch_geometric.data").Data
    source = np.repeat(np.arange(graph.num_nodes), graph.degrees())
    ends = np.stack([source, graph.indices.astype(np.int64)])
    data = make(edge_index=torch.from_numpy(ends), num_nodes=graph.num_nodes)
    if graph.weights is not None:
        data.edge_weight = torch.from_numpy(np.array(graph.weights))
    if graph.features is not None:
        data.x = torch.from_numpy(np.array(_array(graph.features)))
    if graph.labels is not None and graph.labels.codes is not None:
        data.y = torch.from_numpy(graph.labels.codes.astype(np.int64))
    elif graph.labels is not None and graph.labels.matrix is not None:
        data.y = torch.from_numpy(graph.labels.matrix.toarray().astype(np.float32))
    for name, rows in graph.splits.items():
        mask = torch.zeros(graph.num_nodes, dtype=torch.bool)
        mask[torch.from_numpy(np.array(rows))] = True
        data[f"{name}_mask"] = mask
    data.node_id = graph.ids.tolist()
    return data


def _array(value: Any) -> npt.NDArray[Any]:
    """Return a torch tensor or array-like as numpy, without importing torch."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    elif sp.issparse(value):
        value = value.toarray()
    return np.asarray(value)
