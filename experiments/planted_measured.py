"""Planted graphs unlike Cora: a line of nodes with many weak measurements, and links without sense.

``chain``: most nodes have two or three links, the class of a node says which class comes next, and
a hundred measured numbers say a little each. ``unlinked``: a handful of words says what class a
node has, and its links say nothing. On both, settings made for words of citing papers lost most.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.graph.graph import Graph, Labels, build_graph
from graphham.sampling.keys import derive_key, numpy_generator

Drawn = tuple[Graph, list[npt.NDArray[np.int32]]]
Codes = npt.NDArray[np.int64]
_NODES = 3000
_LINE_CLASSES, _LINE_DIM, _LINE_STRENGTH = 12, 100, 0.25
_SPREAD = 0.3  # Dirichlet: few classes follow on a class
_SKIPS = 0.5  # links over one or two nodes, for each node of the line
_CLASSES, _LINKS, _WORDS = 5, 4, 6  # links that a node draws, words that it has
_VOCABULARY, _TOPIC, _OWN = 930, 150, 0.3  # words in all and of a class, share of a node's from it


def draw_chain(name: str, seed: int) -> Drawn:
    """Draw a line of nodes whose classes follow a law; its groups are the classes."""
    draw = numpy_generator(derive_key(seed, "chain"))
    reach = draw.dirichlet(np.full(_LINE_CLASSES, _SPREAD), size=_LINE_CLASSES).cumsum(1)
    codes = np.zeros(_NODES, dtype=np.int64)
    for at, draws in enumerate(draw.random(_NODES - 1), 1):
        codes[at] = min(int(np.searchsorted(reach[codes[at - 1]], draws)), _LINE_CLASSES - 1)
    line = np.arange(_NODES - 1)
    from_ = draw.integers(_NODES - 4, size=int(_SKIPS * _NODES))
    source = np.concatenate([line, from_])
    target = np.concatenate([line + 1, from_ + draw.integers(2, 4, size=len(from_))])
    means = draw.normal(size=(_LINE_CLASSES, _LINE_DIM))
    features = _LINE_STRENGTH * means[codes] + draw.normal(size=(_NODES, _LINE_DIM))
    return _graph(name, source, target, features.astype(np.float32), codes, _LINE_CLASSES)


def draw_unlinked(name: str, seed: int) -> Drawn:
    """Draw classes that words tell and links do not; its groups are the classes."""
    draw = numpy_generator(derive_key(seed, "unlinked"))
    codes = draw.integers(_CLASSES, size=_NODES)
    source = np.repeat(np.arange(_NODES), _LINKS)
    target = draw.integers(_NODES, size=len(source))
    count = np.maximum(1, draw.poisson(_WORDS, _NODES))
    node = np.repeat(np.arange(_NODES), count)
    # Some words are frequent and others rare, in the language and within a topic.
    topics = np.stack([draw.permutation(_VOCABULARY)[:_TOPIC] for _ in range(_CLASSES)])
    word = draw.permutation(_VOCABULARY)[_ranks(draw, len(node), _VOCABULARY)]
    of_topic = topics[codes[node], _ranks(draw, len(node), _TOPIC)]
    word = np.where(draw.random(len(node)) < _OWN, of_topic, word)
    features = sp.csr_matrix(
        (np.ones(len(node), dtype=np.float32), (node, word)), (_NODES, _VOCABULARY)
    )
    features.data[:] = 1.0  # a word is there or not
    return _graph(name, source, target, features, codes, _CLASSES)


MEASURED = {"chain": draw_chain, "unlinked": draw_unlinked}


def _ranks(draw: np.random.Generator, count: int, size: int) -> Codes:
    """Draw ranks by Zipf's law: the k-th is drawn 1 / k times as often as the first."""
    reach = (1 / np.arange(1, size + 1)).cumsum()
    return np.asarray(np.searchsorted(reach, draw.random(count) * reach[-1]), dtype=np.int64)


def _graph(
    name: str, source: Codes, target: Codes, features: object, codes: Codes, classes: int
) -> Drawn:
    labels = Labels(tuple(f"class {c}" for c in range(classes)), codes=codes.astype(np.int32))
    graph = build_graph(source, target, _NODES, name=name, features=features, labels=labels)
    return graph, [codes.astype(np.int32)]
