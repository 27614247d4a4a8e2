"""GAT, graph attention networks (Velickovic et al., ICLR 2018).

``alpha_ij = softmax of LeakyReLU(a_left . W h_i + a_right . W h_j)`` over i and its neighbours j,
``h_i' = sum_j alpha_ij W h_j``; eight heads are put side by side (then ELU) in hidden layers and
those of the last layer averaged, as in the paper. The last layer has one head by default, as
published for Cora and Citeseer: eight cost eight times as much and gained nothing on Cora. A linear
classifier reads the last layer. Dropout falls on layer inputs and on attention; on graphs of twenty
thousand nodes both are milder.

``GAT.published`` are the paper's settings for Cora and Citeseer, which do better than ours with
few labels: rows of unit length, dropout 0.6 everywhere, 8 x 8 hidden units, Adam at 0.005 with a
penalty of 5e-4, no averaged weights. They are one of the settings tried on validation data.

GAT has no unsupervised form of its own; for links it takes the loss of GraphSAGE (A18), and one
layer, which did better than two on held-out edges.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graphham.graph.neighborhoods import Block
from graphham.kernels import attend, fused_attention
from graphham.methods.network_method import LayeredMethod, by_size
from graphham.methods.network_training import NodeNet, dropped, product
from graphham.methods.parameters import keyword_settings
from graphham.model.feature_rows import FeatureRows


class GatLayer(nn.Module):
    """One attention layer.

    Args:
        in_dim: Width of the input.
        heads: Number of attention heads.
        width: Width of one head.
        concat: Put heads side by side; average them otherwise.
        residual: Add a linear path around the attention.
        slope: LeakyReLU slope below zero.
    """

    def __init__(
        self,
        in_dim: int,
        heads: int,
        width: int,
        concat: bool,
        residual: bool = False,
        slope: float = 0.2,
    ) -> None:
        super().__init__()
        self.heads, self.width, self.concat, self.slope = heads, width, concat, slope
        out_dim = heads * width if concat else width
        self.weight = nn.Parameter(torch.empty(in_dim, heads * width))
        self.left = nn.Parameter(torch.empty(heads, width))
        self.right = nn.Parameter(torch.empty(heads, width))
        self.bias = nn.Parameter(torch.empty(out_dim))
        self.around = nn.Parameter(torch.empty(in_dim, out_dim)) if residual else None

    def forward(
        self,
        x: FeatureRows | Tensor,
        block: Block,
        dropout: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Return ``(targets, heads * width)`` or, averaged, ``(targets, width)``.

        Args:
            x: States of the block's sources.
            block: The neighbourhood, self edges included.
            dropout: Share of attention weights dropped.
            generator: Source of that dropout; ``None`` outside training.
        """
        vectors = torch.stack([self.left, self.right])
        # What dropout multiplies attention with: one draw per edge and head.
        scale = None
        if dropout and generator is not None:
            ones = vectors.new_ones(block.num_edges, self.heads)
            scale = dropped(ones, dropout, generator)
        if isinstance(x, FeatureRows) and x.dense is None:
            mapped = product(x, self.weight).view(-1, self.heads, self.width)
            read = attend(mapped, vectors, block, slope=self.slope, scale=scale)
        else:
            held = x.dense if isinstance(x, FeatureRows) else x
            assert held is not None
            read = fused_attention(held, self.weight, vectors, block, slope=self.slope, scale=scale)
        state = read.flatten(1) if self.concat else read.mean(1)
        if self.around is not None:
            state = state + product(x, self.around)[: block.num_targets]
        return state + self.bias


class GatNet(NodeNet):
    """Stacked attention layers.

    Args:
        num_features: Width of the input.
        dim: Width of every layer; hidden layers split it over their heads.
        num_classes: Columns of the classifier; 0 for none.
        layers: Number of layers.
        heads: Attention heads of hidden layers, side by side.
        out_heads: Attention heads of the last layer, averaged.
        dropout: Share of hidden values dropped.
        attention_dropout: Share of attention weights dropped.
        residual: Add linear paths around layers.
    """

    def __init__(
        self,
        num_features: int,
        dim: int,
        num_classes: int,
        layers: int,
        heads: int,
        out_heads: int,
        dropout: float,
        attention_dropout: float,
        residual: bool,
    ) -> None:
        super().__init__(dim, num_classes, layers, self_edge=True, dropout=dropout)
        split = max(1, dim // heads)
        hidden = [
            GatLayer(num_features if i == 0 else split * heads, heads, split, True, residual)
            for i in range(layers - 1)
        ]
        last = GatLayer(split * heads if hidden else num_features, out_heads, dim, False, residual)
        self.layers = nn.ModuleList([*hidden, last])
        self.attention_dropout = attention_dropout

    def encode(
        self, features: FeatureRows, blocks: list[Block], generator: torch.Generator | None
    ) -> Tensor:
        """Return the ``(targets, dim)`` vectors of the last block's targets."""
        rate = self.attention_dropout
        state: Tensor = self.layers[0](features, blocks[0], rate, generator)
        for layer, block in zip(self.layers[1:], blocks[1:], strict=True):
            state = dropped(F.elu(state), self.dropout, generator)
            state = layer(state, block, rate, generator)
        return state

    def classify(self, vectors: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return ``(nodes, num_classes)`` logits of encoded nodes."""
        return super().classify(dropped(F.elu(vectors), self.dropout, generator), generator)

    def working_bytes(self, nodes: int, edges: int) -> int:
        """Return about how much memory one full-graph step takes."""
        layers: Any = self.layers
        per_node = sum(6 * layer.heads * layer.width for layer in layers)
        per_edge = sum(6 * layer.heads for layer in layers)
        total: int = 4 * (nodes * per_node + edges * per_edge)
        return total


@keyword_settings
class GAT(LayeredMethod):
    """GAT with eight heads; end to end with labels, on walks without.

    Args:
        heads: Attention heads of hidden layers, side by side.
        out_heads: Attention heads of the last layer, averaged.
        attention_dropout: Share of attention weights dropped; by the graph's size when not given.
        residual: Add a linear path around each layer (not in the paper; helps where a node's own
            features say most, as on Pubmed).
        **settings: Those of :class:`LayeredMethod`.
    """

    name: ClassVar[str] = "gat"

    published: ClassVar[Mapping[str, Any]] = {
        "dim": 64,
        "scaling": "row",
        "feature_dropout": 0.6,
        "dropout": 0.6,
        "attention_dropout": 0.6,
        "lr": 0.005,
        "weight_decay": 5e-4,
        "average": 0.0,
        "epochs": 1000,
    }

    heads: int = 8
    out_heads: int = 1
    attention_dropout: float | None = None
    residual: bool = False

    def _defaults(self, task: str, num_nodes: int) -> dict[str, Any]:
        found = super()._defaults(task, num_nodes)
        if task == "classify":
            # Attention overfits small graphs within a few epochs; the paper drops as much.
            found["feature_dropout"] = by_size(num_nodes, 0.7, 0.2)
            found["dropout"] = by_size(num_nodes, 0.6, 0.3)
        return found

    def _candidates(self, task: str) -> list[dict[str, Any]]:
        if task == "classify":
            mild = {"feature_dropout": 0.2, "dropout": 0.3, "weight_decay": 1e-4}
            return [{}, dict(self.published), {"residual": True}, {**mild, "residual": True}]
        return super()._candidates(task)

    def _make_net(
        self, num_features: int, num_classes: int, dropout: float, num_nodes: int
    ) -> NodeNet:
        self._check_counts("heads", "out_heads")
        return GatNet(
            num_features,
            self.dim,
            num_classes,
            self._num_layers(num_classes),
            self.heads,
            self.out_heads,
            dropout,
            by_size(num_nodes, 0.3, 0.1)
            if self.attention_dropout is None
            else self.attention_dropout,
            self.residual,
        )
