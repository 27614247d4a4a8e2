r"""Say what a block-model membership is made of, exactly: parts that add up to its log-odds.

A mean-field round gives node i and group k the logit

.. math::

   \ell_{ik} = \ln p_k + x_{ik} + y_{i, \text{parent}(k)}
       + \rho_i \sum_j w_{ij} \sum_l \pi_{jl} T_{kl}

(share of the group, own features, what the parent level says, every neighbour through the link
table) and :math:`\pi_i = \text{softmax}(\ell_i)`. The log-odds of two groups are a difference of
logits, so each term has its part in them. On a level above, a membership is a sum over children and
the parts are means over the children, plus what being spread over several of them adds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from graphham.kernels import mixture_loops as loops
from graphham.system.jit import Array, frozen

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MeanFieldRound:
    """What the last mean-field round of the finest level was made of.

    Args:
        indptr: Where each node's links begin.
        indices: The other end of each link.
        weights: ``w_ij``; ``None`` for ones.
        heard: ``(n, K)`` memberships that the round read.
        table: ``(K, K)`` T, the logarithm of the link table.
        rho: ``(n,)`` how much a node's links count, together with its other evidence.
        features: ``(n, K)`` x, what own features say; ``None`` without features.
        parent: ``(K,)`` parent of each group; ``None`` with one level.
        parent_features: ``(n, parents)`` y; ``None`` where the parent level says nothing.
        log_prior: ``(K,)`` ln p; ``None`` for even shares.
    """

    indptr: Array
    indices: Array
    weights: Array | None
    heard: Array
    table: Array
    rho: Array
    features: Array | None = None
    parent: Array | None = None
    parent_features: Array | None = None
    log_prior: Array | None = None

    def links_of(self, row: int) -> tuple[npt.NDArray[np.int64], Doubles]:
        """Return the rows that a node is linked to and the weights of the links."""
        part = slice(int(self.indptr[row]), int(self.indptr[row + 1]))
        others = np.asarray(self.indices[part], dtype=np.int64)
        if self.weights is None:
            return others, np.ones(len(others))
        return others, np.asarray(self.weights[part], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Contributions:
    """The log-odds of a node's group against another one, in parts that add up.

    Args:
        group: The group it is shown in.
        other: The one it is compared with.
        log_odds: ``ln(membership in group / membership in other)``.
        prior: Part of the groups' shares.
        features: Part of its own features.
        parent: Part of the level above.
        spread: Part of being spread over several children of one group; 0 on the finest level.
        neighbor_rows: ``(degree,)`` rows of its neighbours, in stored order.
        neighbors: ``(degree,)`` part of each.
    """

    group: int
    other: int
    log_odds: float
    prior: float
    features: float
    parent: float
    spread: float
    neighbor_rows: npt.NDArray[np.int64]
    neighbors: Doubles

    @property
    def total(self) -> float:
        """The sum of all parts."""
        own = self.prior + self.features + self.parent + self.spread
        return own + float(self.neighbors.sum())


def mean_field_logits(pieces: MeanFieldRound, row: int) -> Doubles:
    """Return the ``(K,)`` logits of one node; their softmax is its membership."""
    own = sum(_own_parts(pieces, row))
    others, often = pieces.links_of(row)
    table = np.asarray(pieces.table, dtype=np.float64)
    said = (often @ np.asarray(pieces.heard, dtype=np.float64)[others]) @ table.T
    logits: Doubles = own + float(pieces.rho[row]) * said
    return logits


def explain_membership(
    pieces: MeanFieldRound,
    row: int,
    group: int | None = None,
    other: int | None = None,
    ancestor: Array | None = None,
) -> Contributions:
    """Take the log-odds of a node's membership apart.

    Args:
        pieces: The round that made the memberships.
        row: The node.
        group: The group to explain; the one with the largest membership when not given.
        other: The one to compare with; the runner-up when not given.
        ancestor: ``(K,)`` group of the level in question above each of the finest; ``None`` for
            the finest level itself.

    Returns:
        Parts whose sum is the log-odds. With a single group there is nothing to compare with:
        ``group`` and ``other`` are then the same and all parts 0.
    """
    logits = mean_field_logits(pieces, row)
    above = np.arange(len(logits)) if ancestor is None else np.asarray(ancestor, dtype=np.int64)
    scores = np.full(int(above.max()) + 1, -np.inf)
    np.logaddexp.at(scores, above, logits)
    chosen = int(scores.argmax()) if group is None else group
    rest = np.where(np.arange(len(scores)) == chosen, -np.inf, scores)
    second = int(rest.argmax()) if other is None else other
    if len(scores) == 1:
        second = chosen
    # ln sum exp(l) = sum q l + entropy(q), with q the shares of the children: linear in the parts.
    one, one_spread = _shares(logits, above == chosen)
    two, two_spread = _shares(logits, above == second)
    toward = one - two
    prior, features, parent = (float(part @ toward) for part in _own_parts(pieces, row))
    others, often = pieces.links_of(row)
    pull = toward @ np.asarray(pieces.table, dtype=np.float64)
    parts = np.asarray(pieces.heard, dtype=np.float64)[others] @ pull
    return Contributions(
        group=chosen,
        other=second,
        log_odds=float(scores[chosen] - scores[second]),
        prior=prior,
        features=features,
        parent=parent,
        spread=one_spread - two_spread,
        neighbor_rows=others,
        neighbors=float(pieces.rho[row]) * often * parts,
    )


def surprise_of_links(
    indptr: Array,
    indices: Array,
    memberships: Array,
    odds: Array,
    start: int = 0,
    stop: int | None = None,
) -> npt.NDArray[np.float32]:
    """Return how surprising each stored link of the rows ``start`` to ``stop`` is.

    The surprise of a link is ``-ln(pi_i W pi_j)``, minus the logarithm of how many times more links
    the ends' groups have than their degrees explain: 0 for a link as likely as chance, negative
    where it fits, and 1.1 for one that the groups make three times rarer. The links themselves have
    shaped memberships and table, so that the only link of a node is never surprising.

    Nothing but the answer is as large as the links; ask for a range of rows at a time where they
    are many.

    Args:
        indptr: Where each node's links begin.
        indices: The other end of each link.
        memberships: ``(n, K)`` rows on the simplex.
        odds: ``(n, K)`` of :func:`graphham.groups.mixtures.link_odds` for these memberships and W
            (``exp`` of a table of logarithms): the odds of a link *to* each node.
        start: First row.
        stop: Row behind the last; all when not given.
    """
    stop = len(indptr) - 1 if stop is None else stop
    part = frozen(indptr[start : stop + 1], np.int64)
    out = np.empty(int(part[-1] - part[0]), dtype=np.float32)
    member = frozen(memberships, np.float32)
    loops.link_surprise(part, frozen(indices), member, frozen(odds, np.float32), start, out)
    return out


def _own_parts(pieces: MeanFieldRound, row: int) -> tuple[Doubles, Doubles, Doubles]:
    """Return what shares, features and the parent level add to each logit."""
    count = pieces.heard.shape[1]
    prior, features, parent = np.zeros(count), np.zeros(count), np.zeros(count)
    if pieces.log_prior is not None:
        prior = np.asarray(pieces.log_prior, dtype=np.float64)
    if pieces.features is not None:
        features = np.asarray(pieces.features[row], dtype=np.float64)
    if pieces.parent is not None and pieces.parent_features is not None:
        said = np.asarray(pieces.parent_features[row], dtype=np.float64)
        parent = said[np.asarray(pieces.parent, dtype=np.int64)]
    return prior, features, parent


def _shares(logits: Doubles, inside: npt.NDArray[np.bool_]) -> tuple[Doubles, float]:
    """Return each child's share of its parent, 0 elsewhere, and the entropy of the shares."""
    shares = np.zeros(len(logits))
    shares[inside] = np.exp(logits[inside] - logits[inside].max())
    shares /= shares.sum()
    used = shares[shares > 0]
    return shares, float(-(used * np.log(used)).sum())
