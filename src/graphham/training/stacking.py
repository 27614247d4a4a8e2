"""How much each of several voices counts: weights of their logits, none below zero."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

# Newton's steps settle in a few rounds; the rest is for logits that are nearly alike.
_ROUNDS = 50
# A gradient, or a share of a step, below this is rounding.
_TINY = 1e-9


def weigh(voices: Tensor, wanted: Tensor, prior: Tensor, strength: float) -> Tensor:
    """Return the ``(voices,)`` weights under which labels are likeliest, near ``prior``.

    The negative log likelihood of a weighted sum of logits, plus ``strength`` times the squared
    distance from ``prior``, has one minimum; Newton's steps on the weights that are not held at
    zero find it in a few rounds.

    Args:
        voices: ``(voices, rows, num_classes)`` logits.
        wanted: ``(rows,)`` codes, or ``(rows, num_classes)`` of zeros and ones, of which each
            counts a class's share of a label.
        prior: ``(voices,)`` weights to start from, positive.
        strength: How many labels it takes to move a weight by about one.
    """
    voices, prior = voices.double(), prior.double()
    weights = prior.clone()
    value, slope, bend = _likelihood(voices, wanted, weights, prior, strength)
    for _ in range(_ROUNDS):
        free = (weights > 0) | (slope < 0)
        if not bool(free.any()) or float(slope[free].abs().max()) < _TINY:
            break
        move = torch.zeros_like(weights)
        move[free] = -torch.linalg.solve(bend[free][:, free], slope[free])
        size = 1.0
        while size > _TINY:
            moved = (weights + size * move).clamp_min(0)
            found = _likelihood(voices, wanted, moved, prior, strength)
            if float(found[0]) < float(value):
                break
            size /= 2
        else:
            break  # rounding is all that is left
        weights, (value, slope, bend) = moved, found
    return weights


def _likelihood(
    voices: Tensor, wanted: Tensor, weights: Tensor, prior: Tensor, strength: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what is minimised, its gradient and its second derivatives."""
    logits = torch.einsum("v,vnc->nc", weights, voices)
    if wanted.dim() == 1:
        value = F.cross_entropy(logits, wanted, reduction="sum")
        chances = logits.softmax(1)
        miss = chances - F.one_hot(wanted, logits.shape[1])
        means = (voices * chances).sum(2)
        bend = torch.einsum("vnc,nc,wnc->vw", voices, chances, voices) - means @ means.T
    else:
        target = wanted.double()
        value = F.binary_cross_entropy_with_logits(logits, target, reduction="sum")
        chances = logits.sigmoid()
        miss = chances - target
        bend = torch.einsum("vnc,nc,wnc->vw", voices, chances * (1 - chances), voices)
    slope = torch.einsum("vnc,nc->v", voices, miss)
    away = weights - prior
    return (
        value + strength * away.square().sum(),
        slope + 2 * strength * away,
        bend + 2 * strength * torch.eye(len(weights), dtype=torch.float64),
    )
