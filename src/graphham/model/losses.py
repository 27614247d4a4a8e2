"""What training minimises: contexts, constraints between levels, balance and classes."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from graphham import kernels

_TINY = 1e-9


def contrastive_loss(anchors: Tensor, positives: Tensor, temperature: float, size: int) -> Tensor:
    """Ask each anchor to pick its positive among those of its set, by cosine.

    Args:
        anchors: ``(pairs, dim)`` target states, already modulated by their groups.
        positives: ``(pairs, dim)`` states of one context node each.
        temperature: Divides the cosines.
        size: Pairs are cut into sets of about this size; the others of a set are the negatives.

    Returns:
        Mean cross-entropy over pairs; zero when there are fewer than two pairs.
    """
    pairs = len(anchors)
    if pairs < 2:
        return anchors.sum() * 0.0
    return kernels.contrast_loss(anchors, positives, temperature, max(1, round(pairs / size)))


def skipgram_loss(positive: Tensor, negative: Tensor) -> Tensor:
    """Return the mean -log sigmoid(s) of positives plus the mean -log sigmoid(-s) of negatives.

    Args:
        positive: ``(pairs,)`` scores of true contexts (E10).
        negative: ``(pairs,)`` scores of sampled non-neighbours.
    """
    total = positive.sum() * 0.0
    for part in (-F.logsigmoid(positive), -F.logsigmoid(-negative)):
        if len(part):
            total = total + part.mean()
    return total


def violation_mass(lower: Tensor, upper: Tensor) -> Tensor:
    r"""Return V of E12 over all ordered pairs of distinct nodes, in closed form.

    .. math::
        V = \|1^T A\|^2 - \|A^T C\|_F^2 - \sum_i |a_i|^2 (1 - |c_i|^2)

    Args:
        lower: ``(nodes, K_l)`` assignments A; rows on the simplex.
        upper: ``(nodes, K_{l+1})`` assignments C.
    """
    own = (lower.square().sum(1) * (1 - upper.square().sum(1))).sum()
    return lower.sum(0).square().sum() - (lower.T @ upper).square().sum() - own


def constraint_loss(
    lower: Tensor, upper: Tensor, must_link: float, cannot_link: float, how: str = "chance"
) -> Tensor:
    """Return the must-link and cannot-link penalty between two levels (E13).

    Both terms count the same violated pairs; must-link moves the upper level for given lower
    groups, cannot-link the lower level for given upper groups (A4).

    Args:
        lower: ``(nodes, K_l)`` assignments.
        upper: ``(nodes, K_{l+1})`` assignments.
        must_link: gamma.
        cannot_link: beta.
        how: Divide V by what independent levels would give (``chance``), by the number of ordered
            pairs (``pairs``), or by the size of the term's own set (``set``).
    """
    total = lower.new_zeros(())
    if len(lower) < 2:
        return total
    if how == "chance" and not kernels.runs_reference(lower, upper):
        return kernels.chance_violation(lower, upper, must_link, cannot_link)
    if must_link:
        total = total + must_link * _scaled_mass(lower.detach(), upper, how, "must")
    if cannot_link:
        total = total + cannot_link * _scaled_mass(lower, upper.detach(), how, "cannot")
    return total


def _scaled_mass(lower: Tensor, upper: Tensor, how: str, term: str) -> Tensor:
    mass = violation_mass(lower, upper)
    count = len(lower)
    same_below = lower.sum(0).square().sum() - lower.square().sum()
    same_above = upper.sum(0).square().sum() - upper.square().sum()
    pairs = count * (count - 1)
    if how == "pairs":
        return mass / pairs
    if how == "set":
        # Must-link pairs share a group below; cannot-link pairs do not share one above.
        size = same_below if term == "must" else pairs - same_above
        return mass / size.clamp_min(1.0)
    expected = same_below * (1 - same_above / pairs)
    # The floor keeps a collapsing upper level (nothing expected) from dividing by zero.
    return mass / (expected + 1e-3 * pairs)


def balance_loss(memberships: Tensor, prior: Tensor) -> Tensor:
    """Return KL(mean membership || prior), zero when groups are used as the prior says.

    Args:
        memberships: ``(nodes, num_groups)`` rows on the simplex.
        prior: ``(num_groups,)`` wanted shares.
    """
    mean = memberships.mean(0)
    return (mean * ((mean + _TINY) / prior).log()).sum()


def class_loss(logits: Tensor, truth: Tensor) -> Tensor:
    """Return cross-entropy for class codes, or binary cross-entropies of a 0/1 matrix.

    The labels of a node are summed, not averaged: with many labels each would otherwise weigh
    less than in a graph with few, and context and penalties would drown them.

    Args:
        logits: ``(nodes, num_classes)``.
        truth: ``(nodes,)`` codes or ``(nodes, num_classes)`` of zeros and ones.
    """
    if not len(logits):
        return logits.sum() * 0.0
    if truth.dim() == 1:
        return F.cross_entropy(logits, truth)
    return logits.shape[1] * F.binary_cross_entropy_with_logits(logits, truth)


def sharpened(chances: Tensor, is_multi: bool) -> Tensor:
    """Return probabilities made surer: squared, and scaled to be probabilities again.

    Args:
        chances: ``(nodes, num_classes)``.
        is_multi: Whether each label has a probability of its own, instead of one in all.
    """
    square = chances.square()
    others = (1 - chances).square() + square if is_multi else square.sum(-1, keepdim=True)
    return square / others.clamp_min(1e-12)
