"""Groups of a sampled batch's many sources: affinity, noise and softmax in one pass (E1, E4).

A step over a few hundred targets assigns a hundred thousand sources whose features need no
gradient. Here a tile of them is multiplied with the group vectors, relaxed and written while it is
in the cache, and the same backward. Only the first rows, which others ask about, keep affinities.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from graphham.kernels.gumbel import gumbel_softmax, key_words, relax_tile
from graphham.kernels.tiles import COLUMNS, ROWS, add_tile
from graphham.system.buffers import LENT
from graphham.system.jit import Array, frozen, jit, prefetch
from graphham.system.tensors import new_tensor, readable, runs_reference

# Rows of a tile, forward and backward; their features stay in the innermost cache.
_TILE = 16
_TILE_BACK = 48
_NONE = frozen(np.empty((0, 1), dtype=np.float32))


class Assigned(NamedTuple):
    """What became of the sources.

    Args:
        z: ``(nodes, groups)`` relaxed assignments.
        lead: ``(lead, groups)`` the same of the first nodes, with a gradient path of its own.
        affinity: ``(lead, groups)`` their affinities u.
        terms: ``(nodes, columns)`` the product of ``z`` that was asked for with it, if any.
    """

    z: Tensor
    lead: Tensor
    affinity: Tensor
    terms: Tensor | None = None


def plain_assignment(z: Tensor) -> Assigned:
    """Return ``(nodes, groups)`` assignments that came without affinities."""
    return Assigned(z, z, z[:0])


def assign_sources(
    x: Tensor,
    groups: Tensor,
    tau: float,
    key: int,
    lead: int,
    by_length: bool = False,
    mixed: Tensor | None = None,
) -> Assigned:
    """Return ``softmax((x @ groups + noise) / tau)`` by row, with the Gumbel noise of a key.

    Args:
        x: ``(nodes, width)`` vectors, without gradient.
        groups: ``(width, groups)`` what they are multiplied with.
        tau: Temperature of the relaxation.
        key: Names the noise.
        lead: How many of the first nodes are asked about elsewhere.
        by_length: Divide each product by the length of the node's vector.
        mixed: ``(groups, columns)`` what assignments are multiplied with, where that is asked for.
    """
    lead = min(lead, len(x))
    if runs_reference(x, groups) or not len(x) or not groups.numel():
        affinity = x @ groups
        if by_length:
            lengths = torch.linalg.vector_norm(x, dim=1, keepdim=True)
            affinity = affinity / lengths.clamp_min(1e-12)
        z = gumbel_softmax(affinity, tau, key)
        terms = None if mixed is None else z @ mixed
        return Assigned(z, z[:lead], affinity[:lead], terms)
    held = groups.new_empty(groups.shape[1], 0) if mixed is None else mixed
    out: tuple[Tensor, Tensor, Tensor, Tensor] = _AssignSources.apply(  # type: ignore[no-untyped-call]
        x, groups, held, tau, key, lead, by_length
    )
    return Assigned(*out[:3], None if mixed is None else out[3])


class _AssignSources(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        groups: Tensor,
        mixed: Tensor,
        tau: float,
        key: int,
        lead: int,
        by_length: bool,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        count, width = groups.shape[1], groups.shape[0]
        padded = np.zeros((width, _padded(count)), dtype=np.float32)
        padded[:, :count] = groups.detach().numpy()
        z, affinity = torch.from_numpy(LENT.take(len(x), count)), new_tensor(lead, count)
        terms = new_tensor(len(x), mixed.shape[1])
        factors = np.empty(len(x) if by_length else 0, dtype=np.float32)
        low, high = key_words(key)
        _assign(
            readable(x),
            frozen(padded),
            readable(mixed.t()),
            low,
            high,
            1.0 / tau,
            factors,
            affinity.numpy(),
            terms.numpy(),
            z.numpy(),
        )
        ctx.tau, ctx.factors = tau, frozen(factors)
        ctx.save_for_backward(x, z, mixed)
        ctx.set_materialize_grads(False)
        return z, z[:lead].clone(), affinity, terms

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any,
        grad: Tensor | None,
        of_lead: Tensor | None,
        of_affinity: Tensor | None,
        of_terms: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        x, z, mixed = ctx.saved_tensors
        count, width = z.shape[1], x.shape[1]
        columns = _padded(count)
        out = np.zeros((-(-width // ROWS) * ROWS, columns), dtype=np.float32)
        of_mixed = np.zeros(tuple(mixed.t().shape), dtype=np.float32)
        _assign_back(
            readable(x),
            readable(z),
            readable(mixed.t()),
            _NONE if grad is None else readable(grad),
            _NONE if of_lead is None else readable(of_lead),
            _NONE if of_affinity is None else readable(of_affinity),
            _NONE if of_terms is None else readable(of_terms),
            ctx.factors,
            1.0 / ctx.tau,
            columns,
            out,
            of_mixed,
        )
        found = torch.from_numpy(out[:width, :count].copy())
        return None, found, torch.from_numpy(of_mixed).t(), *[None] * 4


def _padded(count: int) -> int:
    """Return the columns of the tiles that hold some groups."""
    return -(-count // COLUMNS) * COLUMNS


@jit
def _assign(
    x: Array,
    groups: Array,
    mixed: Array,
    low: Any,
    high: Any,
    sharpness: float,
    factors: Array,
    affinity: Array,
    terms: Array,
    out: Array,
) -> None:
    """Write assignments tile by tile, and what is asked for of them.

    Args:
        x: ``(nodes, width)`` vectors.
        groups: ``(width, columns)`` what they are multiplied with, padded with zeros.
        mixed: ``(terms, K)`` what assignments are multiplied with; empty for nothing.
        low: First word of the key.
        high: Second word.
        sharpness: One over the temperature.
        factors: ``(nodes,)``, gets one over each vector's length; empty for plain products.
        affinity: ``(lead, K)``, gets the products of the first nodes.
        terms: ``(nodes, terms)``, overwritten.
        out: ``(nodes, K)``, overwritten.
    """
    nodes, width = x.shape
    count, columns = out.shape[1], groups.shape[1]
    lead = len(affinity)
    flat = out.reshape(nodes * count)
    products = np.empty((_TILE, columns), dtype=np.float32)
    own = np.empty(_TILE * count, dtype=np.float32)
    for first in range(0, nodes, _TILE):
        size = min(_TILE, nodes - first)
        end = first + size - 1
        products[:] = 0
        for r in range(0, size, ROWS):
            a = (first + r) * width
            b = min(first + r + 1, end) * width
            c = min(first + r + 2, end) * width
            d = min(first + r + 3, end) * width
            for k in range(0, columns, COLUMNS):
                add_tile(x, a, b, c, d, 1, groups, k, columns, width, products, r * columns + k)
        for r in range(size):
            factor = np.float32(1.0)
            if len(factors):
                square = np.float32(0.0)
                for d in range(width):
                    square += x[first + r, d] * x[first + r, d]
                factor = np.float32(1.0) / max(np.sqrt(square), np.float32(1e-12))
                factors[first + r] = factor
            for k in range(count):
                own[r * count + k] = factor * products[r, k]
        for r in range(min(lead - first, size)):
            for k in range(count):
                affinity[first + r, k] = own[r * count + k]
        start = first * count
        relax_tile(own[: size * count], low, high, start, sharpness, count, flat[start:])
        for r in range(first, first + size):
            for m in range(len(mixed)):
                total = np.float32(0.0)
                for k in range(count):
                    total += out[r, k] * mixed[m, k]
                terms[r, m] = total


@jit
def _assign_back(
    x: Array,
    z: Array,
    mixed: Array,
    grad: Array,
    of_lead: Array,
    of_affinity: Array,
    of_terms: Array,
    factors: Array,
    sharpness: float,
    columns: int,
    out: Array,
    of_mixed: Array,
) -> None:
    """Add the gradients of the group vectors and of ``mixed``, tile by tile.

    Args:
        x: ``(nodes, width)`` vectors.
        z: ``(nodes, K)`` assignments.
        mixed: ``(terms, K)`` what they were multiplied with.
        grad: ``(nodes, K)`` gradient of the assignments, or empty.
        of_lead: ``(lead, K)`` the same of the first nodes alone, or empty.
        of_affinity: ``(lead, K)`` gradient of their affinities, or empty.
        of_terms: ``(nodes, terms)`` gradient of the terms, or empty.
        factors: ``(nodes,)`` one over each vector's length, or empty.
        sharpness: One over the temperature.
        columns: Width of ``out``, a multiple of a tile's.
        out: ``(at least width, columns)`` zeros that are added to.
        of_mixed: ``(terms, K)`` zeros that are added to.
    """
    nodes, width = x.shape
    count = z.shape[1]
    scale = np.float32(sharpness)
    logits = np.zeros((_TILE_BACK, columns), dtype=np.float32)
    incoming = np.zeros(count, dtype=np.float32)
    has_grad, has_terms = len(grad) > 0, len(of_terms) > 0
    last = nodes if has_grad or has_terms else max(len(of_lead), len(of_affinity))
    for first in range(0, last, _TILE_BACK):
        size = min(_TILE_BACK, last - first)
        # The tile's vectors are on their way while its logits are worked out.
        for place in range(first * width, (first + size) * width, 16):
            prefetch(x, place)
        for r in range(size):
            node = first + r
            for k in range(count):
                incoming[k] = grad[node, k] if has_grad else np.float32(0.0)
            if node < len(of_lead):
                for k in range(count):
                    incoming[k] += of_lead[node, k]
            if has_terms:
                for m in range(len(mixed)):
                    part = of_terms[node, m]
                    for k in range(count):
                        incoming[k] += part * mixed[m, k]
                    for k in range(count):
                        of_mixed[m, k] += part * z[node, k]
            mean = np.float32(0.0)
            for k in range(count):
                mean += z[node, k] * incoming[k]
            for k in range(count):
                logits[r, k] = scale * z[node, k] * (incoming[k] - mean)
            if node < len(of_affinity):
                for k in range(count):
                    logits[r, k] += of_affinity[node, k]
            if len(factors):
                for k in range(count):
                    logits[r, k] *= factors[node]
        base = first * width
        for d in range(0, width, ROWS):
            a, b = base + d, base + min(d + 1, width - 1)
            c, e = base + min(d + 2, width - 1), base + min(d + 3, width - 1)
            for k in range(0, columns, COLUMNS):
                add_tile(x, a, b, c, e, width, logits, k, columns, size, out, d * columns + k)
