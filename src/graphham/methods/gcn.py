"""GCN, graph convolutional networks (Kipf and Welling, ICLR 2017).

``H' = ReLU(Ahat H W)`` with ``Ahat = D^-1/2 (A + I) D^-1/2``, two layers, the last without ReLU
giving the class scores. The embedding is what the last matrix multiplies, ``Ahat H``.

Defaults are those of the paper: 16 hidden units, dropout 0.5 on both layers' inputs, an L2 penalty
of 5e-4 on the first layer only, Adam at 0.01, 200 epochs, rows of features scaled (to unit length
here, to unit sum there). Theirs stops once the validation loss has not fallen for ten epochs; ours
keeps the best validated epoch, as for every network here.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from graphham.errors import InputError
from graphham.graph.neighborhoods import Block
from graphham.methods.network_method import WholeGraphMethod
from graphham.methods.network_training import NodeNet, dropped, product
from graphham.methods.parameters import keyword_settings
from graphham.methods.propagation import convolution_weights, convolve
from graphham.model.feature_rows import FeatureRows


class GcnNet(NodeNet):
    """Stacked convolutions.

    Args:
        num_features: Width of the input.
        dim: Width of hidden layers.
        num_classes: Columns of the last layer.
        layers: Number of layers, the last one included.
        dropout: Share of hidden values dropped.
    """

    def __init__(
        self, num_features: int, dim: int, num_classes: int, layers: int, dropout: float
    ) -> None:
        super().__init__(dim, num_classes, 1, self_edge=True, dropout=dropout)
        widths = [num_features] + [dim] * (layers - 1)
        self.weights = nn.ParameterList(
            nn.Parameter(torch.empty(width, dim)) for width in widths[: layers - 1]
        )

    def encode(
        self, features: FeatureRows, blocks: list[Block], generator: torch.Generator | None
    ) -> Tensor:
        """Return ``(nodes, dim)``: what the last layer multiplies by its matrix."""
        block = blocks[0]
        shares = convolution_weights(block)
        state: FeatureRows | Tensor = features
        for weight in self.weights:
            state = torch.relu(convolve(shares, product(state, weight), block))
            state = dropped(state, self.dropout, generator)
        assert isinstance(state, Tensor)
        return convolve(shares, state, block)

    def decayed(self) -> list[nn.Parameter]:
        """Return the first layer's matrix alone."""
        return [self.weights[0]]


@keyword_settings
class GCN(WholeGraphMethod):
    """GCN as published: two convolutions, 16 hidden units.

    Args:
        layers: Number of convolutions, at least two.
        **settings: Those of :class:`WholeGraphMethod`.
    """

    name: ClassVar[str] = "gcn"

    dim: int = 16
    layers: int = 2
    scaling: str = "row"
    epochs: int = 200
    lr: float = 0.01
    weight_decay: float = 5e-4
    average: float = 0.0

    def _candidates(self, task: str) -> list[dict[str, Any]]:
        wide = {"dim": 64, "scaling": "auto", "average": 0.95}
        return [{}, {"dim": 64}, wide, {**wide, "weight_decay": 5e-5, "feature_dropout": 0.2}]

    def _make_net(
        self, num_features: int, num_classes: int, dropout: float, num_nodes: int
    ) -> NodeNet:
        if self.layers < 2:
            raise InputError(f"layers must be at least 2, got {self.layers}; sgc is the linear one")
        return GcnNet(num_features, self.dim, num_classes, self.layers, dropout)
