"""DeepWalk (Perozzi, Al-Rfou and Skiena, KDD 2014): words are nodes, sentences are random walks.

Skip-gram with negative sampling (word2vec's usual loss; the paper used hierarchical softmax): each
node of a walk predicts the nodes within a window of random width around it, against nodes drawn by
how often they occur, to the power 0.75. The learning rate falls linearly to zero. Walks are made
round by round, so memory holds one walk per node and the two tables of vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from graphham.graph.graph import Graph
from graphham.graph.undirected import undirected
from graphham.methods.base import Floats
from graphham.methods.label_free import LabelFreeMethod
from graphham.methods.parameters import keyword_settings
from graphham.sampling.keys import derive_key, numpy_generator
from graphham.sampling.walks import walk_contexts
from graphham.system.jit import Array, frozen, jit, mix, unit

if TYPE_CHECKING:
    from graphham.training.epochs import Listener


@keyword_settings
class DeepWalk(LabelFreeMethod):
    """Skip-gram vectors of random walks; features are not read.

    Args:
        walks: Walks from every node.
        walk_length: Steps of a walk.
        window: Largest distance of two nodes that predict each other.
        negatives: Random nodes per pair.
        lr: Learning rate at the start.
        **settings: Those of :class:`LabelFreeMethod`.
    """

    name: ClassVar[str] = "deepwalk"

    walks: int = 20
    walk_length: int = 40
    window: int = 5
    negatives: int = 5
    lr: float = 0.05

    def _candidates(self, task: str) -> list[dict[str, Any]]:
        return [{}, {"window": 10}, {"window": 3}, {"lr": 0.025}]

    def _embed(self, graph: Graph, listener: Listener | None) -> None:
        self._check_counts("walks", "walk_length", "window", "negatives")
        # Two tables of vectors, and one round of walks as the sampler and the learner hold it.
        needed = 8 * graph.num_nodes * (self.dim + 3 * (self.walk_length + 1))
        self._check_memory(needed, "lower dim")
        self.embedding_ = self._vectors(undirected(graph), listener)

    def _vectors(self, graph: Graph, listener: Listener | None) -> Floats:
        draw = numpy_generator(derive_key(self.seed, "vectors"))
        shape = (graph.num_nodes, self.dim)
        vectors = ((draw.random(shape, dtype=np.float32) - 0.5) / self.dim).astype(np.float32)
        contexts = np.zeros(shape, dtype=np.float32)
        # How often walks meet a node is proportional to its degree.
        weight = graph.degrees().astype(np.float64) ** 0.75
        noise = np.cumsum(weight) / max(weight.sum(), 1e-12)
        guide = _guide(noise)
        linked = np.flatnonzero(graph.degrees() > 0)
        if listener is not None:
            listener.on_start(self.walks, 0)
        for number in range(self.walks):
            key = derive_key(self.seed, "walks", number)
            order = numpy_generator(derive_key(key, "order")).permutation(linked)
            walks = walk_contexts(graph, order, 1, self.walk_length, key)[:, 0].astype(np.int64)
            # The sampler marks a return to the start; a sentence needs the node itself.
            walks = np.where(walks < 0, order[:, None], walks)
            sentences = np.concatenate([order[:, None], walks], axis=1)
            loss = _skip_gram(
                frozen(sentences),
                frozen(noise),
                guide,
                vectors,
                contexts,
                self.window,
                self.negatives,
                self.lr * (1 - number / self.walks),
                self.lr * max(1 - (number + 1) / self.walks, 1e-4),
                np.uint64(derive_key(key, "pairs")),
            )
            self.history_.append({"epoch": number + 1, "loss": float(loss)})
            if listener is not None:
                listener.on_epoch(number + 1, self.history_[-1])
        if listener is not None:
            listener.on_end("complete")
        # An isolated node is on no walk; its random start would only look like a position.
        vectors[graph.degrees() == 0] = 0.0
        return vectors


def _guide(noise: Array) -> Array:
    """Return where to begin looking for a share in ascending shares, by the share's own size.

    Two entries per node leave about one step to take, where a binary search of a large graph's
    table costs more than the arithmetic of the pair. The entry is that of the next lower share, so
    that rounding never leads past the place.
    """
    size = 2 * len(noise)
    return frozen(np.searchsorted(noise, (np.arange(size) - 1) / size), np.int64)


@jit
def _skip_gram(
    sentences: Array,
    noise: Array,
    guide: Array,
    vectors: Array,
    contexts: Array,
    window: int,
    negatives: int,
    lr_start: float,
    lr_end: float,
    key: Any,
) -> float:
    """Go through the sentences once, updating both tables in place; return the loss per pair."""
    num_sentences, length = sentences.shape
    num_nodes, dim = vectors.shape
    change = np.empty(dim, dtype=np.float32)
    total = 0.0
    pairs = 0
    for s in range(num_sentences):
        rate = np.float32(lr_start + (lr_end - lr_start) * s / num_sentences)
        sentence_key = mix(key, s)
        for i in range(length):
            node = sentences[s, i]
            place_key = mix(sentence_key, i)
            reach = 1 + np.int64(unit(mix(place_key, 0)) * window)
            for j in range(i - reach, i + reach + 1):
                if j < 0 or j >= length:
                    continue
                if j == i or sentences[s, j] == node:
                    continue
                pair_key = mix(place_key, j + 1)
                for d in range(dim):
                    change[d] = 0.0
                for n in range(negatives + 1):
                    other = sentences[s, j]
                    if n > 0:
                        share = unit(mix(pair_key, n))
                        other = np.int64(guide[np.int64(share * len(guide))])
                        while other < num_nodes - 1 and noise[other] < share:
                            other += 1
                        if other == sentences[s, j] or other == node:
                            continue
                    score = np.float32(0.0)
                    for d in range(dim):
                        score += vectors[node, d] * contexts[other, d]
                    chance = np.float32(1.0) / (np.float32(1.0) + np.exp(-score))
                    if n == 0:
                        total -= np.log(max(chance, np.float32(1e-12)))
                        pairs += 1
                        step = rate * (np.float32(1.0) - chance)
                    else:
                        total -= np.log(max(np.float32(1.0) - chance, np.float32(1e-12)))
                        step = -rate * chance
                    for d in range(dim):
                        change[d] += step * contexts[other, d]
                    for d in range(dim):
                        contexts[other, d] += step * vectors[node, d]
                for d in range(dim):
                    vectors[node, d] += change[d]
    return total / max(pairs, 1)
