"""DeepWalk: its inner loop against plain loops, and what its vectors tell apart."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.graph.graph import build_graph
from graphham.methods.deepwalk import DeepWalk, _guide, _skip_gram
from graphham.system.jit import frozen
from tests.reference.draws import mix, unit


def test_deepwalk_puts_the_two_halves_of_a_barbell_apart() -> None:
    graph = build_graph(*np.asarray(nx.barbell_graph(8, 0).edges).T, 18)
    method = DeepWalk(dim=8, walks=40, walk_length=20, window=3).fit(graph)
    half = np.arange(16) // 8
    pairs = np.array([(i, j) for i in range(16) for j in range(16) if i < j])
    scores = method.score_links(pairs)
    inside = half[pairs[:, 0]] == half[pairs[:, 1]]
    assert scores[inside].min() > scores[~inside].max()
    # Nodes 16 and 17 have no links: no position, and no similarity to anybody.
    assert not method.embedding_[16:].any()
    assert method.score_links(np.array([[16, 0], [16, 17]])).tolist() == [0.0, 0.0]
    assert method.history_[-1]["loss"] < method.history_[0]["loss"]


def test_deepwalk_walks_a_directed_graph_both_ways() -> None:
    ends = np.asarray(nx.barbell_graph(6, 0).edges).T
    one_way = build_graph(*ends, 12, directed=True)
    both = build_graph(*ends, 12)
    settings = {"dim": 4, "walks": 3, "walk_length": 5}
    np.testing.assert_array_equal(
        DeepWalk(**settings).fit(one_way).embedding_, DeepWalk(**settings).fit(both).embedding_
    )


def slow_skip_gram(
    sentences: np.ndarray,
    noise: np.ndarray,
    vectors: np.ndarray,
    contexts: np.ndarray,
    settings: tuple[int, int, float, float],
    key: int,
) -> float:
    """One pass over the sentences in plain loops and double precision; updates both tables."""
    window, negatives, first, last = settings
    total, pairs = 0.0, 0
    for s, sentence in enumerate(sentences.tolist()):
        rate = first + (last - first) * s / len(sentences)
        for i, node in enumerate(sentence):
            place = mix(mix(key, s), i)
            reach = 1 + int(unit(mix(place, 0)) * window)
            for j in range(max(i - reach, 0), min(i + reach + 1, len(sentence))):
                if sentence[j] == node:
                    continue
                shares = [unit(mix(mix(place, j + 1), n + 1)) for n in range(negatives)]
                drawn = np.searchsorted(noise, shares).tolist()
                others = [n for n in drawn if n not in (node, sentence[j])]
                before = vectors[node].copy()
                for other, is_met in [(sentence[j], 1), *((n, 0) for n in others)]:
                    chance = 1 / (1 + math.exp(-before @ contexts[other]))
                    total -= math.log(chance if is_met else 1 - chance)
                    step = rate * (is_met - chance)
                    vectors[node] += step * contexts[other]
                    contexts[other] += step * before
                pairs += 1
    return total / max(pairs, 1)


@pytest.mark.parametrize("seed", range(3))
def test_the_compiled_loop_equals_plain_loops(seed: int) -> None:
    draw = np.random.default_rng(seed)
    sentences = draw.integers(0, 8, size=(6, 10))
    weight = draw.random(8)
    weight[3] = 0  # a node that is never drawn
    noise = np.cumsum(weight) / weight.sum()
    fast = [draw.normal(0, 0.5, size=(8, 4)).astype(np.float32) for _ in range(2)]
    slow = [table.astype(np.float64) for table in fast]
    loss = _skip_gram(
        frozen(sentences),
        frozen(noise),
        _guide(noise),
        *fast,
        3,
        4,
        0.1,
        0.02,
        np.uint64(seed + 5),
    )
    expected = slow_skip_gram(sentences, noise, *slow, (3, 4, 0.1, 0.02), seed + 5)
    assert loss == pytest.approx(expected, rel=1e-5)
    for ours, theirs in zip(fast, slow, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.integers(0, 10**6))
def test_the_guide_never_leads_past_the_place(weights: list[int], seed: int) -> None:
    if not sum(weights):
        weights = [1, *weights]
    noise = np.cumsum(weights) / sum(weights)
    guide = _guide(noise)
    for share in [*np.random.default_rng(seed).random(50), *np.minimum(noise, 1 - 2**-53), 0.0]:
        start = guide[int(share * len(guide))]
        assert start <= np.searchsorted(noise, share)


def test_bad_settings_are_named() -> None:
    pair = build_graph(np.array([0]), np.array([1]), 2)
    for name in ("walks", "walk_length", "window", "negatives"):
        with pytest.raises(InputError, match=f"{name} must be a whole number of at least 1, got 0"):
            DeepWalk(**{name: 0}).fit(pair)
    with pytest.raises(InputError, match=r"deepwalk would need about .*lower dim"):
        DeepWalk(memory_gib=1e-9).fit(pair)
