"""The inner loop of asp2vec: its steps against autograd, its regulariser against angles."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from graphham.methods.asp2vec_kernels import learn_windows
from graphham.system.jit import frozen
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


def passed_once(centers: np.ndarray, table: np.ndarray, aspects: int, **other: float) -> None:
    """Walk over nodes 0 and 1 once, with a window of one and one negative."""
    values = {"rate": 0.0, "regularizer": 0.0, "threshold": 0.5, **other}
    learn_windows(
        frozen(np.array([[0, 1]])),
        centers,
        table,
        aspects,
        1,
        1,
        np.float32(0.5),
        np.float32(values["regularizer"]),
        np.float32(values["threshold"]),
        values["rate"],
        values["rate"],
        np.uint64(1),
    )


def cosine(left: np.ndarray, right: np.ndarray) -> float:
    return float(left @ right / np.linalg.norm(left) / np.linalg.norm(right))


@pytest.mark.parametrize("angle", [10, 40, 70, 90, 110, 150, 175])
def test_the_regulariser_turns_aspects_apart_where_they_are_too_alike(angle: float) -> None:
    turn = np.radians(angle)
    pair = np.array([[2.0, 0.0], [3 * np.cos(turn), 3 * np.sin(turn)]], dtype=np.float32)
    table = np.concatenate([pair, pair, pair])  # nodes 0, 1 and 2; the walk never meets node 2
    centers = np.ones((3, 2), dtype=np.float32)
    passed_once(centers, table, 2, regularizer=0.05)
    if abs(np.cos(turn)) > 0.5:
        # Towards a right angle, by a part of a degree even where they are nearly parallel.
        turned = np.degrees(np.arccos(cosine(*table[:2])))
        assert abs(turned - 90) < abs(angle - 90) - 0.3
    else:
        np.testing.assert_array_equal(table[:2], pair)
    np.testing.assert_array_equal(table[4:], pair)
    np.testing.assert_array_equal(centers, 1)  # without a rate nothing else moves


def test_one_aspect_is_plain_skip_gram() -> None:
    draw = np.random.default_rng(0)
    centers = draw.normal(size=(3, 4)).astype(np.float32)
    table = draw.normal(size=(3, 4)).astype(np.float32)
    p, q = centers.astype(np.float64), table.astype(np.float64)
    for place, (node, other) in enumerate([(0, 1), (1, 0)]):
        pair = mix(mix(mix(1, 0), place), 0)
        free = [int(unit(mix(pair, n + 1)) * 3) for n in range(2)]
        # A negative is neither of the two; after two tries without one the step goes on without.
        rows = [(other, 1), *[(n, 0) for n in free if n == 2][:1]]
        change = np.zeros(4)
        for row, is_met in rows:
            step = 0.1 * (is_met - 1 / (1 + np.exp(-p[node] @ q[row])))
            change += step * q[row]
            q[row] += step * p[node]
        p[node] += change
    passed_once(centers, table, 1, rate=0.1)
    np.testing.assert_allclose(centers, p, atol=1e-5)
    np.testing.assert_allclose(table, q, atol=1e-5)
