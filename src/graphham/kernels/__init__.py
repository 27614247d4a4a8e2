"""Operations over neighbourhoods, groups and sparse features, with gradients.

Each is loaded when first used, so that the model can be imported and read without them. No name
here may be the name of a module of this package: importing the module would take its place.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphham.kernels.assignments import Assigned, assign_sources, plain_assignment
    from graphham.kernels.attention_ops import attend, fused_attention
    from graphham.kernels.contrast import contrast_loss
    from graphham.kernels.edge_ops import (
        aggregate,
        edge_dot,
        edge_scores,
        edge_softmax,
        mean_aggregate,
    )
    from graphham.kernels.group_ops import chance_violation, relax
    from graphham.kernels.group_terms import GroupTerms
    from graphham.kernels.gumbel import draw_key, gumbel_softmax
    from graphham.kernels.products import tall_product
    from graphham.kernels.reference import rescaled
    from graphham.kernels.row_ops import take_rows, unit_rows
    from graphham.kernels.skipgram_loss import PairGradient, left_for_table, pair_loss
    from graphham.kernels.sparse import SparseMatrix, sparse_matmul
    from graphham.sampling.random_stream import dropout, uniform
    from graphham.system.tensors import empty_table, runs_reference

__all__ = [
    "Assigned",
    "GroupTerms",
    "PairGradient",
    "SparseMatrix",
    "aggregate",
    "assign_sources",
    "attend",
    "chance_violation",
    "contrast_loss",
    "draw_key",
    "dropout",
    "edge_dot",
    "edge_scores",
    "edge_softmax",
    "empty_table",
    "fused_attention",
    "gumbel_softmax",
    "left_for_table",
    "mean_aggregate",
    "pair_loss",
    "plain_assignment",
    "relax",
    "rescaled",
    "runs_reference",
    "sparse_matmul",
    "take_rows",
    "tall_product",
    "uniform",
    "unit_rows",
]

_MODULES = {
    "assignments": ("Assigned", "assign_sources", "plain_assignment"),
    "attention_ops": ("attend", "fused_attention"),
    "contrast": ("contrast_loss",),
    "edge_ops": ("aggregate", "edge_dot", "edge_scores", "edge_softmax", "mean_aggregate"),
    "group_ops": ("chance_violation", "relax"),
    "group_terms": ("GroupTerms",),
    "gumbel": ("draw_key", "gumbel_softmax"),
    "products": ("tall_product",),
    "reference": ("rescaled",),
    "row_ops": ("take_rows", "unit_rows"),
    "skipgram_loss": ("PairGradient", "left_for_table", "pair_loss"),
    "sparse": ("SparseMatrix", "sparse_matmul"),
}
_HOMES = {
    name: f"graphham.kernels.{module}" for module, names in _MODULES.items() for name in names
}
_HOMES |= dict.fromkeys(("dropout", "uniform"), "graphham.sampling.random_stream")
_HOMES |= dict.fromkeys(("empty_table", "runs_reference"), "graphham.system.tensors")

if not TYPE_CHECKING:  # a type checker would take any name for granted

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'graphham.kernels' has no attribute {name!r}")
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value  # the next access does not come here
        return value
