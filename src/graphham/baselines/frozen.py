"""Logistic regression on finished vectors: how methods that never read labels are classified."""

from __future__ import annotations

import numpy as np

from graphham.baselines.base import Floats, Method, Rows
from graphham.graph import Graph, build_graph

# C of the regression, weak to strong; finished vectors are few and dense, so the fit needs a leash.
_STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)


def classify_vectors(
    method: Method,
    graph: Graph,
    vectors: Floats,
    train_rows: Rows | None,
    validation_rows: Rows | None,
) -> None:
    """Set ``class_scores_`` and ``validation_`` of a method from its finished vectors.

    Args:
        method: The method being fitted; its seed decides validation rows where none are given.
        graph: The graph with labels.
        vectors: ``(num_nodes, width)``, standardised here with the training rows' statistics.
        train_rows: Rows whose labels may be trained on.
        validation_rows: Rows whose labels choose C.
    """
    # Imported here because it brings torch along, which embedding with walks does not need.
    from graphham.baselines.linear import split_rows
    from graphham.baselines.logistic import Operator, fit_logistic

    assert graph.labels is not None
    training, validation = split_rows(graph, method.seed, train_rows, validation_rows)
    x = vectors.astype(np.float64)
    mean, spread = x[training].mean(0), x[training].std(0)
    inputs = Operator.of((x - mean) / np.maximum(spread, 1e-9))
    found = fit_logistic(inputs, graph.labels, training, validation, _STRENGTHS)
    method.class_scores_ = found.scores(inputs, graph.labels.is_multi)
    method.validation_ = found.validation


def undirected(graph: Graph) -> Graph:
    """Return the graph with every edge in both directions, so that no walk gets stuck."""
    if not graph.directed:
        return graph
    source = np.repeat(np.arange(graph.num_nodes), graph.degrees())
    return build_graph(
        source,
        graph.indices,
        graph.num_nodes,
        ids=graph.ids,
        weights=graph.weights,
        features=graph.features,
        labels=graph.labels,
    )
