"""Operations over neighbourhoods and sparse features, with gradients."""

from graphham.ops.attention import (
    aggregate,
    edge_dot,
    edge_scores,
    edge_softmax,
    mean_aggregate,
)

__all__ = [
    "aggregate",
    "edge_dot",
    "edge_scores",
    "edge_softmax",
    "mean_aggregate",
]
