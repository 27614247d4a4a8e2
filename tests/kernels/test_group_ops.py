"""The compiled membership operations equal their plain forms, gradients included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graphham.graph.neighborhoods import Block
from graphham.kernels import group_ops as groups
from graphham.model.losses import constraint_loss, use_losses
from graphham.model.membership import assign, combine_levels, neighbor_evidence, witnesses

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


def _block(seed: int, nodes: int, self_edge: bool, weighted: bool) -> Block:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(0, 4 * nodes))
    sources, targets = rng.integers(0, nodes, (2, count))
    weights = rng.random(count) + 0.1 if weighted else None
    return Block.from_edges(sources, targets, nodes, self_edge=self_edge, weights=weights)


@given(**SIZES, width=st.integers(1, 20), tau=st.sampled_from([0.3, 1.0]), noisy=st.booleans())
def test_assignments(nodes: int, seed: int, width: int, tau: float, noisy: bool) -> None:
    noise = _numbers(seed + 1, nodes, width) if noisy else None
    _compare(lambda u: assign(u, tau, noise), _numbers(seed, nodes, width))


@given(
    **SIZES,
    width=st.integers(1, 20),
    self_edge=st.booleans(),
    weighted=st.booleans(),
    listens=st.booleans(),
)
def test_evidence(
    nodes: int, seed: int, width: int, self_edge: bool, weighted: bool, listens: bool
) -> None:
    block = _block(seed, nodes, self_edge, weighted)
    table = _numbers(seed + 1, width, width)
    table = table + table.T
    degrees = torch.arange(nodes).float()

    def plain(u: Tensor) -> tuple[Tensor, Tensor]:
        logits = u + neighbor_evidence(u.softmax(1), table, block, degrees) if listens else u
        logs = (logits / 1.5).log_softmax(1)
        return logs, logs.exp()

    def both(u: Tensor) -> tuple[Tensor, Tensor]:
        import os

        if os.environ["GRAPHHAM_OPS"] == "reference":
            return plain(u)
        return groups.evidence(u, block, 1.5, table if listens else None, witnesses(degrees))

    _compare(both, _numbers(seed, nodes, width), tolerance=1e-3)


@given(**SIZES, widths=st.tuples(st.integers(2, 18), st.integers(2, 7), st.integers(1, 4)))
def test_levels_join(nodes: int, seed: int, widths: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(seed)
    # Some parents may be left without children.
    parents = [
        torch.from_numpy(rng.integers(0, widths[1], widths[0])),
        torch.from_numpy(rng.integers(0, widths[2], widths[1])),
    ]
    levels = [_numbers(seed + k, nodes, width, scale=6.0) for k, width in enumerate(widths)]
    _compare(
        lambda *u: combine_levels([level.log_softmax(1) for level in u], parents),
        *levels,
        tolerance=1e-3,
    )


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


@given(**SIZES, width=st.integers(1, 20), seeded=st.booleans())
def test_use(nodes: int, seed: int, width: int, seeded: bool) -> None:
    prior = _numbers(seed + 1, width).softmax(0)
    rng = np.random.default_rng(seed)
    seeds = torch.from_numpy(rng.integers(0, width, nodes)) if seeded else None
    _compare(lambda m: use_losses(m.softmax(1), prior, seeds), _numbers(seed, nodes, width))
