"""Label propagation: known labels spread over links, features unread (Zhou et al., NIPS 2003).

``F <- alpha S F + (1 - alpha) Y`` with ``S = D^-1/2 A D^-1/2`` and ``Y`` the labels of the training
nodes, until it stands still. A link is followed both ways, also in a directed graph. A node that no
label reaches gets the shares of the classes among the training nodes. It is the floor of
everything that reads links: what a method gains over it is not owed to homophily alone.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.methods.base import FitRequest, Method
from graphham.methods.linear import split_rows
from graphham.methods.logistic import label_score, label_targets
from graphham.methods.parameters import keyword_settings
from graphham.methods.scaled_features import reduced

_TOLERANCE = 1e-6


@keyword_settings
class LabelPropagation(Method):
    """Spread the training labels over the links.

    Args:
        seed: Decides the validation rows where none are given.
        dim: Width of the embedding (the spread labels, along their main directions).
        alpha: Share of the neighbours in every step; the rest is the node's own label.
        steps: Most steps taken.
    """

    name: ClassVar[str] = "label-propagation"
    tasks: ClassVar[frozenset[str]] = frozenset({"classify"})

    alpha: float = 0.9
    steps: int = 200

    def _candidates(self, task: str) -> list[dict[str, Any]]:
        return [{}, {"alpha": 0.99}, {"alpha": 0.7}, {"alpha": 0.5}]

    def _fit(self, request: FitRequest) -> None:
        self._check_counts("steps")
        if not 0 < self.alpha < 1:
            raise InputError(f"alpha must lie between 0 and 1, got {self.alpha}")
        graph = request.graph
        assert graph.labels is not None
        training, validation = split_rows(request, self.seed)
        known = label_targets(graph.labels, training)
        start = np.zeros((graph.num_nodes, known.shape[1] + 1))
        start[training, :-1] = known
        start[training, -1] = 1.0
        spread = propagated(graph, start, self.alpha, self.steps)
        # The last column is how much was heard at all; the rest of it, which share has each class.
        heard = spread[:, -1:]
        shares = spread[:, :-1] / np.where(heard > 0, heard, 1.0)
        scores = np.where(heard > 0, shares, known.mean(0))
        self.class_scores_ = scores.astype(np.float32)
        if len(validation):
            self.validation_ = label_score(self.class_scores_, graph.labels, validation)
        self.embedding_ = reduced(scores.astype(np.float32), self.dim, self.seed)


def propagated(
    graph: Graph, start: npt.NDArray[np.float64], alpha: float, steps: int
) -> npt.NDArray[np.float64]:
    """Return ``(num_nodes, num_classes)`` labels after spreading.

    Args:
        graph: The graph; links are followed both ways.
        start: Labels at the start, zero where unknown.
        alpha: Share of the neighbours in every step.
        steps: Most steps taken; fewer once nothing moves.
    """
    links = graph.adjacency().astype(np.float64)
    links = sp.csr_matrix(links + links.T) if graph.directed else links
    degree = np.asarray(links.sum(1)).ravel()
    root = sp.diags(1 / np.sqrt(np.where(degree > 0, degree, 1.0)))
    walk = sp.csr_matrix(root @ links @ root)
    state = start
    for _ in range(steps):
        moved = alpha * (walk @ state) + (1 - alpha) * start
        still = float(np.abs(moved - state).max(initial=0.0)) < _TOLERANCE
        state = moved
        if still:
            break
    return np.asarray(state)
