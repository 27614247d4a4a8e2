"""Structural topics of nodes: what the random walks from a node look like, names aside.

A walk becomes an *anonymous walk* by writing each node as the number of its first appearance:
a, b, c, b reads 0-1-2-1. Nodes are documents, anonymous walks their words, and a topic is a
distribution over words (GraphSTONE; Long et al., KDD 2020):

1. Count words: ``Y``, nodes x words. Words in few documents are dropped and only the most common
   ones kept, so that everything below works with a bounded vocabulary.
2. Anchors: factorise ``M ~ H Z``, ``M_ab`` the number of documents with both words, all entries
   non-negative; the anchor of topic k is the heaviest word in row k of ``Z`` (no word twice).
3. Recovery (Arora et al., ICML 2013): ``Q``, the word-word co-occurrence of two different walks of
   a document, rows scaled to sum to one; each word's row is written as a mixture of the anchors'
   rows, nearest in KL divergence; Bayes' rule turns the mixtures into ``U``, words given topics.
   The mixture is found by the multiplicative (EM) update, which needs no step size.
4. A node's topics: ``R = Y pinv(U)``, negative entries set to zero, rows scaled to sum to one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.sampling.keys import derive_key, numpy_generator
from graphham.sampling.walks import walk_contexts
from graphham.system.jit import Array, frozen, jit

Doubles = npt.NDArray[np.float64]
# Four bits per place and one to mark the length fit into 64 up to here.
LONGEST = 15
_NODES_AT_ONCE = 1 << 14
_FACTOR_ROUNDS = 300
_MIXTURE_ROUNDS = 300
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class TopicModel:
    """Topics found on one graph, readable on any.

    Args:
        words: ``(vocabulary,)`` uint64 codes of anonymous walks, ascending.
        given_topic: ``(vocabulary, topics)`` probability of each word given the topic.
        anchors: ``(topics,)`` the word that stands for each topic.
        frequent: ``(vocabulary,)`` words by falling number of documents.
    """

    words: npt.NDArray[np.uint64]
    given_topic: Doubles
    anchors: npt.NDArray[np.int64]
    frequent: npt.NDArray[np.int64]

    def count(self, codes: npt.NDArray[np.uint64]) -> Any:
        """Return ``(num_nodes, vocabulary)`` CSR counts of the known words among walk codes."""
        place = np.minimum(np.searchsorted(self.words, codes), len(self.words) - 1)
        known = (self.words[place] == codes) & (codes > 0)
        nodes = np.nonzero(known)[0]
        shape = (len(codes), len(self.words))
        return sp.csr_matrix((np.ones(len(nodes)), (nodes, place[known])), shape=shape)

    def shares(self, counts: Any) -> Doubles:
        """Return ``(num_nodes, topics)`` shares that sum to one; even where nothing is known."""
        found = np.maximum(counts @ np.linalg.pinv(self.given_topic.T), 0.0)
        # A little of every topic: a node whose counts fit none is then spread evenly, and the
        # product of two nodes' shares is never zero.
        found += 1e-6 * np.maximum(found.sum(1, keepdims=True), _TINY)
        scaled: Doubles = found / found.sum(1, keepdims=True)
        return scaled

    def top_words(self, count: int = 10) -> list[list[tuple[str, float]]]:
        """Return the likeliest words of each topic with their probability."""
        order = np.argsort(-self.given_topic, axis=0, kind="stable")[:count]
        return [
            [(word_text(self.words[w]), float(self.given_topic[w, k])) for w in order[:, k]]
            for k in range(self.given_topic.shape[1])
        ]

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays to save."""
        return {
            "topics.words": self.words.view(np.int64),
            "topics.given_topic": self.given_topic,
            "topics.anchors": self.anchors,
            "topics.frequent": self.frequent,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any]]) -> TopicModel:
        """Rebuild from saved arrays."""
        return cls(
            np.array(state["topics.words"]).view(np.uint64),
            np.array(state["topics.given_topic"]),
            np.array(state["topics.anchors"]),
            np.array(state["topics.frequent"]),
        )


def anonymous_walks(
    graph: Graph, walks: int, shortest: int, longest: int, key: Any
) -> npt.NDArray[np.uint64]:
    """Walk from every node and return the code of each walk's anonymous form.

    Args:
        graph: An undirected graph.
        walks: Walks from every node.
        shortest: Nodes of the shortest walks.
        longest: Nodes of the longest walks; lengths in between are equally likely.
        key: Key of the draws.

    Returns:
        ``(num_nodes, walks)`` codes, 0 for isolated nodes; :func:`word_text` writes one out.
    """
    if walks < 1:
        raise InputError(f"walks must be at least 1, got {walks}")
    if not 2 <= shortest <= longest <= LONGEST:
        raise InputError(
            f"anonymous walks must have 2 to {LONGEST} nodes, got {shortest} to {longest}"
        )
    codes = np.zeros((graph.num_nodes, walks), dtype=np.uint64)
    linked = np.flatnonzero(graph.degrees() > 0)
    lengths = np.full((graph.num_nodes, walks), longest, dtype=np.int8)
    if shortest < longest:
        draw = numpy_generator(derive_key(key, "lengths"))
        lengths = draw.integers(shortest, longest + 1, lengths.shape, dtype=np.int8)
    for start in range(0, len(linked), _NODES_AT_ONCE):
        rows = linked[start : start + _NODES_AT_ONCE]
        met = walk_contexts(graph, rows, walks, longest - 1, key)
        codes[rows] = _anonymous(frozen(met, np.int64), frozen(lengths[rows]))
    return codes


def word_text(code: Any) -> str:
    """Write the code of an anonymous walk out, such as ``0-1-2-1``."""
    bits, places = int(code), []
    while bits > 1:
        places.append(bits & 15)
        bits >>= 4
    return "-".join(str(place) for place in reversed(places))


def find_topics(
    codes: npt.NDArray[np.uint64],
    topics: int,
    vocabulary: int,
    min_documents: int,
    key: Any,
    recover: bool = True,
) -> TopicModel:
    """Find the topics of a graph from the walks of its nodes.

    Args:
        codes: ``(num_nodes, walks)`` codes of :func:`anonymous_walks`.
        topics: How many topics; no more than there are words.
        vocabulary: Largest number of words.
        min_documents: Words in fewer documents are dropped, as long as enough words are left.
        key: Key of the start of the factorisation.
        recover: Whether words are placed between the anchors; otherwise all but the anchors belong
            to all topics alike.
    """
    if topics < 1 or vocabulary < topics:
        raise InputError(
            f"topics must be at least 1 and vocabulary no smaller, got {topics} and {vocabulary}"
        )
    words, place = np.unique(codes[codes > 0], return_inverse=True)
    nodes = np.nonzero(codes > 0)[0]
    counts = sp.csr_matrix(
        (np.ones(len(nodes)), (nodes, place)), shape=(len(codes), len(words)), dtype=np.float64
    )
    documents = counts.getnnz(axis=0)
    order = np.argsort(-documents, kind="stable")[:vocabulary]
    common = max(int((documents[order] >= min_documents).sum()), min(topics, len(order)))
    kept = np.sort(order[:common])
    counts = sp.csr_matrix(counts[:, kept])
    anchors = find_anchors(counts, min(topics, len(kept)), key)
    mixture = np.full((len(kept), len(anchors)), 1 / len(anchors))
    together = _cooccurrence(counts)
    if recover:
        mixture = _nearest_mixture(together, anchors)
    mixture[anchors] = np.eye(len(anchors))
    # Words that never share a document with another still have their own frequency.
    marginal = together.sum(1) + _TINY
    joint = mixture * (marginal / marginal.sum())[:, None]
    frequent = np.argsort(-documents[kept], kind="stable")
    return TopicModel(words[kept], joint / joint.sum(0), anchors, frequent)


def find_anchors(counts: Any, topics: int, key: Any) -> npt.NDArray[np.int64]:
    """Return one distinct word per topic, by non-negative factorisation of co-occurrence."""
    present = (counts > 0).astype(np.float64)
    shared = (present.T @ present).toarray()
    draw = numpy_generator(key)
    left = draw.random((len(shared), topics)) + 0.1
    right = draw.random((topics, len(shared))) + 0.1
    # Lee and Seung's updates: no entry changes sign and the error never grows.
    for _ in range(_FACTOR_ROUNDS):
        right *= (left.T @ shared) / (left.T @ left @ right + _TINY)
        left *= (shared @ right.T) / (left @ (right @ right.T) + _TINY)
    chosen: list[int] = []
    for row in right:
        row[chosen] = -1.0
        chosen.append(int(row.argmax()))
    return np.asarray(chosen, dtype=np.int64)


def _cooccurrence(counts: Any) -> Doubles:
    """Return how often two different walks of a document are words a and b, documents alike."""
    length = np.asarray(counts.sum(1)).ravel()
    weight = np.where(length > 1, 1 / np.maximum(length * (length - 1), 1), 0.0)
    scaled = sp.csr_matrix(sp.diags(weight) @ counts)
    together: Doubles = (counts.T @ scaled).toarray()
    together[np.diag_indices_from(together)] -= np.asarray(scaled.sum(0)).ravel()
    # Rounding leaves tiny negative numbers where the two terms cancel.
    np.maximum(together, 0.0, out=together)
    return together


def _nearest_mixture(together: Doubles, anchors: npt.NDArray[np.int64]) -> Doubles:
    """Return ``(words, topics)`` weights of the anchors' rows that come nearest to each row."""
    rows = (together + _TINY) / (together + _TINY).sum(1, keepdims=True)
    corners = rows[anchors]
    mixture = np.full((len(rows), len(anchors)), 1 / len(anchors))
    for _ in range(_MIXTURE_ROUNDS):
        mixture *= (rows / np.maximum(mixture @ corners, 1e-300)) @ corners.T
    scaled: Doubles = mixture / mixture.sum(1, keepdims=True)
    return scaled


@jit
def _anonymous(met: Array, lengths: Array) -> Array:
    """Return the code of each walk; -1 in ``met`` stands for the start."""
    num_nodes, walks, steps = met.shape
    codes = np.zeros((num_nodes, walks), dtype=np.uint64)
    seen = np.empty(steps + 1, dtype=np.int64)
    for i in range(num_nodes):
        for w in range(walks):
            seen[0] = -1
            distinct = 1
            # A leading one keeps walks of different lengths apart.
            code = np.uint64(16)
            for s in range(lengths[i, w] - 1):
                number = 0
                while number < distinct and seen[number] != met[i, w, s]:
                    number += 1
                if number == distinct:
                    seen[distinct] = met[i, w, s]
                    distinct += 1
                code = (code << np.uint64(4)) | np.uint64(number)
            codes[i, w] = code
    return codes
