"""H2GCN, convolutions for graphs that link unlike nodes (Zhu et al., NeurIPS 2020).

Three designs: a node is never averaged with its neighbours, nodes at exactly two steps are read
apart from those at one, and the classifier sees every round. ``R_0 = ReLU(X W)``,
``R_k = [A1 R_(k-1) ; A2 R_(k-1)]`` with the symmetrically normalised one-step and two-step graphs,
no matrices between; the classifier reads ``[R_0 ; R_1 ; R_2]`` under dropout.

Defaults are those of the authors' code: 64 hidden units, two rounds, dropout 0.5, Adam at 0.01 with
a penalty of 5e-4, 500 epochs. The embedding is what the classifier reads along its main directions.
The two-step graph of hubs is large; the estimate is checked before anything is made.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from graphham.graph.graph import Graph
from graphham.graph.neighborhoods import Block
from graphham.kernels import SparseMatrix, sparse_matmul
from graphham.methods.base import FitRequest
from graphham.methods.network_method import BoundNetwork
from graphham.methods.network_training import NodeNet, dropped, encode_all, product
from graphham.methods.parameters import keyword_settings
from graphham.methods.scaled_features import reduced
from graphham.model.feature_rows import FeatureRows
from graphham.model.inputs import NodeInputs
from graphham.results.encoder import class_scores


class Steps:
    """The fixed one-step and two-step matrices; shared by copies of the network.

    Args:
        graph: The graph.
    """

    def __init__(self, graph: Graph) -> None:
        near = graph.adjacency().astype(np.float32)
        self.matrices = [
            SparseMatrix.from_scipy(_normalised(one)) for one in (near, two_steps(near))
        ]

    def __deepcopy__(self, memo: dict[int, Any]) -> Steps:
        """Share what never changes when the network is copied to average its weights."""
        return self


def two_steps(near: Any) -> Any:
    """Return the 0/1 matrix of nodes at exactly two steps: not neighbours, not the node itself."""
    pattern = sp.csr_matrix((np.ones_like(near.data), near.indices, near.indptr), near.shape)
    far = sp.csr_matrix(pattern @ pattern)
    far.data[:] = 1.0
    close = sp.csr_matrix(pattern + sp.identity(near.shape[0], dtype=np.float32, format="csr"))
    close.data[:] = 1.0
    found = sp.csr_matrix(far - far.multiply(close))
    found.eliminate_zeros()
    return found


def _normalised(adjacency: Any) -> Any:
    """Return D^-1/2 A D^-1/2; a node without links keeps an empty row."""
    degree = np.asarray(adjacency.sum(1)).ravel()
    root = sp.diags(1 / np.sqrt(np.where(degree > 0, degree, 1.0)).astype(np.float32))
    return sp.csr_matrix(root @ adjacency @ root, dtype=np.float32)


class H2gcnNet(NodeNet):
    """One hidden layer and its averages at one and two steps, round by round.

    Args:
        num_features: Width of the input.
        dim: Width of the hidden layer.
        num_classes: Columns of the classifier.
        fixed: The matrices of the graph.
        rounds: Number of rounds; each doubles the width.
        dropout: Share of what the classifier reads dropped.
    """

    def __init__(
        self,
        num_features: int,
        dim: int,
        num_classes: int,
        fixed: Steps,
        rounds: int,
        dropout: float,
    ) -> None:
        super().__init__(
            dim * (2 ** (rounds + 1) - 1), num_classes, 0, self_edge=False, dropout=dropout
        )
        self.weight = nn.Parameter(torch.empty(num_features, dim))
        self.fixed, self.rounds = fixed, rounds

    def encode(
        self, features: FeatureRows, blocks: list[Block], generator: torch.Generator | None
    ) -> Tensor:
        """Return all rounds side by side."""
        found = [torch.relu(product(features, self.weight))]
        for _ in range(self.rounds):
            last = found[-1]
            found.append(torch.cat([sparse_matmul(m, last) for m in self.fixed.matrices], dim=1))
        return torch.cat(found, dim=1)

    def classify(self, vectors: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return ``(nodes, num_classes)`` logits of encoded nodes."""
        return super().classify(dropped(vectors, self.dropout, generator), generator)


@keyword_settings
class H2GCN(BoundNetwork):
    """H2GCN: neighbours at one and at two steps kept apart from the node itself.

    Args:
        rounds: How often neighbours are averaged.
        **settings: Those of :class:`BoundNetwork`.
    """

    name: ClassVar[str] = "h2gcn"

    dim: int = 64
    rounds: int = 2
    scaling: str = "row"
    epochs: int = 500
    lr: float = 0.01
    weight_decay: float = 5e-4
    average: float = 0.0

    def _defaults(self, task: str, num_nodes: int) -> dict[str, Any]:
        return {"feature_dropout": 0.0, "dropout": 0.5}

    def _candidates(self, task: str) -> list[dict[str, Any]]:
        tuned = {"scaling": "auto", "feature_dropout": 0.5, "average": 0.95}
        return [{}, {"rounds": 1}, tuned, {**tuned, "rounds": 1}]

    def _fit(self, request: FitRequest) -> None:
        self._check_counts("rounds")
        self._graph_at_hand = request.graph
        super()._fit(request)
        del self._graph_at_hand

    def _make_net(
        self, num_features: int, num_classes: int, dropout: float, num_nodes: int
    ) -> NodeNet:
        fixed = Steps(self._graph_at_hand)
        return H2gcnNet(num_features, self.dim, num_classes, fixed, self.rounds, dropout)

    def _read(self, graph: Graph, inputs: NodeInputs) -> None:
        vectors = encode_all(self._net, graph, inputs)
        with torch.no_grad():
            self.class_scores_ = class_scores(self._net.classify(vectors, None), self._is_multi)
        self.embedding_ = reduced(vectors.numpy(), self.dim, self.seed)

    def _step_bytes(self, graph: Graph) -> int:
        # Paths of two links are at least as many as pairs at two steps, before they are merged.
        into = np.bincount(graph.indices, minlength=graph.num_nodes).astype(np.int64)
        paths = int((into * graph.degrees().astype(np.int64)).sum())
        paths = min(paths, graph.num_nodes**2)
        width = self.dim << (self.rounds + 1)
        return 40 * paths + 12 * graph.num_nodes * width
