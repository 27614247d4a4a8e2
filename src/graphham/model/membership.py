"""Memberships that layers make for themselves: how close a node is to each group, and draws of it.

The groups of a block model come from :mod:`graphham.groups.group_map` instead and are not drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from graphham import kernels

if TYPE_CHECKING:
    from graphham.sampling.random_stream import Source


def cosine_affinity(states: Tensor, groups: Tensor, scale: float) -> Tensor:
    """Return ``(nodes, num_groups)`` affinities u_ik = scale * cos(state_i, phi_k) (E1, A13)."""
    return kernels.unit_rows(states) @ (scale * kernels.unit_rows(groups)).T


def gumbel_noise(shape: Sequence[int], generator: Source | None, like: Tensor) -> Tensor:
    """Return standard Gumbel noise of ``shape`` on ``like``'s device.

    Without a generator it comes from torch's own stream.
    """
    drawn = kernels.uniform(shape, generator, like).clamp_(1e-7, 1 - 1e-7)
    return drawn.log_().neg_().log_().neg_()


def assign(
    affinity: Tensor,
    tau: float,
    noise: Tensor | None,
    how: str = "log",
    dirichlet: bool = False,
    generator: Source | None = None,
) -> Tensor:
    """Draw relaxed assignments z from affinities (E2-E4).

    Args:
        affinity: ``(nodes, num_groups)`` u.
        tau: Temperature of the relaxation.
        noise: Gumbel noise of the same shape; ``None`` gives the mean membership (inference).
        how: ``log`` adds noise to log pi, ``literal`` to pi as the paper prints it, ``mean`` none.
        dirichlet: Draw pi from a Dirichlet around its mean first (E3).
        generator: Source of the Dirichlet draw; torch's own stream when not given.

    Returns:
        ``(nodes, num_groups)`` rows on the simplex.
    """
    if noise is None or how == "mean":
        noise, tau, how, dirichlet = None, 1.0, "log", False
    if how == "log" and not dirichlet and not kernels.runs_reference(affinity):
        return kernels.relax(affinity, noise, tau)
    mean = affinity.softmax(dim=1)
    if noise is None:
        return mean
    log_pi = affinity.log_softmax(dim=1)
    pi = mean
    if dirichlet:
        # A normalised gamma draw, since torch's own Dirichlet takes no generator. Concentrations
        # near 1/K underflow to exact zeros whose logarithm is -inf.
        assert generator is None or isinstance(generator, torch.Generator)
        gamma = torch._standard_gamma(mean.clamp_min(1e-4), generator=generator)
        pi = (gamma / gamma.sum(dim=1, keepdim=True)).clamp_min(1e-8)
        log_pi = pi.log()
    logits = pi if how == "literal" else log_pi
    return ((logits + noise) / tau).softmax(dim=1)


def one_hot_straight_through(soft: Tensor) -> Tensor:
    """Return one-hot rows of the largest entries whose gradient is that of the soft rows."""
    hard = F.one_hot(soft.argmax(dim=1), soft.shape[1]).to(soft.dtype)
    return hard + soft - soft.detach()
