"""Siblings on spheres: who lies close, and that groups are solved apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphham.methods.spheres import place_on_spheres


def test_similar_siblings_are_placed_closer() -> None:
    # Two blocks of four siblings, alike within and not across.
    block = np.kron(np.eye(2), np.ones((4, 4)))
    similarity = np.where(np.eye(8) > 0, 1.0, 0.3 * block)
    places = place_on_spheres([similarity], 8, 3, 2000, 2000, 0.003, 0.001)[0]
    np.testing.assert_allclose(np.linalg.norm(places, axis=1), 1)
    cosine = places @ places.T
    within = cosine[(block > 0) & (np.eye(8) == 0)]
    assert within.mean() > cosine[block == 0].mean() + 0.5


def test_a_group_is_placed_the_same_beside_others() -> None:
    draw = np.random.default_rng(0)

    def similarities(n: int) -> Any:
        half = draw.random((n, 4))
        return np.where(np.eye(n) > 0, 1.0, half @ half.T / 4)

    many = [similarities(n) for n in (1, 2, 5, 7, 12, 40)]
    together = place_on_spheres(many, 6, 1, 150, 150, 0.003, 0.001)
    # Keys go by number, so the others are kept but made trivial.
    for at in (2, 5):
        alone = [one if i == at else np.ones((1, 1)) for i, one in enumerate(many)]
        again = place_on_spheres(alone, 6, 1, 150, 150, 0.003, 0.001)[at]
        np.testing.assert_allclose(again, together[at], atol=1e-4)
    assert together[0].shape == (1, 6)
    np.testing.assert_allclose(together[1][0], -together[1][1])
