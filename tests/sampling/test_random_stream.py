"""The fast stream is torch's own, and dropout is what its plain form says."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphham.sampling.keys import torch_generator
from graphham.sampling.random_stream import Draws, dropout, hidden, make_source, uniform


@given(
    key=st.integers(0, 2**64 - 1),
    sizes=st.lists(st.sampled_from([0, 1, 5, 623, 624, 625, 2000]), max_size=6),
)
def test_numbers_are_those_of_torch_whatever_was_drawn_before(key: int, sizes: list[int]) -> None:
    ours, theirs = Draws(key), torch_generator(key)
    for size in sizes:
        expected = torch.rand(size, 3, generator=theirs)
        assert torch.equal(uniform((size, 3), ours, expected), expected)


@given(key=st.integers(0, 2**40), rate=st.sampled_from([0.1, 0.198, 0.5, 0.7]))
def test_dropout_equals_its_plain_form(key: int, rate: float) -> None:
    x = torch.randn(70, 31, generator=torch_generator(1))
    # A gradient that is not contiguous must be met too.
    seed = torch.randn(31, 70, generator=torch_generator(2)).t()
    results = []
    for plain in (False, True):
        source = make_source(key, "cpu", plain)
        assert isinstance(source, Draws) != plain
        held = x.clone().requires_grad_()
        dropout(x, rate, source)  # the second draw must go on where the first ended
        out = dropout(held, rate, source)
        results.append((out.detach(), torch.autograd.grad(out, held, seed)[0]))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)
    assert dropout(x, 0.0, Draws(key)) is x


def test_the_plain_path_is_taken_where_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHHAM_OPS", "reference")
    assert isinstance(make_source(1, "cpu"), torch.Generator)


@given(key=st.integers(0, 2**40), rate=st.sampled_from([0.3, 0.5]))
def test_a_hidden_layer_equals_its_plain_form(key: int, rate: float) -> None:
    x, bias = (torch.randn(s, 9, generator=torch_generator(s)) for s in (80, 1))
    seed = torch.randn(80, 9, generator=torch_generator(2))
    results = []
    for plain in (False, True):
        held = [x.clone().requires_grad_(), bias[0].clone().requires_grad_()]
        out = hidden(held[0], held[1], rate, make_source(key, "cpu", plain))
        results.append([out.detach(), *torch.autograd.grad(out, held, seed)])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(hidden(x, bias[0], rate, None), torch.relu(x + bias))
