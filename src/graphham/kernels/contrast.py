"""The contrastive loss and its gradient in one go: three matrix products and one pass between them.

A loss that ends in one number has a gradient as soon as it is known, so nothing of size pairs x
pairs is kept, and the softmax, the division by the temperature and the choice of the true pair are
one loop instead of six.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from graphham.kernels.row_ops import normalise, normalise_back
from graphham.system.jit import Array, exp_below_zero, jit
from graphham.system.tensors import new_tensor, readable, runs_reference


def contrast_loss(anchors: Tensor, positives: Tensor, temperature: float, count: int) -> Tensor:
    """Return the mean cross-entropy of picking each anchor's positive, by cosine.

    Args:
        anchors: ``(pairs, dim)``.
        positives: ``(pairs, dim)``; the pair's own is in the same row.
        temperature: Divides the cosines.
        count: Pairs are cut into this many sets; the others of a set are the negatives.
    """
    if runs_reference(anchors, positives):
        return _reference(anchors, positives, temperature, count)
    out: Tensor = _Contrast.apply(  # type: ignore[no-untyped-call]
        anchors, positives, temperature, count
    )
    return out


def _reference(anchors: Tensor, positives: Tensor, temperature: float, count: int) -> Tensor:
    pairs = len(anchors)
    anchors, positives = F.normalize(anchors, dim=1), F.normalize(positives, dim=1)
    total = anchors.new_zeros(())
    for left, right in zip(anchors.tensor_split(count), positives.tensor_split(count), strict=True):
        scores = left @ right.T / temperature
        truth = torch.arange(len(left), device=scores.device)
        total = total + F.cross_entropy(scores, truth, reduction="sum")
    return total / pairs


class _Contrast(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, anchors: Tensor, positives: Tensor, temperature: float, count: int
    ) -> Tensor:
        pairs, dim = anchors.shape
        units, lengths = [], []
        for held in (anchors, positives):
            unit, length = new_tensor(pairs, dim), np.empty(pairs, dtype=np.float32)
            normalise(readable(held), unit.numpy(), length)
            units.append(unit)
            lengths.append(length)
        grads = [new_tensor(pairs, dim), new_tensor(pairs, dim)]
        total = 0.0
        for left, right, grad_left, grad_right in zip(
            *(each.tensor_split(count) for each in (*units, *grads)), strict=True
        ):
            scores = torch.mm(left, right.t())
            total += _soften(scores.numpy(), 1.0 / temperature, 1.0 / (temperature * pairs))
            torch.mm(scores, right, out=grad_left)
            torch.mm(scores.t(), left, out=grad_right)
        for unit, length, grad in zip(units, lengths, grads, strict=True):
            normalise_back(readable(unit), length, grad.numpy(), grad.numpy())
        ctx.save_for_backward(*grads)
        return torch.tensor(total / pairs, dtype=torch.float32)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        left, right = ctx.saved_tensors
        return grad * left, grad * right, None, None


@jit
def _soften(scores: Array, sharpness: float, scale: float) -> float:
    """Turn cosines into the gradient of the cosines, in place; return the sum of the losses."""
    rows, columns = scores.shape
    sharp, share = np.float32(sharpness), np.float32(scale)
    total = 0.0
    for i in range(rows):
        top = scores[i, 0]
        for j in range(1, columns):
            top = max(top, scores[i, j])
        own = scores[i, i]
        mass = np.float32(0.0)
        for j in range(columns):
            power = exp_below_zero((scores[i, j] - top) * sharp)
            scores[i, j] = power
            mass += power
        factor = share / mass
        for j in range(columns):
            scores[i, j] *= factor
        scores[i, i] -= share
        total += math.log(mass) + np.float64((top - own) * sharp)
    return total
