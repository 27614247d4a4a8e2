"""How much each of several members counts: weights of their logits, none below zero."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

# Newton's steps settle in a few rounds; the rest is for logits that are nearly alike.
_ROUNDS = 50
# A gradient, or a share of a step, below this is rounding.
_TINY = 1e-9


def stack_weights(members: Tensor, targets: Tensor, prior: Tensor, strength: float) -> Tensor:
    """Return the ``(members,)`` weights under which labels are likeliest, near ``prior``.

    The negative log likelihood of a weighted sum of logits, plus ``strength`` times the squared
    distance from ``prior``, has one minimum; Newton's steps on the weights that are not held at
    zero find it in a few rounds.

    Args:
        members: ``(members, rows, num_classes)`` logits.
        targets: ``(rows,)`` codes, or ``(rows, num_classes)`` of zeros and ones, of which each
            counts a class's share of a label.
        prior: ``(members,)`` weights to start from, positive.
        strength: How many labels it takes to move a weight by about one.
    """
    members, prior = members.double(), prior.double()
    weights = prior.clone()
    value, slope, hessian = _likelihood(members, targets, weights, prior, strength)
    for _ in range(_ROUNDS):
        free = (weights > 0) | (slope < 0)
        if not bool(free.any()) or float(slope[free].abs().max()) < _TINY:
            break
        move = torch.zeros_like(weights)
        move[free] = -torch.linalg.solve(hessian[free][:, free], slope[free])
        size = 1.0
        while size > _TINY:
            moved = (weights + size * move).clamp_min(0)
            trial = _likelihood(members, targets, moved, prior, strength)
            if float(trial[0]) < float(value):
                break
            size /= 2
        else:
            break  # rounding is all that is left
        weights, (value, slope, hessian) = moved, trial
    return weights


def _likelihood(
    members: Tensor, targets: Tensor, weights: Tensor, prior: Tensor, strength: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what is minimised, its gradient and its second derivatives."""
    logits = torch.einsum("v,vnc->nc", weights, members)
    if targets.dim() == 1:
        value = F.cross_entropy(logits, targets, reduction="sum")
        probabilities = logits.softmax(1)
        miss = probabilities - F.one_hot(targets, logits.shape[1])
        means = (members * probabilities).sum(2)
        hessian = torch.einsum("vnc,nc,wnc->vw", members, probabilities, members) - means @ means.T
    else:
        target = targets.double()
        value = F.binary_cross_entropy_with_logits(logits, target, reduction="sum")
        probabilities = logits.sigmoid()
        miss = probabilities - target
        hessian = torch.einsum(
            "vnc,nc,wnc->vw", members, probabilities * (1 - probabilities), members
        )
    slope = torch.einsum("vnc,nc->v", members, miss)
    away = weights - prior
    return (
        value + strength * away.square().sum(),
        slope + 2 * strength * away,
        hessian + 2 * strength * torch.eye(len(weights), dtype=torch.float64),
    )
