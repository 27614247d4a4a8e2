"""Planted graphs whose nodes have several labels, and graphs without features.

Twenty interests; a node has one to three of them, and they are its labels. A link mostly joins two
nodes with an interest in common, or, where partners attract, nodes with interests that go together.
A name that ends in ``-bare`` is a graph whose features were taken away.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.graph.graph import Graph, Labels, build_graph
from graphham.sampling.keys import derive_key, numpy_generator

Drawn = tuple[Graph, list[npt.NDArray[np.int32]]]
BARE = "-bare"
_NODES, _INTERESTS, _DEGREE, _DIM = 2000, 20, 10, 32
_HOW_MANY = (0.5, 0.3, 0.2)  # shares of nodes with one, two and three interests


@dataclass(frozen=True)
class Interests:
    """One family of graphs with several labels a node.

    Args:
        title: What is hard about it.
        shared: Share of links that follow an interest; the others join anybody.
        strength: Length of an interest's mean feature vector, where the noise has deviation 1.
        step: Whom an interest looks for: 0 itself, 1 the next one.
    """

    title: str
    shared: float
    strength: float
    step: int = 0


FAMILIES = {
    "interests": Interests("several labels, friends alike", 0.6, 0.4),
    "interests-partners": Interests("several labels, links to the next interest", 0.6, 0.5, 1),
}


def draw_interests(family: Interests, name: str, seed: int) -> Drawn:
    """Draw a graph of a family; its group is the first interest of each node.

    Args:
        family: What it is like.
        name: Of the graph.
        seed: Draws it.
    """
    draw = numpy_generator(derive_key(seed, "interests", family.step))
    count = 1 + draw.choice(len(_HOW_MANY), size=_NODES, p=_HOW_MANY)
    # A random order of all interests for every node, of which it has the first few.
    order = draw.random((_NODES, _INTERESTS)).argsort(axis=1)
    has = np.zeros((_NODES, _INTERESTS), dtype=bool)
    np.put_along_axis(has, order, np.arange(_INTERESTS) < count[:, None], axis=1)
    source, target = _links(family, has, order, count, draw)
    means = draw.normal(size=(_INTERESTS, _DIM))
    shown = has @ means / np.sqrt(count)[:, None]
    features = family.strength * shown + draw.normal(size=(_NODES, _DIM))
    graph = build_graph(
        source,
        target,
        _NODES,
        name=name,
        features=features.astype(np.float32),
        labels=Labels(tuple(f"interest {i}" for i in range(_INTERESTS)), matrix=sp.csr_matrix(has)),
    )
    return graph, [order[:, 0].astype(np.int32)]


def without_features(drawn: Drawn, name: str) -> Drawn:
    """Return a drawn graph without its features."""
    graph, groups = drawn
    return replace(graph, features=None, name=name), groups


def _links(
    family: Interests,
    has: npt.NDArray[np.bool_],
    order: npt.NDArray[np.int64],
    count: npt.NDArray[np.int64],
    draw: np.random.Generator,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    size = _NODES * _DEGREE // 2
    source = draw.integers(_NODES, size=size)
    own = order[source, draw.integers(count[source])]
    wanted = (own + family.step) % _INTERESTS
    target = draw.integers(_NODES, size=size)
    follows = draw.random(size) < family.shared
    for interest in range(_INTERESTS):
        at = np.flatnonzero(follows & (wanted == interest))
        target[at] = draw.choice(np.flatnonzero(has[:, interest]), size=len(at))
    return source, target
