"""Planted stand-ins for the paper's two large graphs, which nobody may pass on or fit in minutes.

``youtube-planted`` has as many nodes and links as the graph of the paper, no features, and interest
groups of few of its nodes; ``amazon-planted`` has its nodes, links, features and classes. A part of
that size is ``youtube-planted/100``: a hundredth of the nodes with the same numbers of neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.graph import Graph, Labels
from graphham.graph.planted import planted_hierarchy
from graphham.sampling.keys import derive_key, numpy_generator

_TREE = (8, 6)
_SHARES = (0.5, 0.25, 0.25)


@dataclass(frozen=True)
class StandIn:
    """What a large graph is like.

    Args:
        nodes: How many it has.
        degree: Mean number of neighbours.
        skew: Of degrees; see :func:`graphham.graph.planted.planted_hierarchy`.
        dim: Width of features, 0 for none.
        known: Share of nodes with labels.
        several: Share of labelled nodes with a second label; 0 where every node has one class.
    """

    nodes: int
    degree: float
    skew: float
    dim: int = 0
    known: float = 1.0
    several: float = 0.0


STANDINS = {
    "youtube-planted": StandIn(1_138_499, 5.25, 0.6, known=0.028, several=0.3),
    "amazon-planted": StandIn(2_449_029, 50.5, 0.3, dim=100),
}


def stand_in(name: str) -> StandIn | None:
    """Return what a name such as ``youtube-planted/100`` stands for; ``None`` for other names.

    Raises:
        InputError: The part of the size is no whole number.
    """
    base, slash, part = name.partition("/")
    if base not in STANDINS:
        return None
    if slash and not (part.isdecimal() and int(part)):
        raise InputError(f"{name!r} does not say which part of the size, as in {base}/100")
    whole = STANDINS[base]
    return replace(whole, nodes=whole.nodes // int(part)) if slash else whole


def draw_stand_in(
    about: StandIn, name: str, seed: int
) -> tuple[Graph, list[npt.NDArray[np.int32]]]:
    """Draw a stand-in and return it with its true groups, fine to coarse.

    Args:
        about: What it is like.
        name: Of the graph.
        seed: Draws it.
    """
    made = planted_hierarchy(
        _TREE,
        about.nodes,
        mean_degree=about.degree,
        edge_shares=_SHARES,
        features="gaussian" if about.dim else "none",
        dim=max(about.dim, 1),
        strength=1.0,
        degree_skew=about.skew,
        seed=seed,
    )
    graph = replace(made.graph, name=name)
    if about.several:
        graph = replace(graph, labels=_several_labels(about, made.levels[0], seed))
    return graph, list(made.levels)


def _several_labels(about: StandIn, leaf: npt.NDArray[np.int32], seed: int) -> Labels:
    """Return the groups that some nodes joined: their own, and for some another at random."""
    draw = numpy_generator(derive_key(seed, "stand-in labels"))
    count = int(leaf.max()) + 1
    known = np.flatnonzero(draw.random(len(leaf)) < about.known)
    second = known[draw.random(len(known)) < about.several]
    others = (leaf[second] + draw.integers(1, count, size=len(second))) % count
    rows = np.concatenate([known, second])
    columns = np.concatenate([leaf[known], others])
    joined = sp.csr_matrix(
        (np.ones(len(rows), dtype=bool), (rows, columns)), shape=(len(leaf), count)
    )
    return Labels(tuple(f"group {g}" for g in range(count)), matrix=joined)
