"""Subspaces of communities: the linear-time loss against node pairs, planes found again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphham.methods.subspaces import fit_released, fit_subspaces, subspace_loss


@given(seed=st.integers(0, 1000), count=st.integers(1, 4), width=st.integers(2, 6))
def test_the_loss_equals_the_sum_over_pairs_of_nodes(seed: int, count: int, width: int) -> None:
    draw = np.random.default_rng(seed)
    points = [draw.normal(size=(draw.integers(1, 8), width)) for _ in range(count)]
    bases = draw.normal(size=(count, width, width - 1))
    wanted = -sum(float(((x @ u) ** 2).sum()) for x, u in zip(points, bases, strict=True))
    for c in range(count):
        for d in range(c):
            kept = points[c] @ bases[c] @ bases[d].T @ points[d].T
            wanted += 0.7 * float(np.linalg.norm(kept - points[c] @ points[d].T))
    grams = np.stack([x.T @ x for x in points])
    found = subspace_loss(torch.from_numpy(bases), torch.from_numpy(grams), 0.7)
    assert float(found) == pytest.approx(wanted, rel=1e-6, abs=1e-4)


def test_training_finds_each_communitys_own_directions() -> None:
    draw = np.random.default_rng(0)
    # Each community lies in a plane of its own; together they need six directions, three are left.
    planes = [np.linalg.qr(draw.normal(size=(8, 2)))[0] for _ in range(3)]
    grams = np.stack([(x := draw.normal(size=(40, 2)) @ p.T).T @ x for p in planes])

    def kept(bases: Any) -> list[float]:
        pairs = zip(bases, grams, strict=True)
        return [float(np.trace(u.T @ g @ u) / np.trace(g)) for u, g in pairs]

    def loss(bases: Any) -> float:
        return float(subspace_loss(torch.from_numpy(bases), torch.from_numpy(grams), 1.0))

    shared, alone, both = (
        fit_subspaces(grams, 5, alpha, steps, 0.01)
        for alpha, steps in ((1.0, 0), (0.0, 400), (1.0, 400))
    )
    released = fit_released(grams, 5, 1.0, 10, 0.01, 1000.0, 5)
    for found in (shared, alone, both, released):
        np.testing.assert_allclose(found.mT @ found, np.tile(np.eye(3), (3, 1, 1)), atol=1e-9)
    assert min(kept(shared)) < 0.9
    assert min(kept(alone)) > 0.999
    assert loss(both) < min(loss(shared), loss(alone), loss(released))
