"""Gumbel noise named by a key, and the relaxed draw from it in one pass (E4).

A sampled batch draws an assignment for every source, a hundred thousand rows for a few hundred
targets. Noise, softmax and gradient then cost more than the attention itself unless they are
one compiled loop each. The noise of an entry depends on the key and its place alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphham.kernels.row_softmax import RowSoftmax
from graphham.sampling.random_stream import Source, uniform
from graphham.system.jit import Array, exp_below_zero, inlined, jit, log_positive
from graphham.system.tensors import new_tensor, readable, runs_reference

# Rows whose logits are taken together, so that short rows share one run of logarithms.
_ROWS = 64


def gumbel_softmax(affinity: Tensor, tau: float, key: int) -> Tensor:
    """Return ``softmax((affinity + noise) / tau)`` by row, with the Gumbel noise of a key.

    Args:
        affinity: ``(nodes, groups)`` unnormalised log memberships.
        tau: Temperature of the relaxation.
        key: Names the noise.
    """
    if runs_reference(affinity) or not affinity.numel():
        noise = keyed_gumbel(tuple(affinity.shape), key).to(affinity)
        return ((affinity + noise) / tau).softmax(dim=1)
    out: Tensor = _GumbelSoftmax.apply(affinity, tau, key)  # type: ignore[no-untyped-call]
    return out


def keyed_gumbel(shape: tuple[int, ...], key: int) -> Tensor:
    """Return the float32 Gumbel noise that a key names."""
    out = new_tensor(*shape)
    _fill(*key_words(key), out.view(-1).numpy())
    return out


def draw_key(source: Source | None) -> int:
    """Take a key from a stream of uniform numbers."""
    device = source.device if isinstance(source, torch.Generator) else "cpu"
    # Three numbers of 24 bits each; both kinds of stream give the same ones.
    held = uniform((3,), source, torch.empty(0, device=device)).tolist()
    high, middle, low = (int(value * (1 << 24)) for value in held)
    return (high << 39) ^ (middle << 20) ^ low


def key_words(key: int) -> tuple[Any, Any]:
    """Return a key as the two words that compiled loops take."""
    return np.uint32(key & 0xFFFFFFFF), np.uint32((key >> 32) & 0xFFFFFFFF)


class _GumbelSoftmax(RowSoftmax):
    @staticmethod
    def forward(ctx: Any, affinity: Tensor, tau: float, key: int) -> Tensor:
        out = new_tensor(*affinity.shape)
        _draw(readable(affinity), *key_words(key), 1.0 / tau, out.numpy())
        return RowSoftmax.keep(ctx, out, lambda z, grad, to: _back(z, grad, 1.0 / tau, to))


@inlined
def _log_exponential(place: Any, low: Any, high: Any) -> Any:
    """Return log(-log(u)) of a uniform u named by a place and the two words of a key."""
    bits = np.uint32(np.uint32(place) * np.uint32(0x9E3779B9) + low)
    bits = np.uint32(np.uint32(bits ^ (bits >> np.uint32(16))) * np.uint32(0x7FEB352D))
    bits = np.uint32(np.uint32(bits ^ (bits >> np.uint32(15))) * np.uint32(0x846CA68B))
    bits = np.uint32(np.uint32(bits ^ (bits >> np.uint32(16))) + high)
    bits = np.uint32(np.uint32(bits ^ (bits >> np.uint32(16))) * np.uint32(0x21F0AAAD))
    bits = np.uint32(np.uint32(bits ^ (bits >> np.uint32(15))) * np.uint32(0xD35A2D97))
    bits = np.uint32(bits ^ (bits >> np.uint32(15)))
    # 23 bits and a half: neither 0 nor 1, and exact in float32.
    even = (np.float32(np.int32(bits >> np.uint32(9))) + np.float32(0.5)) * np.float32(2**-23)
    return log_positive(-log_positive(even))


@jit
def _fill(low: Any, high: Any, out: Array) -> None:
    for p in range(len(out)):
        out[p] = -_log_exponential(p, low, high)


@inlined
def relax_tile(
    given: Any, low: Any, high: Any, start: Any, sharpness: Any, groups: Any, out: Any
) -> None:
    """Write the softmax of some rows plus their noise, laid out one after the other.

    Args:
        given: ``(rows * groups,)`` affinities.
        low: First word of the key.
        high: Second word.
        start: Place of the first number in the whole table, which names its noise.
        sharpness: One over the temperature.
        groups: Length of a row.
        out: Takes the rows, from its beginning.
    """
    factor = np.float32(sharpness)
    base = np.uint32(start)
    part = out[: len(given)]
    # Slices and loops of one thing each: what the compiler turns into vector code.
    for p in range(len(part)):
        part[p] = _log_exponential(np.uint32(p) + base, low, high)
    for p in range(len(part)):
        part[p] = factor * (given[p] - part[p])
    for i in range(0, len(part), groups):
        row = part[i : i + groups]
        top = row[0]
        for k in range(groups):
            top = max(top, row[k])
        for k in range(groups):
            row[k] -= top
    for p in range(len(part)):
        part[p] = exp_below_zero(part[p])
    for i in range(0, len(part), groups):
        row = part[i : i + groups]
        total = np.float32(0.0)
        for k in range(groups):
            total += row[k]
        scale = np.float32(1.0) / total
        for k in range(groups):
            row[k] *= scale


@jit
def _draw(affinity: Array, low: Any, high: Any, sharpness: float, out: Array) -> None:
    count, groups = affinity.shape
    given, flat = affinity.reshape(count * groups), out.reshape(count * groups)
    for first in range(0, count, _ROWS):
        start, stop = first * groups, min(first + _ROWS, count) * groups
        relax_tile(given[start:stop], low, high, start, sharpness, groups, flat[start:stop])


@jit
def _back(z: Array, grad: Array, sharpness: float, out: Array) -> None:
    count, groups = z.shape
    factor = np.float32(sharpness)
    for i in range(count):
        mean = np.float32(0.0)
        for k in range(groups):
            mean += z[i, k] * grad[i, k]
        for k in range(groups):
            out[i, k] = factor * z[i, k] * (grad[i, k] - mean)
