"""The compiled membership operations equal their plain forms, gradients included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graphham.model.losses import constraint_loss
from graphham.model.membership import assign

SIZES = {"nodes": st.integers(2, 30), "seed": st.integers(0, 999)}


def _numbers(seed: int, *shape: int, scale: float = 2.0) -> Tensor:
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _compare(function: Callable[..., Any], *inputs: Tensor, tolerance: float = 1e-4) -> None:
    """Run both forms, weigh their outputs by fixed numbers, and compare values and gradients."""
    found = []
    for version in ("compiled", "reference"):
        held = [x.clone().requires_grad_() for x in inputs]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GRAPHHAM_OPS", version)
            out = function(*held)
        parts = [part for part in ([out] if isinstance(out, Tensor) else out) if part is not None]
        total = sum((p * _numbers(7 + k, *p.shape)).sum() for k, p in enumerate(parts))
        assert isinstance(total, Tensor)
        grads = torch.autograd.grad(total, held)
        found.append([*(p.detach() for p in parts), *grads])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


@given(**SIZES, width=st.integers(1, 20), tau=st.sampled_from([0.3, 1.0]), noisy=st.booleans())
def test_assignments(nodes: int, seed: int, width: int, tau: float, noisy: bool) -> None:
    noise = _numbers(seed + 1, nodes, width) if noisy else None
    _compare(lambda u: assign(u, tau, noise), _numbers(seed, nodes, width))


@given(
    **SIZES,
    widths=st.tuples(st.integers(1, 18), st.integers(1, 7)),
    must=st.sampled_from([0.0, 5.0]),
    cannot=st.sampled_from([0.0, 2.0]),
)
def test_violations(
    nodes: int, seed: int, widths: tuple[int, int], must: float, cannot: float
) -> None:
    lower, upper = (_numbers(seed + k, nodes, width) for k, width in enumerate(widths))
    _compare(
        lambda a, c: (
            constraint_loss(a.softmax(1), c.softmax(1), must, cannot) + 0.0 * (a.sum() + c.sum())
        ),
        lower,
        upper,
        tolerance=1e-3,
    )
