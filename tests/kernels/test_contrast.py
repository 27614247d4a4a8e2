"""The compiled contrastive loss equals its plain form, gradients included."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphham.kernels.contrast import contrast_loss


@given(
    pairs=st.integers(1, 40),
    dim=st.integers(2, 20),
    count=st.integers(1, 3),
    temperature=st.sampled_from([0.05, 0.2, 3.0]),
    seed=st.integers(0, 99),
)
def test_loss_and_gradients_equal_the_plain_ones(
    pairs: int, dim: int, count: int, temperature: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    given_rows = [torch.randn(pairs, dim, generator=generator) for _ in range(2)]
    given_rows[0][0] = 0.0  # a node whose state has died
    found = []
    for version in ("compiled", "reference"):
        rows = [x.clone().requires_grad_() for x in given_rows]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GRAPHHAM_OPS", version)
            loss = contrast_loss(rows[0], rows[1], temperature, min(count, pairs))
        assert ("Contrast" in type(loss.grad_fn).__name__) == (version == "compiled")
        # Zero rows are scaled by 1e12; what is left of them says nothing.
        grads = [g[1:] for g in torch.autograd.grad(2 * loss, rows)]
        found.append((loss.detach(), *grads))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
