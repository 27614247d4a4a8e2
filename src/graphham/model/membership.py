"""Memberships: how close a node is to each group, how levels agree on a path, who sits between.

Levels are lists ordered fine to coarse. Evidence is what one layer says by itself; a membership is
what all layers say together, and its levels nest: a coarse membership is the sum of its children's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from graphham import kernels

if TYPE_CHECKING:
    from graphham.graph.neighborhoods import Block
    from graphham.sampling.random_stream import Source

# A hub's thousands of links are far from independent witnesses: beyond about this many, more of
# them add little.
WITNESSES = 64.0
_RULED_OUT = -80.0  # log evidence for a parent without children


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


def neighbor_evidence(memberships: Tensor, table: Tensor, block: Block, degrees: Tensor) -> Tensor:
    """Return what a node's neighbours say about its group.

    With ``table[k, k']`` the logarithm of how much more often groups k and k' link than chance,
    node i collects sum_j membership_j . table over its neighbours: one mean-field step of a block
    model. A sampled neighbourhood is scaled up to the node's real degree.

    Args:
        memberships: ``(num_sources, num_groups)`` rows on the simplex.
        table: ``(num_groups, num_groups)`` symmetric log affinities.
        block: The neighbourhood; its self edges are left out.
        degrees: ``(num_targets,)`` real degrees.

    Returns:
        ``(num_targets, num_groups)`` evidence to add to the affinities; zero without neighbours.
    """
    weights = torch.tensor(block.neighbor_weights).to(memberships)[:, None]
    heard = kernels.aggregate(weights, (memberships @ table)[:, None, :], block).squeeze(1)
    return heard * witnesses(degrees)[:, None]


def witnesses(degrees: Tensor) -> Tensor:
    """Return how many independent witnesses a node's neighbours count for."""
    return degrees / (1 + degrees / WITNESSES)


def combine_levels(log_evidence: Sequence[Tensor], parents: Sequence[Tensor]) -> list[Tensor]:
    """Join the levels' evidence into memberships that nest exactly.

    Going up, a level takes the geometric mean of its own evidence and of what its children say:
    the two look at the same data, so their agreement is not counted twice, and a node whose levels
    firmly contradict each other lies between the two groups they name. Going down, a parent's
    membership is shared among its children in proportion to their evidence.

    Args:
        log_evidence: Per level ``(nodes, K_l)`` logarithms of rows on the simplex, fine to coarse.
        parents: Per level but the last ``(K_l,)`` parent of each group.

    Returns:
        Per level ``(nodes, K_l)`` rows on the simplex; summing children gives their parent.
    """
    up = log_evidence[0]
    plain = kernels.runs_reference(*log_evidence)
    shares: list[Tensor] = []
    for level, parent in enumerate(parents):
        target = log_evidence[level + 1]
        if plain:
            total, share = _sum_children(up, parent, target.shape[1])
            up = (0.5 * (target + total)).log_softmax(dim=1)
        else:
            up, share = kernels.climb(up, target, parent)
        shares.append(share)
    out = [up.exp()]
    for parent, share in zip(reversed(parents), reversed(shares), strict=True):
        above = out[-1]
        out.append(above[:, parent] * share if plain else kernels.descend(above, share, parent))
    return out[::-1]


def _sum_children(up: Tensor, parent: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return ``(nodes, count)`` log sums over each parent's children, and each child's share."""
    # Each family is shifted by its own largest member, so even a family that the evidence all but
    # rules out keeps exact shares. The shift cancels out and needs no gradient.
    shift = torch.full((len(up), count), _RULED_OUT, dtype=up.dtype, device=up.device)
    family = parent[None, :].expand(len(up), -1)
    shift = shift.scatter_reduce(1, family, up.detach(), "amax", include_self=False)
    parts = (up - shift[:, parent]).exp()
    sums = torch.zeros_like(shift).index_add(1, parent, parts)
    childless = torch.bincount(parent, minlength=count) == 0
    return sums.masked_fill(childless, 1.0).log() + shift, parts / sums[:, parent]
