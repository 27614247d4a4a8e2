"""APPNP, predict then propagate (Klicpera, Bojchevski and Guennemann, ICLR 2019).

A network of one hidden layer predicts from a node's own features; its class scores ``H`` are
spread by steps of personalised PageRank, ``Z <- (1 - alpha) Ahat Z + alpha H``. The embedding is
the hidden layer, spread alike. The layers have no bias, as in the authors' code.

Defaults are those of the paper: 64 hidden units, ten steps, alpha 0.1, dropout 0.5 on features,
hidden states and, anew in each step, the entries of ``Ahat``; an L2 penalty of 5e-3 on the first
layer only, Adam at 0.01, stopped after 100 epochs without a better validation score.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.graph.neighborhoods import Block
from graphham.methods.base import Floats
from graphham.methods.network_method import WholeGraphMethod
from graphham.methods.network_training import NodeNet, dropped, encode_all, product
from graphham.methods.parameters import keyword_settings
from graphham.methods.propagation import convolution_weights, convolve
from graphham.model.feature_rows import FeatureRows
from graphham.model.inputs import NodeInputs
from graphham.results.encoder import class_scores
from graphham.system.threads import single_threaded


class AppnpNet(NodeNet):
    """One hidden layer, spread by personalised PageRank.

    Args:
        num_features: Width of the input.
        dim: Width of the hidden layer.
        num_classes: Columns of the classifier.
        steps: Steps of spreading.
        alpha: Share of a node's own state in every step.
        dropout: Share of hidden values and of the convolution's entries dropped.
    """

    def __init__(
        self,
        num_features: int,
        dim: int,
        num_classes: int,
        steps: int,
        alpha: float,
        dropout: float,
    ) -> None:
        super().__init__(num_classes, 0, 1, self_edge=True, dropout=dropout)
        self.steps, self.alpha = steps, alpha
        self.first = nn.Parameter(torch.empty(num_features, dim))
        self.last = nn.Parameter(torch.empty(dim, num_classes))

    def encode(
        self, features: FeatureRows, blocks: list[Block], generator: torch.Generator | None
    ) -> Tensor:
        """Return the ``(nodes, num_classes)`` spread class scores."""
        hidden = dropped(self.hidden(features), self.dropout, generator)
        return self.spread(hidden @ self.last, blocks[0], generator)

    def classify(self, vectors: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return the class scores that :meth:`encode` gave."""
        return vectors

    def hidden(self, features: FeatureRows) -> Tensor:
        """Return the ``(nodes, dim)`` hidden states."""
        return torch.relu(product(features, self.first))

    def spread(self, own: Tensor, block: Block, generator: torch.Generator | None) -> Tensor:
        """Return what personalised PageRank makes of each node's own ``(nodes, width)`` values."""
        shares = (1 - self.alpha) * convolution_weights(block)
        state = own
        for _ in range(self.steps):
            kept = dropped(shares, self.dropout, generator)
            state = convolve(kept, state, block) + self.alpha * own
        return state

    def decayed(self) -> list[nn.Parameter]:
        """Return the first layer's matrix alone."""
        return [self.first]


@keyword_settings
class APPNP(WholeGraphMethod):
    """APPNP as published: 64 hidden units, ten steps of personalised PageRank.

    Args:
        steps: Steps of spreading.
        alpha: Share of a node's own state in every step, the chance of a walk to return.
        **settings: Those of :class:`WholeGraphMethod`.
    """

    name: ClassVar[str] = "appnp"

    dim: int = 64
    steps: int = 10
    alpha: float = 0.1
    scaling: str = "row"
    epochs: int = 1000
    lr: float = 0.01
    weight_decay: float = 5e-3
    average: float = 0.0

    def _candidates(self, task: str) -> list[dict[str, Any]]:
        mild = {"weight_decay": 5e-4, "feature_dropout": 0.2, "dropout": 0.2}
        return [{}, {"scaling": "auto", "average": 0.95}, {"alpha": 0.3}, mild]

    def _make_net(
        self, num_features: int, num_classes: int, dropout: float, num_nodes: int
    ) -> NodeNet:
        self._check_counts("steps")
        if not 0 < self.alpha <= 1:
            raise InputError(f"alpha must lie above 0 and not above 1, got {self.alpha}")
        return AppnpNet(num_features, self.dim, num_classes, self.steps, self.alpha, dropout)

    def _read(self, graph: Graph, inputs: NodeInputs) -> None:
        self.embedding_ = self._spread_hidden(graph, inputs)
        self.class_scores_ = class_scores(encode_all(self._net, graph, inputs), self._is_multi)

    def _place(self, graph: Graph) -> Floats:
        known = self.ids_.find(graph.ids) if self._features.is_structural else None
        with single_threaded():
            return self._spread_hidden(graph, self._features.apply(graph, known))

    def _spread_hidden(self, graph: Graph, inputs: NodeInputs) -> Floats:
        net = self._net
        assert isinstance(net, AppnpNet)
        with torch.no_grad():
            found = net.spread(net.hidden(inputs.rows(None)), Block.full(graph, True), None)
        return found.numpy().astype(np.float32)

    def _facts(self) -> dict[str, Any]:
        return {**super()._facts(), "num_classes": len(self.classes_)}

    def _step_bytes(self, graph: Graph) -> int:
        edges = graph.num_stored + graph.num_nodes
        return 4 * self.steps * (graph.num_nodes * self.dim + 3 * edges)
