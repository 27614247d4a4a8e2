"""Operations over neighbourhoods and sparse features, with gradients."""

from graphham.ops.attention import (
    aggregate,
    edge_dot,
    edge_scores,
    edge_softmax,
    mean_aggregate,
)
from graphham.ops.sparse import SparseMatrix, sparse_matmul

__all__ = [
    "SparseMatrix",
    "aggregate",
    "edge_dot",
    "edge_scores",
    "edge_softmax",
    "mean_aggregate",
    "sparse_matmul",
]
