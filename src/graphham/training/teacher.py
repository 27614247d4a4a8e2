r"""What groups say of classes: the teacher of nodes without a label.

The labels that are known are counted along the tree: a group's share of each class leans on its
parent's, the more the fewer labelled members it has,

.. math:: \theta_k = (n_k + a\,\theta_{parent(k)}) / (\textstyle\sum_c n_{kc} + a), \qquad
          q_i = \sum_k \pi_{ik} \theta_k

with a chosen by leaving out one label at a time. Several fits of the groups, fine and coarse, are
averaged: where they disagree the teacher is unsure. Where labels were drawn class by class, each
counts by how frequent its class is (``class_shares``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphham.groups.block_model import BlockFit, sum_levels
from graphham.training.supervision import Truth

Floats = npt.NDArray[np.float32]
# How many labels of its own a group weighs as much as its parent; the labels choose.
_LEANS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_CHUNK = 1 << 22  # numbers held at once while labels are left out one at a time
_TINY = 1e-9
_ROUNDS = 20  # of scaling classes and nodes in turn; more change nothing that is seen


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Labelled members of every group, in shares of membership.

    Args:
        labelled: Per level ``(K_l, num_classes)`` sums of memberships by class.
        members: Per level ``(K_l,)`` sums of memberships of labelled nodes.
        parents: Per level but the last the parent of each group.
    """

    labelled: list[Any]
    members: list[Any]
    parents: Sequence[npt.NDArray[np.int64]]

    def table(self, lean: float) -> Any:
        """Return ``(..., K_1, num_classes)`` theta of the finest groups."""
        counts, total = self.labelled[-1].sum(-2), self.members[-1].sum(-1)
        classes = counts.shape[-1]
        theta = ((counts + 1) / (total[..., None] + classes))[..., None, :]
        for level in reversed(range(len(self.labelled))):
            above = theta
            if level < len(self.parents):
                above = theta[..., self.parents[level], :]
            theta = (self.labelled[level] + lean * above) / (self.members[level][..., None] + lean)
        return theta


def class_table(
    memberships: Floats,
    parents: Sequence[npt.NDArray[np.int64]],
    truth: Truth,
    num_classes: int,
    weights: npt.NDArray[np.float64] | None = None,
) -> Floats:
    """Return ``(K_1, num_classes)`` theta: the share of each class in each of the finest groups.

    Args:
        memberships: ``(num_nodes, K_1)`` finest memberships.
        parents: Per level but the last the parent of each group.
        truth: Labels; only those to train on are counted.
        num_classes: Number of classes, whether or not a node has them all.
        weights: ``(num_classes,)`` by how much a label of each class counts; one when not given.
    """
    rows = torch.nonzero(truth.training)[:, 0].numpy()
    targets = one_hot(truth, num_classes)[rows]
    levels = [level.astype(np.float64) for level in sum_levels(memberships[rows], parents)]
    if weights is not None:
        # A node that counts twice is twice a member.
        each = (targets @ weights)[:, None]
        levels = [level * each for level in levels]
    counts = ClassCounts(
        [level.T @ targets for level in levels], [level.sum(0) for level in levels], parents
    )
    scores = [_left_out(levels, targets, counts, lean, truth.is_multi) for lean in _LEANS]
    theta = counts.table(_LEANS[int(np.argmax(scores))])
    return np.asarray(theta, dtype=np.float32)


def group_classes(
    memberships: Floats,
    parents: Sequence[npt.NDArray[np.int64]],
    truth: Truth,
    num_classes: int,
    weights: npt.NDArray[np.float64] | None = None,
) -> Floats:
    """Return ``(num_nodes, num_classes)`` q of every node; see :func:`class_table`."""
    out: Floats = memberships @ class_table(memberships, parents, truth, num_classes, weights)
    return out


def teach(
    fits: Sequence[BlockFit],
    truth: Truth,
    num_classes: int,
    weights: npt.NDArray[np.float64] | None = None,
) -> Tensor:
    """Return ``(num_nodes, num_classes)`` the mean of what several fits say of the classes."""
    total = sum(
        group_classes(fit.memberships, fit.model.parents, truth, num_classes, weights)
        for fit in fits
    )
    return torch.from_numpy(np.asarray(total / np.float32(len(fits)), dtype=np.float32))


def with_shares(probabilities: Tensor, shares: Tensor) -> Tensor:
    """Return probabilities under which classes have given shares, as near to the old as can be.

    Classes and nodes are scaled in turn (iterative proportional fitting).

    Args:
        probabilities: ``(nodes, num_classes)`` rows that sum to one.
        shares: ``(num_classes,)`` wanted mean of the rows.
    """
    for _ in range(_ROUNDS):
        probabilities = probabilities * (shares / probabilities.mean(0).clamp_min(_TINY))
        probabilities = probabilities / probabilities.sum(1, keepdim=True).clamp_min(_TINY)
    return probabilities


def one_hot(truth: Truth, num_classes: int) -> npt.NDArray[np.float64]:
    """Return ``(num_nodes, num_classes)`` zeros and ones; rows without a label are arbitrary."""
    if truth.is_multi:
        return np.asarray(truth.targets.numpy(), dtype=np.float64)
    codes = truth.targets.clamp_min(0).numpy()
    out: npt.NDArray[np.float64] = np.eye(num_classes)[codes]
    return out


def _left_out(
    levels: list[Any], targets: Any, counts: ClassCounts, lean: float, is_multi: bool
) -> float:
    """Return the log likelihood of every label given all others, each as often as it counts."""
    each = sum(level.shape[1] for level in levels) * targets.shape[1]
    step = max(1, _CHUNK // max(each, 1))
    total = 0.0
    for first in range(0, len(targets), step):
        part = slice(first, first + step)
        wanted = targets[part]
        without = ClassCounts(
            [
                all_ - level[part][:, :, None] * wanted[:, None, :]
                for all_, level in zip(counts.labelled, levels, strict=True)
            ],
            [all_ - level[part] for all_, level in zip(counts.members, levels, strict=True)],
            counts.parents,
        )
        weight = levels[0][part].sum(1, keepdims=True)
        expected = np.einsum("ik,ikc->ic", levels[0][part] / weight, without.table(lean))
        expected = np.clip(expected, _TINY, 1 - _TINY)
        hits = wanted * np.log(expected)
        if is_multi:
            hits = hits + (1 - wanted) * np.log(1 - expected)
        total += float((weight * hits).sum())
    return total
