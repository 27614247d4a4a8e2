"""The same operations in plain torch: the definition, and what runs on CUDA and in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

if TYPE_CHECKING:
    from graphham.blocks import Block


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
