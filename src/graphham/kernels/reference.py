"""The same operations in plain torch: the definition, and what runs on CUDA and in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

if TYPE_CHECKING:
    from graphham.graph.neighborhoods import Block
    from graphham.kernels.group_terms import GroupTerms
    from graphham.system.jit import Array


def edge_scores(left: Tensor, right: Tensor, block: Block, slope: float) -> Tensor:
    """Return LeakyReLU(left_i + right_j) for each edge."""
    parts = block.to(left.device)
    return leaky_relu(left[parts.targets] + right[parts.sources], slope)


def edge_dot(left: Tensor, right: Tensor, block: Block) -> Tensor:
    """Return left_i . right_j for each edge."""
    parts = block.to(left.device)
    return (left[parts.targets] * right[parts.sources]).sum(dim=-1)


def edge_softmax(logits: Tensor, block: Block) -> Tensor:
    """Return the softmax of the logits over each target's edges."""
    targets = block.to(logits.device).targets
    shape = (block.num_targets, logits.shape[1])
    lowest = logits.new_full(shape, -torch.inf)
    # The largest logit cancels out of the result, so no gradient flows through it.
    places = targets.unsqueeze(-1).expand_as(logits)
    top = lowest.scatter_reduce(0, places, logits.detach(), "amax")
    powers = torch.exp(logits - top[targets])
    total = logits.new_zeros(shape).index_add(0, targets, powers)
    return powers / total[targets]


def aggregate(weights: Tensor, values: Tensor, block: Block) -> Tensor:
    """Return the weighted sum of each target's source values."""
    parts = block.to(values.device)
    messages = weights.unsqueeze(-1) * values[parts.sources]
    out = values.new_zeros(block.num_targets, *values.shape[1:])
    return out.index_add(0, parts.targets, messages)


def mean_aggregate(values: Tensor, block: Block) -> Tensor:
    """Return the weighted mean of each target's source values, zero where there is no edge."""
    weights = block.to(values.device).mean_weights.to(values.dtype)
    return aggregate(weights.unsqueeze(-1), values.unsqueeze(1), block).squeeze(1)


def attend(
    values: Tensor,
    vectors: Tensor,
    block: Block,
    groups: GroupTerms | None,
    slope: float,
    rows: Array | None,
    scale: Tensor | None,
) -> Tensor:
    """Return source vectors summed with attention weights between them."""
    if rows is not None:
        values = values[torch.as_tensor(rows.copy(), device=values.device)]
    values = values.to(vectors.dtype)
    left = (values[: block.num_targets] * vectors[0]).sum(2)
    right = (values * vectors[1]).sum(2)
    logits = edge_scores(left, right, block, slope)
    if groups is not None:
        terms = groups.expanded(block.num_targets)
        if terms.kind == "pair":
            logits = logits + edge_dot(terms.left, terms.right, block)[:, None]
        else:
            logits = logits + edge_scores(terms.left, terms.right, block, slope)
    weights = edge_softmax(logits, block)
    if block.weights is not None:
        weights = rescaled(weights, block)
    if scale is not None:
        weights = weights * scale
    return aggregate(weights, values.expand(-1, vectors.shape[1], -1), block)


def rescaled(weights: Tensor, block: Block) -> Tensor:
    """Scale attention by the block's own weights; each neighbourhood keeps its total."""
    parts = block.to(weights.device)
    zeros = weights.new_zeros(block.num_targets, weights.shape[1])
    scaled = weights * parts.mean_weights.to(weights.dtype)[:, None]
    before = zeros.index_add(0, parts.targets, weights)
    after = zeros.index_add(0, parts.targets, scaled).clamp_min(1e-12)
    return scaled * (before / after)[parts.targets]
