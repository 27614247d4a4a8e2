"""Features of planted graphs: words at their rates, vectors around their means."""

import numpy as np
import pytest

from graphham.graph.planted import planted_hierarchy


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
