"""The optimiser takes the steps torch's own would, and goes on where it stopped."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from graphham.training.optimizer import Adam


def _parameters(seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = [(3, 5), (7,), (), (40, 33)]
    return [torch.randn(s, generator=generator).requires_grad_() for s in shapes]


def _give_gradients(parameters: list[torch.Tensor], seed: int, skip: int = -1) -> None:
    generator = torch.Generator().manual_seed(1000 + seed)
    for place, p in enumerate(parameters):
        grad = torch.randn(p.shape, generator=generator)
        p.grad = None if place == skip else grad


@given(seed=st.integers(0, 50), decay=st.sampled_from([0.0, 0.01]), skip=st.integers(-1, 3))
def test_steps_are_those_of_torch(seed: int, decay: float, skip: int) -> None:
    ours, theirs = _parameters(seed), _parameters(seed)
    mine = Adam([{"params": ours[:2], "weight_decay": decay}, {"params": ours[2:]}], 0.02)
    other = torch.optim.Adam(
        [{"params": theirs[:2], "weight_decay": decay}, {"params": theirs[2:]}], lr=0.02
    )
    for number in range(4):
        for parameters in (ours, theirs):
            _give_gradients(parameters, number, skip if number < 2 else -1)
        mine.clip(1.5)
        torch.nn.utils.clip_grad_norm_(theirs, 1.5)
        mine.step()
        other.step()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


def test_goes_on_exactly_where_it_stopped() -> None:
    ours, copies = _parameters(3), _parameters(3)
    whole = Adam([{"params": ours, "weight_decay": 0.1}], 0.05)
    first = Adam([{"params": copies, "weight_decay": 0.1}], 0.05)
    for number in range(3):
        _give_gradients(ours, number)
        whole.step()
        _give_gradients(copies, number)
        first.step()
    again = Adam([{"params": copies, "weight_decay": 0.0}], 0.9)
    again.load_state_dict(first.state_dict())
    for number in range(3, 5):
        _give_gradients(ours, number)
        whole.step()
        _give_gradients(copies, number)
        again.step()
    assert all(torch.equal(a, b) for a, b in zip(ours, copies, strict=True))


def test_small_gradients_are_not_scaled() -> None:
    parameters = _parameters(1)
    _give_gradients(parameters, 1)
    before = [p.grad.clone() for p in parameters if p.grad is not None]
    Adam([{"params": parameters}], 0.1).clip(1e6)
    for p, grad in zip(parameters, before, strict=True):
        assert p.grad is not None
        torch.testing.assert_close(p.grad, grad)
    Adam([{"params": parameters}], 0.1).zero_grad()
    assert all(p.grad is None for p in parameters)
