"""Fit SpaceNE's sibling subspaces from d x d matrices, whatever the number of nodes.

With G_c = X_c^T X_c the captured variance |X_c U_c|^2 is trace(A_c), A_c = U_c^T G_c U_c, and the
change of inner products between two communities is a sum of three dot products of matrices:

    |X_c U_c U_d^T X_d^T - X_c X_d^T|^2 = <A_c, A_d> - 2 <G_c U_c, G_d U_d> + <G_c, G_d>

so all pairs of C communities cost C^2 d^2 and no pair of nodes is ever formed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphham.sampling.keys import numpy_generator

Array = npt.NDArray[np.float64]
_CHECK_EVERY = 20
_TOLERANCE = 1e-5
# Where the penalty on singular values changes from one branch to the other.
_DELTA = 10.0
# Bound on steps x communities^2 x width^2: a few minutes on one core.
_WORK = 2e11


def subspace_loss(bases: Tensor, grams: Tensor, alpha: float) -> Tensor:
    """Return -variance kept + alpha * change of inner products between communities.

    Args:
        bases: ``(communities, width, kept)``.
        grams: ``(communities, width, width)`` X^T X of each community.
        alpha: Weight of the second part.
    """
    mapped = grams @ bases
    inside = bases.mT @ mapped
    kept = inside.diagonal(dim1=1, dim2=2).sum()
    count = len(grams)
    if count < 2 or alpha == 0:
        return -kept
    flat = [matrix.reshape(count, -1) for matrix in (inside, mapped, grams)]
    whole = flat[2] @ flat[2].T
    change = flat[0] @ flat[0].T - 2 * flat[1] @ flat[1].T + whole
    # A difference of large numbers: below this share it is rounding, and its root has no slope.
    change = torch.maximum(change, 1e-12 * whole + 1e-300)
    return -kept + alpha * change.sqrt().triu(1).sum()


def fit_subspaces(grams: Array, drop: int, alpha: float, steps: int, lr: float) -> Array:
    """Minimise :func:`subspace_loss` over orthonormal bases.

    All communities start from the main directions they share, where inner products between them
    change as little as one common subspace allows; after every step of Adam the bases are made
    orthonormal again.

    Args:
        grams: ``(communities, width, width)``.
        drop: Directions each subspace gives up; below the width.
        alpha: Weight of the inner products.
        steps: Most steps; fewer when the loss settles, or with hundreds of communities.
        lr: Learning rate.

    Returns:
        ``(communities, width, width - drop)`` with orthonormal columns.
    """
    count, width, _ = grams.shape
    steps = min(steps, max(10, int(_WORK / (count * width) ** 2)))
    total = grams.sum(0)
    inputs = torch.from_numpy(grams / max(float(np.trace(total)), 1e-300))
    main = np.linalg.eigh(total)[1][:, drop:]
    bases = torch.from_numpy(np.broadcast_to(main, (count, width, width - drop)).copy())
    best, best_loss = bases.clone(), torch.inf
    bases.requires_grad_()
    # Inputs are scaled to a total of 1, so slopes may be far below Adam's usual safeguard.
    adam = torch.optim.Adam([bases], lr=lr, eps=1e-14)
    settled = [torch.inf, torch.inf]
    for step in range(steps + 1):
        loss = subspace_loss(bases, inputs, alpha)
        value = float(loss.detach())
        if value < best_loss:
            best, best_loss = bases.detach().clone(), value
        if step % _CHECK_EVERY == 0:
            if settled[0] - best_loss < _TOLERANCE * abs(best_loss):
                break
            settled = [settled[1], best_loss]
        if step == steps:
            break
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            assert bases.grad is not None
            # Only the part of the slope along orthonormal bases; the rest would swamp Adam's scale.
            across = bases.mT @ bases.grad
            bases.grad -= bases @ (across + across.mT) / 2
        adam.step()
        with torch.no_grad():
            bases.copy_(_orthonormal(bases))
    found: Array = _orthonormal(best).numpy()
    return found


def fit_released(
    grams: Array, drop: int, alpha: float, steps: int, lr: float, rank_weight: float, key: Any
) -> Array:
    """Do what the authors' program does: a few free steps from a random start.

    The bases are not orthonormal on the way; a penalty on their singular values s is added, as
    programmed: s^2 / (2 delta) above delta = 10 and s - delta / 2 below.

    Args:
        grams: ``(communities, width, width)``.
        drop: Directions each subspace gives up.
        alpha: Weight of the inner products.
        steps: Number of steps.
        lr: Learning rate.
        rank_weight: Weight of the penalty.
        key: Decides the start.
    """
    count, width, _ = grams.shape
    draw = numpy_generator(key).normal(scale=width**-0.5, size=(count, width, width - drop))
    bases = torch.from_numpy(draw).requires_grad_()
    inputs = torch.from_numpy(grams)
    adam = torch.optim.Adam([bases], lr=lr)
    for _ in range(steps):
        values = torch.linalg.svdvals(bases)
        penalty = torch.where(values > _DELTA, values**2 / (2 * _DELTA), values - _DELTA / 2)
        loss = subspace_loss(bases, inputs, alpha) + rank_weight * penalty.sum()
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
    left, _, right = torch.linalg.svd(bases.detach(), full_matrices=False)
    found: Array = (left @ right).numpy()
    return found


def _orthonormal(bases: Tensor) -> Tensor:
    """Return orthonormal columns near the given ones, spanning the same space."""
    q, r = torch.linalg.qr(bases)
    # QR may flip a column; a flipped basis would undo what Adam remembers about it.
    sign = torch.where(r.diagonal(dim1=1, dim2=2) < 0, -1.0, 1.0).to(q.dtype)
    flipped: Tensor = q * sign[:, None]
    return flipped
