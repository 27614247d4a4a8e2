"""GraphSAGE with the mean aggregator (Hamilton, Ying and Leskovec, NeurIPS 2017).

Layer ``k``: ``h_i = act([W_self h_i ; W_neigh mean over neighbours j of h_j])``, the two halves
side by side, no bias; ReLU everywhere but in the last layer. With labels a linear classifier on the
last layer is trained end to end. Without, the paper's loss: nodes met within four steps of a walk
attract each other, random nodes (drawn by degree^0.75) repel.

Differences from the authors' code, each for the better on small graphs: all neighbours or samples
drawn per node instead of one column permutation shared by all; dropout and weight decay (they use
none); cosines are scaled in the unsupervised loss, because unit vectors alone cannot make the
logistic function sure of anything; all negatives of a pair together weigh as much as its positive
(theirs weigh 20 times as much, which cost 0.1 AUC on Cora); for links one layer, which did better
than two on held-out edges; 200 epochs instead of 1-10.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from graphham.graph.neighborhoods import Block
from graphham.kernels import mean_aggregate
from graphham.methods.network_method import LayeredMethod
from graphham.methods.network_training import NodeNet, dropped, product
from graphham.model.feature_rows import FeatureRows


class SageLayer(nn.Module):
    """One mean-aggregator layer.

    Args:
        in_dim: Width of the input.
        out_dim: Width of the output; half of it comes from the node, half from its neighbours.
    """

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.own = out_dim - out_dim // 2
        self.weight = nn.Parameter(torch.empty(in_dim, out_dim))

    def forward(self, x: FeatureRows | Tensor, block: Block) -> Tensor:
        """Return ``(targets, out_dim)`` from the states of the block's sources."""
        # Averaging after the product is the same and reads the (wide, sparse) input only once.
        mapped = product(x, self.weight)
        near = mean_aggregate(mapped[:, self.own :].contiguous(), block)
        return torch.cat([mapped[: block.num_targets, : self.own], near], dim=1)


class SageNet(NodeNet):
    """Stacked mean-aggregator layers.

    Args:
        num_features: Width of the input.
        dim: Width of every layer.
        num_classes: Columns of the classifier; 0 for none.
        layers: Number of layers.
        dropout: Share of hidden values dropped.
    """

    def __init__(
        self, num_features: int, dim: int, num_classes: int, layers: int, dropout: float
    ) -> None:
        super().__init__(dim, num_classes, layers, self_edge=False, dropout=dropout)
        widths = [num_features] + [dim] * layers
        self.layers = nn.ModuleList(SageLayer(widths[i], dim) for i in range(layers))

    def encode(
        self, features: FeatureRows, blocks: list[Block], generator: torch.Generator | None
    ) -> Tensor:
        """Return the ``(targets, dim)`` vectors of the last block's targets."""
        state: Tensor = self.layers[0](features, blocks[0])
        for layer, block in zip(self.layers[1:], blocks[1:], strict=True):
            state = layer(dropped(torch.relu(state), self.dropout, generator), block)
        return state

    def classify(self, vectors: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return ``(nodes, num_classes)`` logits of encoded nodes."""
        return super().classify(dropped(torch.relu(vectors), self.dropout, generator), generator)


class GraphSAGE(LayeredMethod):
    """GraphSAGE with the mean aggregator; end to end with labels, on walks without.

    Args:
        **settings: Those of :class:`LayeredMethod`.
    """

    name: ClassVar[str] = "graphsage"
    # The paper has no settings for citation graphs; rows of unit length are what its rivals have.
    published: ClassVar[Mapping[str, Any]] = {"scaling": "row"}

    def _candidates(self, task: str) -> list[dict[str, Any]]:
        if task == "classify":
            strong = {"feature_dropout": 0.7, "dropout": 0.6, "weight_decay": 1e-3}
            mild = {"feature_dropout": 0.2, "dropout": 0.3, "weight_decay": 1e-4}
            return [{}, dict(self.published), strong, mild]
        return super()._candidates(task)

    def _make_net(
        self, num_features: int, num_classes: int, dropout: float, num_nodes: int
    ) -> NodeNet:
        layers = self._num_layers(num_classes)
        return SageNet(num_features, self.dim, num_classes, layers, dropout)
