"""The inner loop of asp2vec: its steps against autograd, its regulariser against angles."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from graphham.methods.asp2vec_kernels import learn_windows
from tests.reference.draws import mix, unit


def test_steps_follow_the_gradient_of_the_mixture() -> None:
    nodes, aspects, dim, rate, temperature, seed = 9, 3, 4, 1e-3, 0.5, 3
    draw = np.random.default_rng(0)
    centers = draw.normal(0, 0.7, size=(nodes, dim)).astype(np.float32)
    table = draw.normal(0, 0.7, size=(nodes * aspects, dim)).astype(np.float32)
    # A walk over every node at most once, so that no window reads a centre updated before.
    walk = [0, 1, 2, 3, 4]
    sentences = np.array([walk])
    sentences.flags.writeable = False
    p = torch.tensor(centers, dtype=torch.float64, requires_grad=True)
    q = torch.tensor(table, dtype=torch.float64).view(nodes, aspects, dim).requires_grad_()
    total = torch.zeros((), dtype=torch.float64)
    for place, node in enumerate(walk):
        around = [walk[o] for o in (place - 1, place + 1) if 0 <= o < len(walk)]
        scores = q[around].mean(0) @ p[node]
        for number, other in enumerate(around):
            key = mix(mix(mix(seed, 0), place), number)
            noise = [-np.log(-np.log(unit(mix(mix(key, 0), k)))) for k in range(aspects)]
            weights = ((scores + torch.tensor(noise)) / temperature).softmax(0)
            drawn = [int(unit(mix(key, n + 1)) * nodes) for n in range(4)]
            drawn = [n for n in drawn if n not in (node, *around)][:2]
            each = -torch.nn.functional.logsigmoid(q[other] @ p[node])
            for negative in drawn:
                each = each - torch.nn.functional.logsigmoid(-(q[negative] @ p[node]))
            total = total + (weights * each).sum()
    total.backward()  # type: ignore[no-untyped-call]
    new_centers, new_table = centers.copy(), table.copy()
    loss, pairs = learn_windows(
        sentences,
        new_centers,
        new_table,
        aspects,
        1,
        2,
        np.float32(temperature),
        np.float32(0.0),
        np.float32(0.5),
        rate,
        rate,
        np.uint64(seed),
    )
    assert pairs == 8
    assert loss == pytest.approx(float(total.detach()), rel=0.02)
    assert p.grad is not None
    assert q.grad is not None
    # Later windows see the small steps of earlier ones, and aspects below 1% are left out.
    np.testing.assert_allclose((centers - new_centers) / rate, p.grad.numpy(), atol=0.06)
    moved = (table - new_table).reshape(nodes, aspects, dim) / rate
    np.testing.assert_allclose(moved, q.grad.numpy(), atol=0.06)
