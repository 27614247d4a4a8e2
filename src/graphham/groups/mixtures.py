r"""Read a block model's memberships as mixtures: which nodes are in two groups, and how much.

Mean-field memberships saturate: the more links a node has, the closer they come to 0 or 1, also
where a quarter of the links goes elsewhere. Here a node is either in one group or in a pair of
them, and its membership is the posterior mean over both possibilities,

.. math::

   P(a) \propto (1 - w)\, p_a f_a \prod_j u_{ja}, \qquad
   P(a, b, t) \propto w\, p_a \frac{p_b}{1 - p_a} \frac{1}{10}
       F_{ab}(t) \prod_j \big((1 - t) u_{ja} + t u_{jb}\big),

with :math:`u_j = \pi_j W` the odds of a link to neighbour j from each group, W how many times more
links two groups have than their degrees explain, f the likelihood of the node's own features and t
= .05, .10, ... .5 the second share; :math:`F_{ab}(t) = (1 - t) f_a + t f_b`. W, the shares p and
the share w of mixed nodes are estimated anew in every round. There is no temperature: a quarter of
the links elsewhere means about a quarter, with twelve links as with thirty.

A neighbour's :math:`\pi_j` is taken without what it heard from the node itself, and a link is
counted for W with both ends' memberships without it (belief propagation). Without that every round
confirms the one before and w grows with the number of rounds, from .35 to .70 where .30 is true.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.groups.block_model import sum_levels, tree_paths
from graphham.kernels import mixture_loops as loops
from graphham.system.jit import Array, frozen

Floats = npt.NDArray[np.float32]

STEPS = np.arange(1, 11) * 0.05
_MIDDLE = 0.25
_ROUNDS = 8
_FIRST_SHARE = 0.1
# Never certain that nobody is mixed or everybody: the next round must be able to leave it.
_LEAST_SHARE, _MOST_SHARE = 1e-3, 0.95
_SMOOTH = 0.5
_STILL = 0.002
_TINY = 1e-30
# Links from which the link table is counted: so many for each pair of groups, and so many at least.
_TABLE_LINKS, _LEAST_LINKS = 64, 100_000
_NONE = frozen(np.empty(0, dtype=np.float32))


class _Links(NamedTuple):
    indptr: Array
    indices: Array
    weights: Array


class _Kept(NamedTuple):
    """What a node keeps of its posterior: a row of groups, a few pairs, their masses by range."""

    single: Array
    pairs: Array
    mass: Array


@dataclass(frozen=True)
class Mixtures:
    """Calibrated memberships of one graph, level 1 first.

    Args:
        memberships: One ``(n, K)`` float32 table a level, rows on the simplex; a level above is
            the sum over its children.
        mixed: ``(levels, n)`` probability that a node belongs to two groups of the level.
        second_share: ``(levels, n)`` expected share of the second group, in [0, 0.5], whichever
            group that is.
        between: ``(levels, n)`` twice the second share times the evidence, in [0, 1]: 1 is half
            and half beyond doubt, and a node nobody knows anything of has 0.
        evidence: ``(n,)`` in [0, 1], how much there is to go by: the nats that links and features
            carry, over those and the nats needed to name a group.
        link_table: ``(K, K)`` W: links between two groups over what degrees explain.
        prior: ``(K,)`` share of each group.
        mixed_share: w, the share of mixed nodes among those with a link.
    """

    memberships: tuple[Floats, ...]
    mixed: Floats
    second_share: Floats
    between: Floats
    evidence: Floats
    link_table: npt.NDArray[np.float64]
    prior: npt.NDArray[np.float64]
    mixed_share: float


def mix_memberships(
    indptr: Array,
    indices: Array,
    weights: Array | None,
    memberships: Array,
    parents: Sequence[Array] = (),
    features: Array | None = None,
    rounds: int = _ROUNDS,
) -> Mixtures:
    """Turn hard memberships of a block model into calibrated mixtures.

    Time is linear in links times groups, memory in nodes times groups.

    Args:
        indptr: Where each node's links begin; every link is stored at both of its ends.
        indices: The other end of each link; links of a node to itself do not count.
        weights: How much each link counts, in any unit; ``None`` for all the same.
        memberships: ``(n, K)`` to begin with, rows on the simplex.
        parents: For each level but the last, the ``(groups,)`` parent of each of its groups.
        features: ``(n, K)`` log likelihood of each node's own features in each group, up to a
            constant by row; ``None`` without features. A mixed node's features are one draw from
            one of its groups: they say which groups, and its links say how much.
        rounds: How often memberships and link table are made from each other.
    """
    count, width = memberships.shape
    links = _Links(frozen(indptr, np.int64), frozen(indices), _relative(weights))
    said = frozen(np.empty((0, width), dtype=np.float32))
    if features is not None:
        values = np.asarray(features, dtype=np.float32)
        said = frozen(values - values.max(axis=1, keepdims=True))
    ancestors = frozen(np.stack(tree_paths(parents, width)))
    degrees = np.empty(count)
    loops.add_over_links(*links, np.ones(count), degrees)
    pi = np.ascontiguousarray(memberships, dtype=np.float32)
    kept = _Kept(
        frozen(pi),
        frozen(np.zeros((count, loops.KEPT, 2), dtype=np.int32)),
        frozen(np.zeros((count, loops.KEPT, loops.RANGES, 2), dtype=np.float32)),
    )
    table = _link_table(links, kept, pi, np.ones((width, width)), degrees)
    share = _FIRST_SHARE
    mixed = np.zeros((len(ancestors), count), dtype=np.float32)
    second = np.zeros_like(mixed)
    prior = _prior(pi)
    for _ in range(rounds):
        prior = _prior(pi)
        new = np.empty_like(pi)
        said_next = _Kept(*(np.empty_like(part) for part in kept))
        loops.weigh_pairs(
            *links,
            link_odds(pi, table),
            frozen(table, np.float32),
            *kept,
            said,
            prior,
            share,
            STEPS,
            _MIDDLE,
            ancestors,
            0,
            count,
            new,
            *said_next,
            mixed,
            second,
        )
        moved = float(np.abs(new - pi).sum(dtype=np.float64)) / max(count, 1)
        pi, kept = new, _Kept(*(frozen(part) for part in said_next))
        linked = degrees > 0
        if linked.any():
            share = float(np.clip(mixed[0, linked].mean(), _LEAST_SHARE, _MOST_SHARE))
        table = _link_table(links, kept, pi, table, degrees)
        if moved < _STILL:
            break
    evidence = _evidence(links, link_odds(pi, table), said, prior)
    share = share if width > 1 else 0.0
    levels, between = tuple(sum_levels(pi, parents)), 2 * second * evidence
    return Mixtures(levels, mixed, second, between, evidence, table, prior, share)


def lead_with(mixtures: Floats, mean_field: Floats) -> Floats:
    """Return mixtures whose strongest group is the one that mean field chose.

    The two disagree about one node in fifty, mostly nodes that are half and half. What a node is
    shown in must be what its explanation explains, so the two groups change places there.

    Args:
        mixtures: ``(n, K)``.
        mean_field: ``(n, K)`` the memberships that the mixtures began with.
    """
    out = np.array(mixtures, dtype=np.float32)
    lead, chosen = out.argmax(axis=1), mean_field.argmax(axis=1)
    rows = np.flatnonzero(lead != chosen)
    first, second = out[rows, lead[rows]], out[rows, chosen[rows]]
    out[rows, lead[rows]], out[rows, chosen[rows]] = second, first
    return out


def link_odds(memberships: Array, table: Array) -> Floats:
    """Return ``(n, K)`` how much likelier than by degrees a link to each node is from each group.

    The table's rows are the groups that links come from.
    """
    odds = np.asarray(memberships, dtype=np.float32) @ np.asarray(table, dtype=np.float32).T
    return frozen(np.maximum(odds, np.float32(_TINY)))


def count_link_table(
    indptr: Array, indices: Array, weights: Array | None, memberships: Array
) -> npt.NDArray[np.float64]:
    """Return W for memberships as they are: links between groups over what degrees explain.

    Rows are the groups that stored links begin in; links may have a direction.
    """
    count = len(memberships)
    pi = np.asarray(memberships, dtype=np.float32)
    often = _relative(weights)
    data = often if len(often) else np.ones(len(indices), dtype=np.float32)
    links = sp.csr_matrix((data, indices, indptr), shape=(count, count))
    counts = pi.T.astype(np.float64) @ (links @ pi)
    out, into = counts.sum(axis=1), counts.sum(axis=0)
    expected = np.outer(out, into) / max(float(counts.sum()), _TINY)
    table: npt.NDArray[np.float64] = (counts + _SMOOTH) / (expected + _SMOOTH)
    return table


def _relative(weights: Array | None) -> Array:
    """Return weights of mean one: the unit that a user measured in says nothing."""
    if weights is None or not len(weights):
        return _NONE
    mean = float(np.asarray(weights).mean(dtype=np.float64))
    if not mean > 0:
        return _NONE
    return frozen(np.asarray(weights) / mean, np.float32)


def _prior(pi: Floats) -> npt.NDArray[np.float64]:
    sums = pi.sum(axis=0, dtype=np.float64) + _SMOOTH
    prior: npt.NDArray[np.float64] = sums / sums.sum()
    return prior


def _link_table(
    links: _Links, kept: _Kept, pi: Floats, table: Array, degrees: Array
) -> npt.NDArray[np.float64]:
    """Return links between groups over what degrees explain, from the table of the round before."""
    counts = np.zeros(table.shape)
    enough = max(_TABLE_LINKS * table.size, _LEAST_LINKS)
    every = max(1, len(links.indices) // 2 // enough)
    odds = link_odds(pi, table)
    loops.share_links(*links, odds, frozen(table, np.float32), *kept, every, counts)
    ends = degrees @ pi.astype(np.float64)
    expected = np.outer(ends, ends) / max(float(degrees.sum()), _TINY)
    made: npt.NDArray[np.float64] = (counts + _SMOOTH) / (expected + _SMOOTH)
    return made


def _evidence(links: _Links, odds: Floats, said: Array, prior: Array) -> Floats:
    """Return how much there is to go by, from 0 to 1.

    Each link, and the features together, would by itself move the prior to some posterior; the
    nats of that move, added up, are the evidence. Links that disagree do not cancel: they are
    evidence of lying between. A half means as many nats as it takes to name a group.
    """
    count = len(odds)
    needed = float(-(prior * np.log(prior)).sum())
    nats = np.empty(count)
    loops.add_over_links(*links, _gain(odds, prior), nats)
    if len(said):
        nats += _gain(np.exp(said), prior)
    if needed < 1e-9:
        return np.zeros(count, dtype=np.float32)
    scaled: Floats = (nats / (nats + needed)).astype(np.float32)
    return scaled


def _gain(likelihood: Floats, prior: Array) -> npt.NDArray[np.float64]:
    """Return the Kullback-Leibler divergence of each row's posterior from the prior."""
    relative = likelihood / np.maximum(likelihood @ prior, _TINY)[:, None]
    logs = np.log(np.maximum(relative, _TINY))
    gain: npt.NDArray[np.float64] = np.maximum((relative * logs) @ prior, 0.0)
    return gain
