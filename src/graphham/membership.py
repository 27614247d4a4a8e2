"""Memberships: how close a node is to each group, how levels agree on a path, who sits between.

Levels are lists ordered fine to coarse. Evidence is what one layer says by itself; a membership is
what all layers say together, and its levels nest: a coarse membership is the sum of its children's.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from graphham.blocks import Block
from graphham.ops import aggregate

# A hub's thousands of links are far from independent witnesses: beyond about this many, more of
# them add little.
_WITNESSES = 64.0
_TINY = 1e-9


def cosine_affinity(states: Tensor, groups: Tensor, scale: float) -> Tensor:
    """Return ``(nodes, num_groups)`` affinities u_ik = scale * cos(state_i, phi_k) (E1, A13)."""
    return scale * (F.normalize(states, dim=1) @ F.normalize(groups, dim=1).T)


def gumbel_noise(shape: Sequence[int], generator: torch.Generator | None, like: Tensor) -> Tensor:
    """Return standard Gumbel noise of ``shape`` on ``like``'s device.

    Without a generator it comes from torch's own stream.
    """
    uniform = torch.rand(
        tuple(shape), generator=generator, device=like.device, dtype=like.dtype
    ).clamp_(1e-7, 1 - 1e-7)
    return -torch.log(-torch.log(uniform))


def assign(
    affinity: Tensor,
    tau: float,
    noise: Tensor | None,
    how: str = "log",
    dirichlet: bool = False,
    generator: torch.Generator | None = None,
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
    mean = affinity.softmax(dim=1)
    if noise is None or how == "mean":
        return mean
    log_pi = affinity.log_softmax(dim=1)
    pi = mean
    if dirichlet:
        # A normalised gamma draw, since torch's own Dirichlet takes no generator. Concentrations
        # near 1/K underflow to exact zeros whose logarithm is -inf.
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
    heard = aggregate(weights, (memberships @ table)[:, None, :], block).squeeze(1)
    return heard * (degrees / (1 + degrees / _WITNESSES))[:, None]


def combine_levels(evidence: Sequence[Tensor], parents: Sequence[Tensor]) -> list[Tensor]:
    """Join the levels' evidence into memberships that nest exactly.

    Going up, a level multiplies its own evidence with what its children say; going down, a parent's
    membership is shared among its children in proportion to their evidence.

    Args:
        evidence: Per level ``(nodes, K_l)`` rows on the simplex, fine to coarse.
        parents: Per level but the last ``(K_l,)`` parent of each group.

    Returns:
        Per level ``(nodes, K_l)`` rows on the simplex; summing children gives their parent.
    """
    up = [evidence[0]]
    lifted: list[Tensor] = []
    for level, parent in enumerate(parents):
        target = evidence[level + 1]
        summed = torch.zeros_like(target).index_add(1, parent, up[level])
        lifted.append(summed)
        joint = target * summed + _TINY
        up.append(joint / joint.sum(dim=1, keepdim=True))
    out = [up[-1]]
    for level in range(len(parents) - 1, -1, -1):
        parent = parents[level]
        # Children nobody speaks for share their parent's membership evenly.
        count = torch.bincount(parent, minlength=evidence[level + 1].shape[1])
        share = (up[level] + _TINY / count[parent]) / (lifted[level] + _TINY)[:, parent]
        out.append(out[-1][:, parent] * share)
    return out[::-1]


def decode_path(memberships: Sequence[Tensor], parents: Sequence[Tensor]) -> list[Tensor]:
    """Return per level the ``(nodes,)`` group of each node, chosen from the top down.

    The coarsest group is the strongest one; every finer one is the strongest child of the group
    above it, so fine groups lie inside coarse ones by construction. A coarse group without
    children leaves the finer choice free.
    """
    out = [memberships[-1].argmax(dim=1)]
    for level in range(len(memberships) - 2, -1, -1):
        if level >= len(parents):
            out.append(memberships[level].argmax(dim=1))
            continue
        allowed = parents[level][None, :] == out[-1][:, None]
        allowed |= ~allowed.any(dim=1, keepdim=True)
        out.append(memberships[level].masked_fill(~allowed, -1.0).argmax(dim=1))
    return out[::-1]
