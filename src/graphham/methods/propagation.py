"""The symmetric convolution D^-1/2 A D^-1/2 over a neighbourhood, as GCN introduced it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from graphham.graph.neighborhoods import Block
from graphham.kernels import aggregate


def convolution_weights(block: Block) -> Tensor:
    """Return the ``(num_edges, 1)`` weights w_ij / sqrt(d_i d_j) of a whole graph's block.

    Args:
        block: The neighbourhood of every node; with self edges these are GCN's ``A + I``. Degrees
            are sums of weights over a node's own row, also in a directed graph.
    """
    count = np.diff(block.indptr)
    weights = np.ones(block.num_edges) if block.weights is None else block.weights
    target = np.repeat(np.arange(block.num_targets), count)
    degree = np.bincount(target, weights=weights, minlength=block.num_targets)
    # A node without edges of its own may still be read by others of a directed graph.
    root = 1 / np.sqrt(np.where(degree > 0, degree, 1.0))
    found = weights * root[target] * root[block.indices]
    return torch.from_numpy(found.astype(np.float32)[:, None])


def convolve(weights: Tensor, states: Tensor, block: Block) -> Tensor:
    """Return the ``(num_targets, dim)`` weighted sums of each target's source states."""
    return aggregate(weights, states[:, None, :], block)[:, 0]
