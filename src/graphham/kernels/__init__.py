"""Operations over neighbourhoods and sparse features, with gradients."""

from graphham.kernels.edge_ops import aggregate, edge_dot, edge_scores, edge_softmax, mean_aggregate
from graphham.kernels.fused_attention import GroupTerms, attend, fused_attention
from graphham.kernels.sparse import SparseMatrix, sparse_matmul

__all__ = [
    "GroupTerms",
    "SparseMatrix",
    "aggregate",
    "attend",
    "edge_dot",
    "edge_scores",
    "edge_softmax",
    "fused_attention",
    "mean_aggregate",
    "sparse_matmul",
]
