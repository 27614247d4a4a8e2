"""Voices are weighed by the labels they explain."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graphham.model.losses import class_loss
from graphham.training.stacking import stack_weights


def _minimised(weights: Tensor, voices: Tensor, wanted: Tensor, prior: Tensor) -> Tensor:
    logits = torch.einsum("v,vnc->nc", weights.clamp_min(0), voices.double())
    target = wanted if wanted.dim() == 1 else wanted.double()
    return len(wanted) * class_loss(logits, target) + 10.0 * (weights - prior).square().sum()


def _solved(voices: Tensor, wanted: Tensor, prior: Tensor) -> Tensor:
    """Find the same minimum by torch's own solver."""
    weights = prior.double().clone().requires_grad_()
    solver = torch.optim.LBFGS([weights], max_iter=300, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        solver.zero_grad()
        loss = _minimised(weights, voices, wanted, prior)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    solver.step(closure)  # type: ignore[no-untyped-call]
    return weights.detach().clamp_min(0)


@pytest.mark.parametrize("multi", [False, True])
@given(seed=st.integers(0, 200), count=st.integers(1, 4), rows=st.sampled_from([1, 12, 150]))
def test_no_general_solver_finds_better_weights(
    multi: bool, seed: int, count: int, rows: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    # Some voices know the labels, some claim the contrary and belong at zero.
    truth = torch.randint(0, 4, (rows,), generator=generator)
    trust = torch.randn(count, 1, 1, generator=generator)
    voices = torch.randn(count, rows, 4, generator=generator)
    voices = voices + 3 * trust * torch.nn.functional.one_hot(truth, 4)
    wanted = truth
    if multi:
        wanted = (torch.rand(rows, 4, generator=generator) < 0.4).float()
    prior = torch.tensor([1.0, 0.5, 0.5, 1.0])[:count]
    found = stack_weights(voices, wanted, prior, 10.0)
    assert (found >= 0).all()
    # The general solver may stop early where a weight is held at zero, never further down.
    best = _minimised(_solved(voices, wanted, prior), voices, wanted, prior)
    assert _minimised(found, voices, wanted, prior) <= best + 1e-7 * best.abs()
