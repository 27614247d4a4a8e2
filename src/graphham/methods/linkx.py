"""LINK and LINKX: who a node's neighbours are, as features (Lim et al., NeurIPS 2021).

``link`` is logistic regression on rows of the adjacency matrix (Zheleva and Getoor, 2009). LINKX
maps the adjacency row and the features to hidden vectors ``h_A`` and ``h_X``, joins them,
``h = ReLU(W [h_A ; h_X] + h_A + h_X)``, and classifies with one more hidden layer. In a directed
graph outgoing and incoming rows stand side by side as columns of their own: on graphs where unlike
nodes are linked, direction is much of what there is to know.

LINKX's defaults lie within the authors' grid: width 64, dropout 0.5, Adam at 0.01 with a penalty of
1e-3 (on gradients here, on weights there), 500 epochs. Both know nodes one by one, so new nodes
cannot be placed.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.graph.neighborhoods import Block
from graphham.kernels import SparseMatrix, sparse_matmul
from graphham.methods.base import FitRequest
from graphham.methods.linear import LogisticRegression
from graphham.methods.network_method import BoundNetwork
from graphham.methods.network_training import NodeNet, dropped, product
from graphham.methods.parameters import keyword_settings
from graphham.model.feature_rows import FeatureRows


def adjacency_rows(graph: Graph) -> Any:
    """Return each node's links as a sparse row: ``(nodes, nodes)``, directed ``(nodes, 2 nodes)``.

    Args:
        graph: The graph; a directed one gives outgoing links, then incoming ones.
    """
    found = graph.adjacency().astype(np.float32)
    return sp.csr_matrix(sp.hstack([found, found.T], format="csr") if graph.directed else found)


@keyword_settings
class LinkRegression(LogisticRegression):
    """Logistic regression on adjacency rows (LINK); features are not read.

    Args:
        seed: Decides the validation rows where none are given.
        dim: Width of the embedding (the rows along their main directions).
        scaling: ``none`` for plain rows, ``row`` for rows of unit length.
        strength: C; chosen on validation rows when not given.
    """

    name: ClassVar[str] = "link"

    scaling: str = "none"

    def _candidates(self, task: str) -> list[dict[str, Any]]:
        return [{}, {"scaling": "row"}]

    def _columns(self, graph: Graph) -> Any:
        if self.scaling not in ("none", "row"):
            raise InputError(f"scaling of link must be none or row, got {self.scaling!r}")
        if not graph.num_stored:
            raise InputError("the method link reads links but the graph has none; choose logreg")
        x = adjacency_rows(graph)
        if self.scaling == "none":
            return x
        norm = np.sqrt(np.asarray(x.multiply(x).sum(1)).ravel())
        return sp.csr_matrix(sp.diags((1 / np.maximum(norm, 1e-12)).astype(np.float32)) @ x)


class _Rows:
    """A matrix that a network reads and never changes; shared by copies of the network."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = SparseMatrix.from_scipy(matrix)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Rows:
        return self


class LinkxNet(NodeNet):
    """Adjacency rows and features, joined.

    Args:
        num_features: Width of the input.
        dim: Width of every layer.
        num_classes: Columns of the classifier.
        rows: ``(nodes, columns)`` sparse rows of links.
        dropout: Share of hidden values dropped.
    """

    def __init__(
        self, num_features: int, dim: int, num_classes: int, rows: Any, dropout: float
    ) -> None:
        super().__init__(dim, num_classes, 0, self_edge=False, dropout=dropout)
        self.links = _Rows(rows)
        self.link_weight = nn.Parameter(torch.empty(rows.shape[1], dim))
        self.link_bias = nn.Parameter(torch.empty(dim))
        self.feature_weight = nn.Parameter(torch.empty(num_features, dim))
        self.feature_bias = nn.Parameter(torch.empty(dim))
        self.join = nn.Linear(2 * dim, dim)
        self.hidden = nn.Linear(dim, dim)

    def encode(
        self, features: FeatureRows, blocks: list[Block], generator: torch.Generator | None
    ) -> Tensor:
        """Return the ``(nodes, dim)`` last hidden states."""
        near = sparse_matmul(self.links.matrix, self.link_weight) + self.link_bias
        own = product(features, self.feature_weight) + self.feature_bias
        joined = torch.relu(self.join(torch.cat([near, own], dim=1)) + near + own)
        return torch.relu(self.hidden(dropped(joined, self.dropout, generator)))

    def classify(self, vectors: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return ``(nodes, num_classes)`` logits of encoded nodes."""
        return super().classify(dropped(vectors, self.dropout, generator), generator)


@keyword_settings
class LINKX(BoundNetwork):
    """LINKX: a network over adjacency rows and features.

    Args:
        **settings: Those of :class:`BoundNetwork`.
    """

    name: ClassVar[str] = "linkx"

    dim: int = 64
    scaling: str = "auto"
    epochs: int = 500
    lr: float = 0.01
    weight_decay: float = 1e-3
    average: float = 0.0

    def _defaults(self, task: str, num_nodes: int) -> dict[str, Any]:
        return {"feature_dropout": 0.0, "dropout": 0.5}

    def _candidates(self, task: str) -> list[dict[str, Any]]:
        return [{}, {"dim": 256}, {"feature_dropout": 0.5, "average": 0.95}, {"weight_decay": 1e-4}]

    def _fit(self, request: FitRequest) -> None:
        self._adjacency = adjacency_rows(request.graph)
        super()._fit(request)
        del self._adjacency

    def _make_net(
        self, num_features: int, num_classes: int, dropout: float, num_nodes: int
    ) -> NodeNet:
        return LinkxNet(num_features, self.dim, num_classes, self._adjacency, dropout)

    def _step_bytes(self, graph: Graph) -> int:
        # The matrix over links, its gradient and Adam's two means, then the hidden states.
        table = 4 * (2 if graph.directed else 1) + 10
        return 4 * graph.num_nodes * self.dim * table + 16 * graph.num_stored
