"""Methods whose vectors never depend on labels, and the regression that classifies them."""

from __future__ import annotations

import copy
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from graphham.graph.graph import Graph, build_graph
from graphham.methods.base import (
    Floats,
    Method,
    Rows,
    check_apart,
    checked_rows,
    peak_memory,
)
from graphham.methods.memory_check import check_memory
from graphham.system.threads import single_threaded

if TYPE_CHECKING:
    from graphham.training.trainer import Listener

# C of the regression, weak to strong; finished vectors are few and dense, so the fit needs a leash.
_STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)


class LabelFreeMethod(Method):
    """A method that embeds without labels; with ``classify``, a regression on finished vectors.

    A subclass does its work in :meth:`_embed`, which is handed a graph without labels. The vectors
    are therefore the same whatever labels are shown, and one fit serves every split of them.

    Args:
        memory_gib: Refuse to need more than this; what is free when not given.
        **settings: ``seed``, which decides every random draw, and ``dim``, the width of the
            vectors.
    """

    reads_labels: ClassVar[bool] = False

    def __init__(self, *, memory_gib: float | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.memory_gib = memory_gib

    def _embed(self, graph: Graph, listener: Listener | None) -> None:
        """Set ``embedding_`` and whatever else the method finds."""
        raise NotImplementedError

    def _fit(
        self,
        graph: Graph,
        task: str,
        train_rows: Rows | None,
        validation_rows: Rows | None,
        listener: Listener | None,
    ) -> None:
        with single_threaded():
            self._embed(replace(graph, labels=None, splits={}), listener)
            self._refuse_not_finite(graph.ids)
            if task == "classify":
                classify_vectors(self, graph, self.embedding_, train_rows, validation_rows)

    def classified(self, graph: Any, train_rows: Any = None, validation_rows: Any = None) -> Self:
        """Return what ``fit(graph, task="classify")`` would have given, without embedding again.

        Args:
            graph: The graph of the fit, with labels.
            train_rows: As for :meth:`fit`.
            validation_rows: As for :meth:`fit`.

        Returns:
            A fitted copy that shares the vectors; its cost includes that of making them.
        """
        self._check_fitted()
        began = time.perf_counter()
        again = copy.copy(self)
        work = again._checked(graph, "classify")
        training = checked_rows(train_rows, work, "train_rows")
        validation = checked_rows(validation_rows, work, "validation_rows")
        check_apart(training, validation)
        assert work.labels is not None
        again.classes_ = work.labels.classes
        with single_threaded():
            classify_vectors(again, work, again.embedding_, training, validation)
        again.cost_ = {
            "seconds": self.cost_["seconds"] + time.perf_counter() - began,
            "peak_memory_bytes": float(peak_memory()),
        }
        return again

    def _check_memory(self, needed: int, advice: str) -> None:
        check_memory(self.name, needed, self.memory_gib, advice)


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
    from graphham.methods.linear import split_rows
    from graphham.methods.logistic import Operator, fit_logistic

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
