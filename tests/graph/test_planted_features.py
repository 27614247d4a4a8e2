"""Features of planted graphs: words at their rates, vectors around their means."""

import numpy as np
import pytest
import scipy.sparse as sp

from graphham.graph import planted_features
from graphham.graph.planted import planted_hierarchy
from graphham.graph.planted_features import gaussian_features, shown_memberships, word_features


def test_words_are_on_at_the_asked_rates() -> None:
    planted = planted_hierarchy((3, 4), 20_000, mean_degree=1)
    words = planted.graph.features.toarray()
    assert set(np.unique(words)) == {0.0, 1.0}
    own = (np.arange(240) // 20)[None, :] == planted.levels[0][:, None]
    assert words[own].mean() == pytest.approx(0.10, abs=0.003)
    assert words[~own].mean() == pytest.approx(0.04, abs=0.001)
    # No word of a group may be favoured over another of its words.
    per_word = [words[planted.levels[0] == g, 20 * g : 20 * g + 20].mean(axis=0) for g in range(12)]
    assert np.ptp(per_word) < 0.06


def test_sure_words_are_all_on_and_impossible_ones_off() -> None:
    planted = planted_hierarchy((2, 3), 60, words=20, word_on=1.0, word_off=0.0, mean_degree=3)
    bounds = np.arange(7) * 20 // 6
    expected = np.zeros((60, 20))
    for row, leaf in enumerate(planted.levels[0]):
        expected[row, bounds[leaf] : bounds[leaf + 1]] = 1
    np.testing.assert_array_equal(planted.graph.features.toarray(), expected)


def test_gaussian_features_tell_the_leaves_apart_unless_noisy() -> None:
    def hit_rate(noise: float) -> float:
        planted = planted_hierarchy(
            features="gaussian", dim=16, strength=8.0, feature_noise=noise, num_nodes=1200
        )
        values, leaf = planted.graph.features, planted.levels[0]
        means = np.stack([np.median(values[leaf == g], axis=0) for g in range(12)])
        nearest = ((values[:, None] - means[None]) ** 2).sum(axis=2).argmin(axis=1)
        return float((nearest == leaf).mean())

    assert hit_rate(0.0) > 0.9
    # Of the noisy half a twelfth still draws its own leaf.
    assert hit_rate(0.5) == pytest.approx(0.5 + 0.5 / 12, abs=0.08)


def test_coarse_groups_share_features_in_gaussian_graphs() -> None:
    planted = planted_hierarchy((4, 5), 2000, features="gaussian", dim=64, strength=20.0)
    means = np.stack([planted.graph.features[planted.levels[0] == g].mean(0) for g in range(20)])
    apart = np.linalg.norm(means[:, None] - means[None], axis=2)
    coarse = np.arange(20) // 5
    siblings = (coarse[:, None] == coarse[None]) & ~np.eye(20, dtype=bool)
    assert apart[siblings].mean() < 0.85 * apart[coarse[:, None] != coarse[None]].mean()


def one_hot(leaves: list[int], count: int) -> sp.csr_matrix:
    return sp.csr_matrix(np.eye(count, dtype=np.float32)[leaves])


def test_noise_hides_the_true_leaf_of_a_share_of_the_nodes() -> None:
    truth = one_hot([0] * 4000, 5)
    assert shown_memberships(truth, 0.0, 5, np.random.default_rng(0)) is truth
    for noise in (0.25, 1.0):
        shown = shown_memberships(truth, noise, 5, np.random.default_rng(0))
        np.testing.assert_allclose(shown.sum(axis=1), 1)
        assert shown.nnz == 4000  # one leaf each, noisy or not
        # A noisy node draws among all leaves, its own included.
        assert shown[:, 0].sum() / 4000 == pytest.approx(1 - 0.8 * noise, abs=0.03)


def test_a_node_of_two_leaves_shows_the_words_of_both_half_as_often() -> None:
    shown = sp.csr_matrix(np.tile(np.array([[0.5, 0.5, 0.0]], dtype=np.float32), (20_000, 1)))
    words = word_features(shown, 12, 0.5, 0.1, np.random.default_rng(1)).toarray()
    rates = words.reshape(-1, 3, 4).mean(axis=(0, 2))
    np.testing.assert_allclose(rates, [0.3, 0.3, 0.1], atol=0.01)


def test_words_drawn_in_pieces_are_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planted_features, "_CHUNK", 7)
    drawn = word_features(one_hot([0, 1, 2] * 700, 3), 10, 0.9, 0.3, np.random.default_rng(2))
    assert drawn.has_canonical_format
    for row in range(50):
        columns = drawn.indices[drawn.indptr[row] : drawn.indptr[row + 1]]
        assert (np.diff(columns) > 0).all()
    bounds = np.arange(4) * 10 // 3
    leaf = np.searchsorted(bounds, np.arange(10), side="right") - 1
    own = leaf[None, :] == (np.arange(2100) % 3)[:, None]
    dense = drawn.toarray()
    assert dense[own].mean() == pytest.approx(0.9, abs=0.02)
    assert dense[~own].mean() == pytest.approx(0.3, abs=0.02)


def test_vectors_lie_around_means_of_the_asked_length() -> None:
    shown = one_hot([0, 1, 2, 3] * 2000, 4)
    values = gaussian_features(shown, (2, 2), 50, 6.0, np.random.default_rng(3))
    means = np.stack([values[leaf::4].mean(0) for leaf in range(4)])
    # Two parts of variance strength^2 / (2 dim) in each of dim directions.
    assert np.linalg.norm(means, axis=1).mean() == pytest.approx(6.0, rel=0.2)
    around = values - means[np.arange(8000) % 4]
    np.testing.assert_allclose(around.std(0), 1, atol=0.05)
