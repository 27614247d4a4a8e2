"""Floors for classification: features alone, and features smoothed over the graph.

``logreg`` and ``mlp`` never look at an edge; ``sgc`` averages features over two hops and is linear
(after SGC of Wu et al., ICML 2019). Its default is the mean over neighbours; the symmetric form of
that paper is a setting among those tried on validation. Any graph
method must beat them to have earned its keep. ``smoothed-logreg`` shows both, a node's own main
directions and the diffused ones, to one regression.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.graph.neighborhoods import Block
from graphham.methods.base import FitRequest, Method, Rows
from graphham.methods.logistic import STRENGTHS, Classifier, Operator, fit_logistic
from graphham.methods.network_method import NetworkMethod, split_labels
from graphham.methods.network_training import NodeNet, dropped, product
from graphham.methods.parameters import keyword_settings
from graphham.methods.scaled_features import as_matrix, fit_features, reduced
from graphham.methods.sparse_dots import walk_matrix
from graphham.model.feature_rows import FeatureRows

_CLASSIFY = frozenset({"classify"})


def split_rows(request: FitRequest, seed: int) -> tuple[Rows, Rows]:
    """Return the rows to train on and those to choose settings on, as every method splits them."""
    truth = split_labels(request, seed)
    return np.flatnonzero(truth.training.numpy()), truth.validation.numpy()


@keyword_settings
class LogisticRegression(Method):
    """Logistic regression on scaled features, without the graph.

    Args:
        seed: Decides the validation rows where none are given.
        dim: Width of the embedding (the features along their main directions).
        scaling: ``auto``, ``none``, ``row``, ``tfidf`` or ``standard`` features.
        strength: C; chosen on validation rows when not given.
    """

    name: ClassVar[str] = "logreg"
    tasks: ClassVar[frozenset[str]] = _CLASSIFY

    scaling: str = "auto"
    strength: float | None = None

    def _candidates(self, task: str) -> list[dict[str, Any]]:
        # C is searched within the fit already; other scalings are what is left.
        return [{}, {"scaling": "row"}, {"scaling": "none"}]

    def _fit(self, request: FitRequest) -> None:
        graph = request.graph
        assert graph.labels is not None
        if self.strength is not None and self.strength <= 0:
            raise InputError(f"strength must be above 0, got {self.strength}")
        training, validation = split_rows(request, self.seed)
        x = self._columns(graph)
        inputs, smooth = self._inputs(x, graph)
        chosen = STRENGTHS if self.strength is None else (self.strength,)
        found = fit_logistic(inputs, graph.labels, training, validation, chosen)
        self.class_scores_ = found.scores(inputs, graph.labels.is_multi)
        self.validation_ = found.validation
        self.strength_ = found.strength
        self._classifier: Classifier = found
        self.embedding_ = smooth(reduced(x, self.dim, self.seed)).astype(np.float32)

    def _columns(self, graph: Graph) -> Any:
        """Return the ``(num_nodes, width)`` matrix of what is known about each node."""
        return as_matrix(fit_features(graph, self.scaling, self.dim, self.seed)[1])

    def _inputs(self, x: Any, graph: Graph) -> tuple[Operator, Any]:
        """Return what the classifier reads, and the map of vectors that goes with it."""
        return Operator.of(x), lambda vectors: vectors

    def _state(self) -> dict[str, Any]:
        return {"weight": self._classifier.weight, "bias": self._classifier.bias}

    def _facts(self) -> dict[str, Any]:
        return {"strength": self.strength_}

    def _restore(self, state: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> None:
        self.strength_ = facts["strength"]
        self._classifier = Classifier(
            state["weight"], state["bias"], self.strength_, self.validation_
        )


@keyword_settings
class SmoothedRegression(LogisticRegression):
    """Logistic regression on features smoothed over the graph (SGC).

    Args:
        seed: Decides the validation rows where none are given.
        dim: Width of the embedding (the smoothed features along the features' main directions).
        scaling: ``auto``, ``none``, ``row``, ``tfidf`` or ``standard`` features.
        strength: C; chosen on validation rows when not given.
        steps: How often features are averaged.
        symmetric: Smooth by D^-1/2 (A + I) D^-1/2 as in SGC instead of the mean D^-1 (A + I).
    """

    name: ClassVar[str] = "sgc"

    steps: int = 2
    symmetric: bool = False

    def _candidates(self, task: str) -> list[dict[str, Any]]:
        return [{}, {"symmetric": True}, {"steps": 3}, {"steps": 1}]

    def _inputs(self, x: Any, graph: Graph) -> tuple[Operator, Any]:
        if self.steps < 0:
            raise InputError(f"steps must not be negative, got {self.steps}")
        walk = walk_matrix(graph, self.symmetric).astype(np.float64)
        back = sp.csr_matrix(walk.T)
        plain = Operator.of(x)

        def smooth(values: Any) -> Any:
            for _ in range(self.steps):
                values = walk @ values
            return values

        def spread(values: Any) -> Any:
            for _ in range(self.steps):
                values = back @ values
            return values

        joined = Operator(
            lambda w: smooth(plain.times(w)), lambda g: plain.transposed(spread(g)), plain.width
        )
        return joined, smooth


@keyword_settings
class DiffusedRegression(LogisticRegression):
    """Logistic regression on main directions of features beside the same, diffused.

    A node's own features and those of its surroundings as columns of their own: strong where labels
    are few, and where a node's own features say what its neighbours' do not.

    Args:
        seed: Decides the validation rows where none are given.
        dim: Width of the embedding (what the classifier reads, along its main directions).
        scaling: ``auto``, ``none``, ``row``, ``tfidf`` or ``standard`` features.
        strength: C; chosen on validation rows when not given.
        directions: Main directions of the features that are kept.
        steps: How often they are averaged over each node and its neighbours.
    """

    name: ClassVar[str] = "smoothed-logreg"

    directions: int = 64
    steps: int = 4

    def _candidates(self, task: str) -> list[dict[str, Any]]:
        return [{}, {"steps": 2}, {"steps": 8}, {"directions": 256}]

    def _columns(self, graph: Graph) -> Any:
        self._check_counts("directions", "steps")
        x = as_matrix(fit_features(graph, self.scaling, self.dim, self.seed)[1])
        own = reduced(x, self.directions, self.seed)
        near, walk = own, walk_matrix(graph)
        for _ in range(self.steps):
            near = walk @ near
        return np.hstack([_unit(own), _unit(near)])


def _unit(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    found: npt.NDArray[np.float32] = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    return found


class MLPNet(NodeNet):
    """One hidden layer over a node's own features.

    Args:
        num_features: Width of the input.
        dim: Width of the hidden layer.
        num_classes: Columns of the classifier.
        dropout: Share of hidden values dropped.
    """

    def __init__(self, num_features: int, dim: int, num_classes: int, dropout: float) -> None:
        super().__init__(dim, num_classes, 0, self_edge=False, dropout=dropout)
        self.weight = nn.Parameter(torch.empty(num_features, dim))
        self.bias = nn.Parameter(torch.empty(dim))

    def encode(
        self, features: FeatureRows, blocks: list[Block], generator: torch.Generator | None
    ) -> Tensor:
        """Return the ``(nodes, dim)`` hidden states."""
        return torch.relu(product(features, self.weight) + self.bias)

    def classify(self, vectors: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return ``(nodes, num_classes)`` logits of encoded nodes."""
        return super().classify(dropped(vectors, self.dropout, generator), generator)


class MLP(NetworkMethod):
    """A network with one hidden layer over features, without the graph.

    Args:
        **settings: Those of :class:`NetworkMethod`; what concerns neighbours has no effect.
    """

    name: ClassVar[str] = "mlp"
    tasks: ClassVar[frozenset[str]] = _CLASSIFY

    def _candidates(self, task: str) -> list[dict[str, Any]]:
        return [
            {},
            {"feature_dropout": 0.2, "weight_decay": 1e-4},
            {"feature_dropout": 0.7},
            {"scaling": "row"},
        ]

    def _make_net(
        self, num_features: int, num_classes: int, dropout: float, num_nodes: int
    ) -> NodeNet:
        return MLPNet(num_features, self.dim, num_classes, dropout)
