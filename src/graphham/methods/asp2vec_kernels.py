"""The inner loop of asp2vec: one window of a walk after the other, with aspects or without."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphham.system.jit import Array, below, inlined, jit, mix, unit

# Aspects that weigh less than this in a draw are left out of the step.
_NEGLIGIBLE = 0.01


@jit
def learn_windows(
    sentences: Array,
    centers: Array,
    table: Array,
    aspects: int,
    window: int,
    negatives: int,
    temperature: Any,
    regularizer: Any,
    threshold: Any,
    lr_start: float,
    lr_end: float,
    key: Any,
) -> tuple[float, int]:
    """Go through the sentences once, updating both tables in place.

    Aspect ``k`` of node ``i`` is row ``i * aspects + k`` of ``table``. All pairs of a window read
    the same centre vector, which is updated once after them.

    Returns:
        The sum of the losses and the number of pairs.
    """
    num_sentences, length = sentences.shape
    num_nodes, dim = centers.shape
    around = np.empty(2 * window, dtype=np.int64)
    distinct = np.empty(2 * window, dtype=np.int64)
    drawn = np.empty(negatives + 1, dtype=np.int64)
    mean = np.zeros((aspects, dim), dtype=np.float32)
    scores = np.zeros(aspects, dtype=np.float32)
    weights = np.ones(aspects, dtype=np.float32)
    losses = np.zeros(aspects, dtype=np.float32)
    slopes = np.zeros(aspects, dtype=np.float32)
    change = np.empty(dim, dtype=np.float32)
    one = np.float32(1.0)
    total = 0.0
    pairs = 0
    for s in range(num_sentences):
        rate = np.float32(lr_start + (lr_end - lr_start) * s / num_sentences)
        sentence_key = mix(key, s)
        for i in range(length):
            node = sentences[s, i]
            seen = 0
            num_distinct = 0
            for j in range(max(i - window, 0), min(i + window + 1, length)):
                other = sentences[s, j]
                if other == node:
                    continue
                around[seen] = other
                seen += 1
                if not _is_among(other, distinct, num_distinct):
                    distinct[num_distinct] = other
                    num_distinct += 1
            if seen == 0:
                continue
            for d in range(dim):
                change[d] = 0.0
            if aspects > 1:
                for k in range(aspects):
                    slopes[k] = 0.0
                    for d in range(dim):
                        mean[k, d] = 0.0
                    for c in range(num_distinct):
                        row = distinct[c] * aspects + k
                        for d in range(dim):
                            mean[k, d] += table[row, d]
                    score = np.float32(0.0)
                    for d in range(dim):
                        mean[k, d] /= num_distinct
                        score += centers[node, d] * mean[k, d]
                    scores[k] = score
            place_key = mix(sentence_key, i)
            for j in range(seen):
                pair_key = mix(place_key, j)
                if aspects > 1:
                    _draw_weights(scores, temperature, mix(pair_key, 0), weights)
                drawn[0] = around[j]
                num_drawn = 1
                for n in range(2 * negatives):
                    if num_drawn > negatives:
                        break
                    other = below(mix(pair_key, n + 1), num_nodes)
                    if other != node and not _is_among(other, distinct, num_distinct):
                        drawn[num_drawn] = other
                        num_drawn += 1
                expected = np.float32(0.0)
                for k in range(aspects):
                    losses[k] = 0.0
                    if weights[k] < np.float32(_NEGLIGIBLE):
                        weights[k] = 0.0
                        continue
                    for n in range(num_drawn):
                        row = drawn[n] * aspects + k
                        score = np.float32(0.0)
                        for d in range(dim):
                            score += centers[node, d] * table[row, d]
                        chance = one / (one + np.exp(-score))
                        if n == 0:
                            losses[k] -= np.log(max(chance, np.float32(1e-12)))
                            step = rate * weights[k] * (one - chance)
                        else:
                            losses[k] -= np.log(max(one - chance, np.float32(1e-12)))
                            step = -rate * weights[k] * chance
                        for d in range(dim):
                            change[d] += step * table[row, d]
                        for d in range(dim):
                            table[row, d] += step * centers[node, d]
                    expected += weights[k] * losses[k]
                if aspects > 1:
                    for k in range(aspects):
                        slopes[k] += weights[k] * (losses[k] - expected) / temperature
                total += float(expected)
                pairs += 1
            if aspects > 1:
                # The choice of aspects is learned too: lower scores for those that lost.
                for k in range(aspects):
                    shift = rate * slopes[k]
                    for d in range(dim):
                        change[d] -= shift * mean[k, d]
                    shift /= num_distinct
                    for c in range(num_distinct):
                        row = distinct[c] * aspects + k
                        for d in range(dim):
                            table[row, d] -= shift * centers[node, d]
                if regularizer > 0:
                    _turn_apart(table, node * aspects, aspects, regularizer, threshold)
            for d in range(dim):
                centers[node, d] += change[d]
    return total, pairs


@inlined
def _is_among(node: Any, nodes: Array, count: int) -> bool:
    """Tell whether a node is one of the first ``count`` of an array."""
    found = False
    for c in range(count):
        if nodes[c] == node:
            found = True
    return found


@inlined
def _draw_weights(scores: Array, temperature: Any, key: Any, weights: Array) -> None:
    """Fill in a Gumbel-softmax of the scores."""
    largest = np.float32(-np.inf)
    for k in range(len(scores)):
        noise = -np.log(-np.log(unit(mix(key, k)) + 1e-20) + 1e-20)
        weights[k] = (scores[k] + np.float32(noise)) / temperature
        largest = max(largest, weights[k])
    total: Any = np.float32(0.0)
    for k in range(len(scores)):
        weights[k] = np.exp(weights[k] - largest)
        total += weights[k]
    for k in range(len(scores)):
        weights[k] /= total


@inlined
def _turn_apart(table: Array, first: int, aspects: int, amount: Any, threshold: Any) -> None:
    """Turn every two aspects of a node away from each other where their cosine is too large."""
    dim = table.shape[1]
    for a in range(first, first + aspects):
        for b in range(a + 1, first + aspects):
            dot = np.float32(0.0)
            left = np.float32(1e-20)
            right = np.float32(1e-20)
            for d in range(dim):
                dot += table[a, d] * table[b, d]
                left += table[a, d] * table[a, d]
                right += table[b, d] * table[b, d]
            cosine = dot / np.sqrt(left * right)
            if abs(cosine) <= threshold:
                continue
            push: Any = amount if cosine > 0 else -amount
            to_left = push * np.sqrt(left / right)
            to_right = push * np.sqrt(right / left)
            stay = np.float32(1.0) + push * cosine
            for d in range(dim):
                x = table[a, d]
                y = table[b, d]
                table[a, d] = stay * x - to_left * y
                table[b, d] = stay * y - to_right * x
