"""What the network must be told, and nothing else of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """The shape of a network and which reading of the paper each part follows.

    Args:
        groups: Groups per level, fine to coarse; one layer each.
        dim: Width of the embedding, all layers together.
        heads: Attention heads M, averaged (E9).
        activation: Non-linearity of every layer but the last, which is linear.
        self_edge: Whether a node attends to itself (A5).
        residual: Whether a linear path goes around each attention layer.
        dropout: Share of hidden values dropped in training.
        membership_input: Where memberships come from: the block model of links and features, or
            the layer's input as in E1 (A13).
        affinity: Scaled cosine, or the dot product with a learned scale (A13).
        affinity_scale: Scale of the cosine.
        assignment: Gumbel noise on log pi, on pi as printed, or none (A3).
        dirichlet: Whether pi is drawn from a Dirichlet first (E3).
        group_score: Score per pair of groups, the paper's additive one (E7), or none.
        separate_attention: Own attention vector for the additive score (A12).
        product: Softmax of the sum of both scores, or the product as printed (A5).
        straight_through: One-hot assignments in decoder and constraints, soft gradients (A3).
        group_context: Whether a context vector depends on the target's group; no is minus-Q.
        mix: A relaxed z mixes context vectors or the groups' losses (A15).
        class_activation: What the classifier reads: the positive part of the states, or all.
        class_steps: Steps over which class logits are averaged along edges.
        class_groups: Whether the classifier reads the block model's memberships.
    """

    groups: tuple[int, ...]
    dim: int
    heads: int = 1
    activation: Literal["elu", "relu", "identity"] = "elu"
    self_edge: bool = True
    residual: bool = False
    dropout: float = 0.0
    membership_input: Literal["block", "state"] = "block"
    affinity: Literal["cosine", "dot"] = "cosine"
    affinity_scale: float = 8.0
    assignment: Literal["log", "literal", "mean"] = "log"
    dirichlet: bool = False
    group_score: Literal["pair", "additive", "none"] = "pair"
    separate_attention: bool = False
    product: Literal["renormalised", "literal"] = "renormalised"
    straight_through: bool = False
    group_context: bool = True
    mix: Literal["vector", "loss"] = "vector"
    class_activation: Literal["relu", "identity"] = "relu"
    class_steps: int = 0
    class_groups: bool = True

    @property
    def layer_dims(self) -> tuple[int, ...]:
        """Width of each layer's output; what does not divide evenly goes to the first layers."""
        return spread_dims(self.dim, len(self.groups))


def spread_dims(dim: int, layers: int) -> tuple[int, ...]:
    """Return the width of every layer, as even as can be."""
    return tuple(dim // layers + (layer < dim % layers) for layer in range(layers))
