"""Structural topics: anonymous walks, co-occurrence and recovery against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.methods import topics
from graphham.methods.topics import anonymous_walks, find_topics, word_text
from graphham.sampling.walks import walk_contexts
from tests.reference.graphs import barbell


@given(st.lists(st.integers(-1, 6), min_size=3, max_size=10), st.integers(2, 11))
def test_anonymous_walks_number_nodes_by_first_appearance(met: list[int], nodes: int) -> None:
    nodes = min(nodes, len(met) + 1)
    code = topics._anonymous(np.array([[met]]), np.array([[nodes]], dtype=np.int8))[0, 0]
    seen: dict[int, int] = {-1: 0}
    wanted = [0] + [seen.setdefault(node, len(seen)) for node in met[: nodes - 1]]
    assert word_text(code) == "-".join(map(str, wanted))


def test_walks_are_those_of_the_shared_sampler() -> None:
    graph, _ = barbell()
    codes = anonymous_walks(graph, 3, 6, 6, 5)
    met = walk_contexts(graph, np.arange(graph.num_nodes), 3, 5, 5)
    for row in (0, 15, 30):
        seen: dict[int, int] = {-1: 0}
        wanted = [0] + [seen.setdefault(node, len(seen)) for node in met[row, 1].tolist()]
        assert word_text(codes[row, 1]) == "-".join(map(str, wanted))
    many = anonymous_walks(graph, 40, 4, 11, 5)
    lengths = {word_text(code).count("-") + 1 for code in many.ravel()}
    assert lengths == set(range(4, 12))


def test_topics_written_by_hand_are_recovered() -> None:
    # Three topics over nine words: each has one word of its own and shares six others.
    rng = np.random.default_rng(0)
    truth = np.full((9, 3), 0.1)
    truth[:3] = 2.0 * np.eye(3)
    truth[3:] += rng.random((6, 3))
    truth /= truth.sum(0)
    shares = rng.dirichlet([0.4] * 3, 3000)
    words = np.arange(20, 29, dtype=np.uint64)
    chance = np.cumsum(shares @ truth.T, axis=1)
    drawn = (rng.random((3000, 60))[:, :, None] > chance[:, None]).sum(2).clip(max=8)
    counts = sp.csr_matrix(np.stack([np.bincount(row, minlength=9) for row in drawn]))
    mixture = topics._nearest_mixture(topics._cooccurrence(counts), np.arange(3))
    exact = truth * shares.mean(0)
    exact /= exact.sum(1, keepdims=True)
    # Given the right anchors, every word's chance of each topic comes back.
    np.testing.assert_allclose(mixture, exact, atol=0.1)
    model = topics.TopicModel(words, truth, np.arange(3), np.arange(9))
    found = model.shares(model.count(words[drawn]))
    assert np.abs(found - shares).mean() < 0.1
    np.testing.assert_allclose(found.sum(1), 1)


def test_cooccurrence_counts_pairs_of_different_walks() -> None:
    found = topics._cooccurrence(sp.csr_matrix(np.array([[2.0, 1.0], [1.0, 0.0]])))
    # Six ordered pairs of the first node's walks: two (a, a), two (a, b), two (b, a).
    np.testing.assert_allclose(found, [[1 / 3, 1 / 3], [1 / 3, 0]], atol=1e-12)


def test_the_vocabulary_is_bounded() -> None:
    graph, _ = barbell()
    codes = anonymous_walks(graph, 50, 4, 11, 1)
    assert len(np.unique(codes)) > 300
    model = find_topics(codes, 4, 60, 1, 0)
    assert len(model.words) == 60
    assert len(set(model.anchors.tolist())) == 4
    np.testing.assert_allclose(model.given_topic.sum(0), 1)
    rare = find_topics(codes, 4, 5000, 20, 0)
    assert (rare.count(codes).getnnz(axis=0) >= 20).all()
    assert rare.count(codes).sum() < codes.size


def test_saved_topics_read_the_same() -> None:
    graph, _ = barbell()
    codes = anonymous_walks(graph, 20, 4, 8, 1)
    model = find_topics(codes, 3, 100, 1, 0)
    again = topics.TopicModel.from_state(model.state())
    np.testing.assert_array_equal(
        again.shares(again.count(codes)), model.shares(model.count(codes))
    )
    assert again.top_words() == model.top_words()
    for column, words in enumerate(model.top_words(4)):
        chances = [chance for _, chance in words]
        assert chances == sorted(model.given_topic[:, column].tolist(), reverse=True)[:4]
    with pytest.raises(InputError, match="vocabulary no smaller, got 3 and 2"):
        find_topics(codes, 3, 2, 1, 0)
