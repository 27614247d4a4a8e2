"""Uniform draws and dropout: torch's own stream of numbers, made several times faster.

Training draws a number per state and step. Torch makes them one at a time and dropout takes five
passes over them; here a Mersenne Twister (the generator torch uses on the CPU) runs in vector code
and dropout is one pass. The numbers are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from graphham.sampling.keys import torch_generator
from graphham.system.jit import Array, exact, jit
from graphham.system.tensors import new_tensor, readable, runs_reference

_WORDS = 624


class Draws:
    """A stream of uniform numbers that depends on a key alone.

    Args:
        key: Which stream; the same numbers as ``torch.Generator`` with this seed.
    """

    def __init__(self, key: int | np.integer[Any]) -> None:
        self.words = np.empty(_WORDS, dtype=np.uint32)
        self.place = np.full(1, _WORDS, dtype=np.int64)
        _seed(self.words, np.uint64(int(key) & 0xFFFFFFFF))

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """Return float32 numbers in [0, 1), as ``torch.rand`` would."""
        out = new_tensor(*shape)
        _fill(self.words, self.place, out.numpy().reshape(-1))
        return out


Source = Draws | torch.Generator


def make_source(key: Any, device: torch.device | str, plain: bool = False) -> Source:
    """Return a fresh stream for a device.

    Args:
        key: Which stream.
        device: Where numbers are wanted; only the CPU has the fast form.
        plain: Ask for torch's own generator in any case.
    """
    if plain or torch.device(device).type != "cpu" or runs_reference():
        return torch_generator(key, device)
    return Draws(key)


def uniform(shape: Sequence[int], source: Source | None, like: Tensor) -> Tensor:
    """Return numbers in [0, 1) with the type and device of ``like``.

    Without a source they come from torch's own stream.
    """
    if isinstance(source, Draws) and like.dtype == torch.float32:
        return source.uniform(shape)
    assert not isinstance(source, Draws)
    return torch.rand(tuple(shape), generator=source, device=like.device, dtype=like.dtype)


def dropout(x: Tensor, rate: float, source: Source, in_place: bool = False) -> Tensor:
    """Set about a share ``rate`` of the entries to zero and scale up the others.

    Args:
        x: Any tensor.
        rate: Share of the entries.
        source: Where the draws come from.
        in_place: Whether ``x``, which then must need no gradient, may be overwritten.
    """
    if not rate:
        return x
    if in_place and isinstance(source, Draws) and not runs_reference(x) and x.is_contiguous():
        scale = np.float32(1 / (1 - rate))
        _drop_here(source.words, source.place, x.numpy().reshape(-1), np.float32(rate), scale)
        return x
    if isinstance(source, Draws) and not runs_reference(x):
        out: Tensor = _Dropout.apply(x, rate, source)  # type: ignore[no-untyped-call]
        return out
    keep = uniform(x.shape, source, x) >= rate
    return x * keep / (1 - rate)


def hidden(x: Tensor, bias: Tensor, rate: float, source: Source | None) -> Tensor:
    """Return ``relu(x + bias)`` with dropout; without a source nothing is dropped."""
    if isinstance(source, Draws) and rate and not runs_reference(x, bias):
        out: Tensor = _Hidden.apply(x, bias, rate, source)  # type: ignore[no-untyped-call]
        return out
    out = torch.relu(x + bias)
    return out if source is None else dropout(out, rate, source)


class _Hidden(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, rate: float, source: Draws) -> Tensor:
        out = new_tensor(*x.shape)
        kept = np.empty(tuple(x.shape), dtype=np.uint8)
        ctx.scale, ctx.kept = np.float32(1 / (1 - rate)), kept
        _rectify(
            source.words,
            source.place,
            readable(x),
            readable(bias),
            np.float32(rate),
            ctx.scale,
            out.numpy(),
            kept,
        )
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        out = new_tensor(*grad.shape)
        _again(readable(grad).reshape(-1), ctx.kept.reshape(-1), ctx.scale, out.numpy().reshape(-1))
        return out, out.sum(0), None, None


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: float, source: Draws) -> Tensor:
        out = new_tensor(*x.shape)
        kept = np.empty(x.numel(), dtype=np.uint8)
        ctx.scale, ctx.kept = np.float32(1 / (1 - rate)), kept
        _drop(
            source.words,
            source.place,
            readable(x).reshape(-1),
            np.float32(rate),
            ctx.scale,
            out.numpy().reshape(-1),
            kept,
        )
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        out = new_tensor(*grad.shape)
        _again(readable(grad).reshape(-1), ctx.kept, ctx.scale, out.numpy().reshape(-1))
        return out, None, None


@jit
def _seed(words: Array, seed: Any) -> None:
    words[0] = np.uint32(seed)
    for k in range(1, len(words)):
        last = np.uint64(words[k - 1])
        mixed = np.uint64(1812433253) * (last ^ (last >> np.uint64(30))) + np.uint64(k)
        words[k] = np.uint32(mixed & np.uint64(0xFFFFFFFF))


@exact
def _twist(words: Array) -> None:
    """Make the next 624 words of the Mersenne Twister (MT19937) from the last ones."""
    upper, lower = np.uint32(0x80000000), np.uint32(0x7FFFFFFF)
    odd = np.uint32(0x9908B0DF)
    one = np.uint32(1)
    for k in range(227):
        both = np.uint32((words[k] & upper) | (words[k + 1] & lower))
        flip = np.uint32(-np.int32(both & one)) & odd
        words[k] = words[k + 397] ^ np.uint32(both >> one) ^ flip
    for k in range(227, 623):
        both = np.uint32((words[k] & upper) | (words[k + 1] & lower))
        flip = np.uint32(-np.int32(both & one)) & odd
        words[k] = words[k - 227] ^ np.uint32(both >> one) ^ flip
    both = np.uint32((words[623] & upper) | (words[0] & lower))
    flip = np.uint32(-np.int32(both & one)) & odd
    words[623] = words[396] ^ np.uint32(both >> one) ^ flip


@exact
def _temper(words: Array, out: Array) -> None:
    """Turn words into numbers in [0, 1): the lower 24 bits of each tempered word."""
    for k in range(len(out)):
        bits = words[k]
        bits = np.uint32(bits ^ (bits >> np.uint32(11)))
        bits = np.uint32(bits ^ (np.uint32(bits << np.uint32(7)) & np.uint32(0x9D2C5680)))
        bits = np.uint32(bits ^ (np.uint32(bits << np.uint32(15)) & np.uint32(0xEFC60000)))
        bits = np.uint32(bits ^ (bits >> np.uint32(18)))
        out[k] = np.float32(np.int32(bits & np.uint32(0xFFFFFF))) * np.float32(1 / 16777216)


@exact
def _fill(words: Array, place: Array, out: Array) -> None:
    first = 0
    while first < len(out):
        if place[0] == len(words):
            _twist(words)
            place[0] = 0
        last = min(first + len(words) - place[0], len(out))
        _temper(words[place[0] :], out[first:last])
        place[0] += last - first
        first = last


@jit
def _drop(
    words: Array, place: Array, x: Array, rate: Any, scale: Any, out: Array, kept: Array
) -> None:
    drawn = np.empty(len(words), dtype=np.float32)
    first = 0
    while first < len(out):
        last = min(first + len(words), len(out))
        some = drawn[: last - first]
        _fill(words, place, some)
        _apply(x[first:last], some, rate, scale, out[first:last], kept[first:last])
        first = last


@jit
def _drop_here(words: Array, place: Array, x: Array, rate: Any, scale: Any) -> None:
    drawn = np.empty(len(words), dtype=np.float32)
    kept = np.empty(len(words), dtype=np.uint8)
    first = 0
    while first < len(x):
        last = min(first + len(words), len(x))
        some, part = drawn[: last - first], x[first:last]
        _fill(words, place, some)
        _apply(part, some, rate, scale, part, kept[: last - first])
        first = last


@exact
def _apply(x: Array, drawn: Array, rate: Any, scale: Any, out: Array, kept: Array) -> None:
    for k in range(len(out)):
        kept[k] = np.uint8(drawn[k] >= rate)
    for k in range(len(out)):
        out[k] = x[k] * (np.float32(kept[k]) * scale)


@jit
def _rectify(
    words: Array,
    place: Array,
    x: Array,
    bias: Array,
    rate: Any,
    scale: Any,
    out: Array,
    kept: Array,
) -> None:
    rows, dim = x.shape
    drawn = np.empty(dim, dtype=np.float32)
    for i in range(rows):
        _fill(words, place, drawn)
        for d in range(dim):
            out[i, d] = max(x[i, d] + bias[d], np.float32(0.0))
        for d in range(dim):
            kept[i, d] = np.uint8(drawn[d] >= rate) & np.uint8(out[i, d] > 0)
        for d in range(dim):
            out[i, d] *= np.float32(kept[i, d]) * scale


@jit
def _again(grad: Array, kept: Array, scale: Any, out: Array) -> None:
    for k in range(len(out)):
        out[k] = grad[k] * (np.float32(kept[k]) * scale)
