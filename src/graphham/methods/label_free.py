"""Methods whose vectors never depend on labels, and the regression that classifies them."""

from __future__ import annotations

import copy
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from graphham.datasets.open_source import as_graph
from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.graph.undirected import undirected
from graphham.methods.base import FitRequest, Method
from graphham.methods.memory_check import check_memory
from graphham.methods.parameters import keyword_settings
from graphham.methods.scikit import class_array
from graphham.system.threads import single_threaded

if TYPE_CHECKING:
    from graphham.training.epochs import Listener

# C of the regression, weak to strong; finished vectors are few and dense, so the fit needs a leash.
_STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)


@keyword_settings
class LabelFreeMethod(Method):
    """A method that embeds without labels; with ``classify``, a regression on finished vectors.

    A subclass does its work in :meth:`_embed`, which is handed a graph without labels. The vectors
    are therefore the same whatever labels are shown, and one fit serves every split of them.

    Args:
        memory_gib: Refuse to need more than this; what is free when not given.
        **settings: ``seed``, which decides every random draw, and ``dim``, the width of the
            vectors.
    """

    tasks: ClassVar[frozenset[str]] = frozenset({"classify", "links"})
    reads_labels: ClassVar[bool] = False

    memory_gib: float | None = None

    def _embed(self, graph: Graph, listener: Listener | None) -> None:
        """Set ``embedding_`` and whatever else the method finds."""
        raise NotImplementedError

    def _fit(self, request: FitRequest) -> None:
        graph = request.graph
        with single_threaded():
            self._embed(replace(graph, labels=None, splits={}), request.listener)
            self._refuse_not_finite(graph.ids)
            if request.task == "classify":
                classify_vectors(self, request)

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
        task = again._checked_task("classify")
        request = FitRequest.checked(as_graph(graph), task, train_rows, validation_rows)
        assert request.graph.labels is not None
        again.classes_ = class_array(request.graph.labels.classes)
        with single_threaded():
            classify_vectors(again, request)
        again._finish(request, self.cost_["seconds"] + time.perf_counter() - began)
        return again

    def _check_memory(self, needed: int, advice: str) -> None:
        check_memory(self.name, needed, self.memory_gib, advice)


def classify_vectors(method: Method, request: FitRequest) -> None:
    """Set ``class_scores_`` and ``validation_`` of a method from its finished vectors.

    The vectors are standardised with the training rows' statistics.

    Args:
        method: The method being fitted; its seed decides validation rows where none are given.
        request: The graph with labels and the rows that may be read, those to choose C among them.
    """
    # Imported here because it brings torch along, which embedding with walks does not need.
    from graphham.methods.linear import split_rows
    from graphham.methods.logistic import Operator, fit_logistic

    labels = request.graph.labels
    assert labels is not None
    training, validation = split_rows(request, method.seed)
    x = method.embedding_.astype(np.float64)
    mean, spread = x[training].mean(0), x[training].std(0)
    inputs = Operator.of((x - mean) / np.maximum(spread, 1e-9))
    found = fit_logistic(inputs, labels, training, validation, _STRENGTHS)
    method.class_scores_ = found.scores(inputs, labels.is_multi)
    method.validation_ = found.validation


def linked(graph: Graph, purpose: str) -> Graph:
    """Return :func:`undirected`; refuse a graph that has no edges to do something with."""
    if not graph.num_stored:
        raise InputError(f"the graph has no edges to {purpose}; give at least one")
    return undirected(graph)
