"""Solve GNE's sibling problems: vectors from similarities, then places on the unit sphere.

Groups of about equal size are padded to one size and solved together; a group leaves the batch when
its own loss has settled, so what it gets does not depend on the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphham.sampling.keys import derive_key, numpy_generator
from graphham.system.threads import single_threaded

Array = npt.NDArray[np.float64]
_CHECK_EVERY = 100
_TOLERANCE = 1e-3
_SPHERE_TOLERANCE = 1e-4
# Entries of the squares solved at once: about 4 million float32 numbers.
BATCH_ENTRIES = 1 << 22


def place_on_spheres(
    similarities: list[Array],
    dim: int,
    key: Any,
    steps: int,
    sphere_steps: int,
    lr: float,
    sphere_lr: float,
    heard: Callable[[int, int, int], None] | None = None,
) -> list[Array]:
    """Place the siblings of every group on a unit sphere.

    Args:
        similarities: One ``(n, n)`` matrix per group.
        dim: Width of the vectors.
        key: Decides every random draw; each group has its own.
        steps: Most steps for the vectors.
        sphere_steps: Most steps for the places.
        lr: Learning rate for the vectors.
        sphere_lr: Learning rate for the places.
        heard: Told after every batch: its number from 1, the number of batches, groups solved.

    Returns:
        One ``(n, dim)`` array of unit vectors per group.
    """
    found: list[Array] = [np.empty(0)] * len(similarities)
    by_size: dict[int, list[int]] = {}
    for group, similarity in enumerate(similarities):
        if len(similarity) <= 2:
            draw = numpy_generator(derive_key(key, "direction", group)).normal(size=dim)
            direction = draw / np.linalg.norm(draw)
            found[group] = np.stack([direction, -direction])[: len(similarity)]
        else:
            # Small groups cost the same whatever their size; larger ones are padded by a fifth.
            bits = len(similarity).bit_length()
            step = 1 << (bits - 3 if bits > 5 else 3)
            by_size.setdefault(-(-len(similarity) // step) * step, []).append(group)
    batches: list[tuple[int, list[int]]] = []
    for size, groups in sorted(by_size.items()):
        together = max(1, BATCH_ENTRIES // (size * max(size, dim)))
        starts = range(0, len(groups), together)
        batches += [(size, groups[start : start + together]) for start in starts]
    for number, (size, batch) in enumerate(batches, 1):
        with single_threaded():
            places = _solve(
                [similarities[g] for g in batch],
                [derive_key(key, "start", g) for g in batch],
                size,
                dim,
                (steps, sphere_steps),
                (lr, sphere_lr),
            )
        for group, place in zip(batch, places, strict=True):
            found[group] = place
        if heard is not None:
            heard(number, len(batches), len(batch))
    return found


def _solve(
    similarities: list[Array],
    keys: list[Any],
    size: int,
    dim: int,
    steps: tuple[int, int],
    rates: tuple[float, float],
) -> list[Array]:
    count = len(similarities)
    wanted = torch.zeros(count, size, size)
    real = torch.zeros(count, size, dtype=torch.bool)
    vectors, weights = torch.zeros(count, size, dim), torch.zeros(count, dim, size)
    for at, (similarity, key) in enumerate(zip(similarities, keys, strict=True)):
        n = len(similarity)
        rows = similarity / similarity.sum(1, keepdims=True)
        wanted[at, :n, :n] = torch.from_numpy(rows).float()
        real[at, :n] = True
        draw = numpy_generator(key).normal(scale=dim**-0.5, size=(2, n, dim))
        vectors[at, :n] = torch.from_numpy(draw[0]).float()
        weights[at, :, :n] = torch.from_numpy(draw[1]).float().T
    numbers = real.sum(1)
    hidden = torch.zeros(count, 1, size).masked_fill_(~real[:, None], -1e9)

    def predict(live: Tensor, parts: list[Tensor]) -> Tensor:
        logits = torch.baddbmm(parts[2] + hidden[live], parts[0], parts[1])
        loss = -(wanted[live] * torch.log_softmax(logits, dim=2)).sum((1, 2))
        return loss / numbers[live]

    start = [vectors, weights, torch.zeros(count, 1, size)]
    fitted = _descend(predict, start, steps[0], rates[0], _TOLERANCE)[0]
    centered = fitted - (fitted * real[..., None]).sum(1, keepdim=True) / numbers[:, None, None]
    pairs = (real[:, :, None] & real[:, None]).float()
    exact = "donot_use_mm_for_euclid_dist"
    apart = torch.cdist(fitted, fitted, compute_mode=exact).square() * pairs
    apart /= apart.norm(dim=(1, 2), keepdim=True).clamp_min(1e-12)

    def project(live: Tensor, parts: list[Tensor]) -> Tensor:
        unit = torch.nn.functional.normalize(parts[0], dim=2)
        around = (2 - 2 * torch.bmm(unit, unit.mT)) * pairs[live]
        scale = (around.square().sum((1, 2), keepdim=True) + 1e-20).sqrt()
        short = (apart[live] - around / scale).clamp_min(0)
        # The root has no slope at 0; the added number is far below the tolerance.
        return (short.square().sum((1, 2)) + 1e-12).sqrt()

    on_sphere = _descend(project, [centered], steps[1], rates[1], _SPHERE_TOLERANCE)[0].double()
    placed = torch.nn.functional.normalize(on_sphere, dim=2).numpy()
    return [placed[at, : len(one)] for at, one in enumerate(similarities)]


def _descend(
    loss: Callable[[Tensor, list[Tensor]], Tensor],
    start: list[Tensor],
    steps: int,
    rate: float,
    tolerance: float,
) -> list[Tensor]:
    """Run Adam on every problem of a batch until its own loss settles.

    Args:
        loss: Losses of the problems still running, from their numbers and their parts.
        start: Starting values, first dimension the problem.
        steps: Most steps.
        rate: Learning rate.
        tolerance: A problem is done when its loss changes by less between checks.
    """
    done = [part.clone() for part in start]
    live = torch.arange(len(start[0]))
    parts = [part.clone().requires_grad_() for part in start]
    adam = torch.optim.Adam(parts, lr=rate, fused=True)
    before = torch.full((len(live),), torch.inf)
    for step in range(steps):
        losses = loss(live, parts)
        if step % _CHECK_EVERY == 0:
            now = losses.detach()
            going = ~((before - now).abs() < tolerance)
            before = now[going]
            if not bool(going.all()):
                for whole, part in zip(done, parts, strict=True):
                    whole[live[~going]] = part.detach()[~going]
                live = live[going]
                if not len(live):
                    return done
                parts, adam = _narrowed(parts, adam, going, rate)
                losses = loss(live, parts)
        adam.zero_grad()
        losses.sum().backward()  # type: ignore[no-untyped-call]
        adam.step()
    for whole, part in zip(done, parts, strict=True):
        whole[live] = part.detach()
    return done


def _narrowed(
    parts: list[Tensor], adam: torch.optim.Adam, going: Tensor, rate: float
) -> tuple[list[Tensor], torch.optim.Adam]:
    """Keep the problems still running, with what Adam remembers of them."""
    kept = [part.detach()[going].clone().requires_grad_() for part in parts]
    fresh = torch.optim.Adam(kept, lr=rate, fused=True)
    for old, new in zip(parts, kept, strict=True):
        memory = adam.state[old]
        fresh.state[new] = {
            name: value[going].clone() if value.shape == old.shape else value.clone()
            for name, value in memory.items()
        }
    return kept, fresh
