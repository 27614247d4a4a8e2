"""New nodes joined to a graph that is known already, by the links between them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.graph import Graph, build_graph
from graphham.graph.ids import NodeIds
from graphham.io.features import attach_features
from graphham.io.writer import edge_weights


def join_graphs(
    known: Graph, new: Graph, features: Any = None, id_column: str | None = None
) -> tuple[Graph, npt.NDArray[np.int64]]:
    """Add the nodes and links of one graph to another.

    Args:
        known: The graph that is known, with the features of its nodes.
        new: Links among new nodes, and between new and known ones; ids tell which are which.
        features: Table of the new nodes' features; rows for known nodes are not read.
        id_column: Name of its id column.

    Returns:
        The joined graph, known nodes first and without labels, and the rows of the new nodes.

    Raises:
        InputError: No node is new, none is known, or features are missing or not wanted.
    """
    ids = _same_kind(new.ids, known.ids)
    rows = known.ids.find(ids.to_arrow())
    fresh = np.flatnonzero(rows < 0)
    if not fresh.size:
        raise InputError(
            f"all {len(ids):,} nodes are in the training graph already, so none is new"
        )
    if fresh.size == len(ids):
        raise InputError(
            f"none of the {len(ids):,} ids is known to the run, the first being {ids[0]!r}; new "
            f"nodes need links to known ones, under the ids of the training graph"
        )
    if (known.weights is None) != (new.weights is None):
        how = "give" if new.weights is None else "leave out"
        raise InputError(
            f"the training graph {'has no' if known.weights is None else 'has'} weights, so the "
            f"new links must be the same; {how} --weight"
        )
    place = rows.copy()
    place[fresh] = known.num_nodes + np.arange(fresh.size)
    ends = np.concatenate([known.edge_list(), place[new.edge_list()]])
    weights = None
    if known.weights is not None:
        weights = np.concatenate([edge_weights(known), edge_weights(new)])
    added = ids.take(fresh)
    joined = build_graph(
        ends[:, 0],
        ends[:, 1],
        known.num_nodes + fresh.size,
        ids=NodeIds([*known.ids.tolist(), *added.tolist()]),
        weights=weights,
        directed=known.directed,
        name=known.name,
        report=new.report,
    )
    matrix = _features(known, added, features, id_column)
    names = None if matrix is None else known.feature_names
    done = replace(joined, features=matrix, feature_names=names)
    return done, known.num_nodes + np.arange(fresh.size, dtype=np.int64)


def _same_kind(ids: NodeIds, known: NodeIds) -> NodeIds:
    if ids.kind == known.kind:
        return ids
    if known.kind == "text":
        return NodeIds([str(value) for value in ids.tolist()])
    odd = next(value for value in ids.tolist() if not str(value).lstrip("-").isdigit())
    raise InputError(f"the ids of the training graph are whole numbers, but {odd!r} is not")


def _features(known: Graph, added: NodeIds, source: Any, id_column: str | None) -> Any:
    """Return the features of known and added nodes, or ``None`` where the graph has none."""
    old: Any = known.features
    if old is None:
        if source is not None:
            raise InputError(
                "the model was fitted without features; leave those of the new nodes out"
            )
        return None
    if source is None:
        raise InputError(
            f"the model was fitted with {known.num_features:,} features; give those of the "
            f"{len(added):,} new nodes (--features)"
        )
    none = np.zeros(0, dtype=np.int64)
    alone = build_graph(none, none, len(added), ids=added)
    # Rows of the table for known nodes are not wanted, and not wrong either.
    read = attach_features(alone, source, id_column, skip_bad_rows=True)
    new: Any = read.features
    if known.feature_names is not None and read.feature_names is not None:
        place = {name: i for i, name in enumerate(read.feature_names)}
        lacking = [name for name in known.feature_names if name not in place]
        if lacking and new.shape[1] != old.shape[1]:
            raise InputError(
                f"the features of the new nodes lack the column {lacking[0]!r}, which the model "
                f"was fitted with; give the same columns"
            )
        if not lacking:
            new = new[:, [place[name] for name in known.feature_names]]
    if new.shape[1] != old.shape[1]:
        raise InputError(
            f"the model was fitted with {old.shape[1]:,} features, but the new nodes have "
            f"{new.shape[1]:,}; give the same columns"
        )
    if sp.issparse(old):
        return sp.vstack([old, sp.csr_matrix(new)]).tocsr().astype(np.float32)
    dense = new.toarray() if sp.issparse(new) else new
    return np.concatenate([np.asarray(old), dense.astype(old.dtype)])
