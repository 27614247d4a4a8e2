"""Operations on memberships: rows of a few groups, taken through in one pass each.

Torch spends more time on starting an operation, and on softmaxes over a handful of columns, than on
the arithmetic of a graph's memberships. What belongs together is one operation here, its gradient
written out. :mod:`graphham.model.membership` and :mod:`graphham.model.losses` hold the same in
plain torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from graphham.kernels import group_loops as kernels
from graphham.kernels.row_softmax import RowSoftmax
from graphham.system.jit import Array, frozen
from graphham.system.tensors import new_tensor, readable

if TYPE_CHECKING:
    from graphham.graph.neighborhoods import Block

_NO_WEIGHTS = frozen(np.empty(0, dtype=np.float32))


def relax(affinity: Tensor, noise: Tensor | None, tau: float) -> Tensor:
    """Return ``softmax((affinity + noise) / tau)`` by row (E4)."""
    out: Tensor = _called(_Relax, affinity, noise, tau)
    return out


def evidence(
    affinity: Tensor, block: Block, temperature: float, table: Tensor | None, degrees: Tensor
) -> tuple[Tensor, Tensor]:
    """Return what a level says about each target by itself: the logarithm, and the plain rows.

    Args:
        affinity: ``(num_sources, K)`` u.
        block: The neighbourhood.
        temperature: Divides the logits.
        table: ``(K, K)`` how groups link, without gradient; ``None`` where nobody listens.
        degrees: ``(num_targets,)`` how much a node's neighbours together count.
    """
    out: tuple[Tensor, Tensor] = _called(_Evidence, affinity, block, temperature, table, degrees)
    return out


def climb(up: Tensor, target: Tensor, parent: Tensor) -> tuple[Tensor, Tensor]:
    """Join a level's log evidence with its children's; see ``combine_levels``.

    Args:
        up: ``(nodes, K)`` logarithms of the finer level.
        target: ``(nodes, parents)`` logarithms of the coarser one.
        parent: ``(K,)`` parent of each finer group.

    Returns:
        ``(nodes, parents)`` joint logarithms, and each finer group's share of its parent.
    """
    out: tuple[Tensor, Tensor] = _called(_Climb, up, target, parent)
    return out


def descend(above: Tensor, share: Tensor, parent: Tensor) -> Tensor:
    """Return ``above[:, parent] * share``: parents shared out among their children."""
    out: Tensor = _called(_Descend, above, share, parent)
    return out


def chance_violation(lower: Tensor, upper: Tensor, must: float, cannot: float) -> Tensor:
    """Return the constraints between two levels (E13), relative to independent levels.

    The must-link term moves only the upper level and the cannot-link term only the lower one.
    """
    out: Tensor = _called(_Violation, lower, upper, must, cannot)
    return out


def use_losses(
    memberships: Tensor, prior: Tensor, seeds: Tensor | None, tiny: float
) -> tuple[Tensor, Tensor]:
    """Return KL(mean membership || prior), and the mean negative log membership of the seeds.

    Args:
        memberships: ``(nodes, K)`` rows on the simplex.
        prior: ``(K,)`` target shares, without gradient.
        seeds: ``(nodes,)`` group of each node, or ``None`` (the second loss is then zero).
        tiny: Added where a logarithm is taken.
    """
    out: tuple[Tensor, Tensor] = _called(_Use, memberships, prior, seeds, tiny)
    return out


class _Relax(RowSoftmax):
    @staticmethod
    def forward(ctx: Any, affinity: Tensor, noise: Tensor | None, tau: float) -> Tensor:
        out, sharpness = new_tensor(*affinity.shape), np.float32(1 / tau)
        scores = readable(affinity if noise is None else affinity + noise)
        kernels.softmax(scores, sharpness, out.numpy())
        return RowSoftmax.keep(
            ctx, out, lambda z, grad, to: kernels.softmax_back(z, grad, sharpness, to)
        )


class _Evidence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        affinity: Tensor,
        block: Block,
        temperature: float,
        table: Tensor | None,
        degrees: Tensor,
    ) -> tuple[Tensor, Tensor]:
        count, width = block.num_targets, affinity.shape[1]
        own = readable(affinity)[:count]
        logits = own
        memberships = None
        if table is not None:
            memberships = new_tensor(block.num_sources, width)
            kernels.softmax(
                readable(affinity[: block.num_sources]), np.float32(1), memberships.numpy()
            )
            raw = np.empty((count, width), dtype=np.float32)
            mixed = readable(torch.mm(memberships, table))
            kernels.listen(*_links(block), mixed, own, readable(degrees), raw)
            logits = frozen(raw)
        logs, plain = new_tensor(count, width), new_tensor(count, width)
        kernels.log_softmax(logits, np.float32(1 / temperature), logs.numpy(), plain.numpy())
        ctx.block, ctx.temperature, ctx.shape = block, temperature, affinity.shape
        ctx.save_for_backward(plain, memberships, table, degrees)
        return logs, plain

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_logs: Tensor, grad_plain: Tensor) -> tuple[Tensor | None, ...]:
        plain, memberships, table, degrees = ctx.saved_tensors
        block = ctx.block
        count, width = plain.shape
        grad = new_tensor(*ctx.shape).zero_()
        kernels.log_softmax_back(
            readable(plain),
            readable(grad_logs),
            readable(grad_plain),
            np.float32(1 / ctx.temperature),
            grad.numpy()[:count],
        )
        if table is not None:
            heard = new_tensor(block.num_sources, width).zero_()
            kernels.listen_back(
                *_links(block), readable(grad)[:count], readable(degrees), heard.numpy()
            )
            kernels.add_softmax_back(
                readable(memberships), readable(torch.mm(heard, table.t())), grad.numpy()
            )
        return grad, None, None, None, None


def _links(block: Block) -> tuple[Array, Array, Array, bool]:
    weights = _NO_WEIGHTS if block.weights is None else block.neighbor_weights
    return block.indptr, block.indices, weights, block.self_edge


class _Climb(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, up: Tensor, target: Tensor, parent: Tensor) -> tuple[Tensor, Tensor]:
        joint, powers = new_tensor(*target.shape), new_tensor(*target.shape)
        share = new_tensor(*up.shape)
        kernels.climb(
            readable(up),
            readable(target),
            readable(parent),
            joint.numpy(),
            powers.numpy(),
            share.numpy(),
        )
        ctx.save_for_backward(powers, share, parent)
        return joint, share

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_joint: Tensor, grad_share: Tensor) -> tuple[Tensor | None, ...]:
        powers, share, parent = ctx.saved_tensors
        grad_up, grad_target = new_tensor(*share.shape), new_tensor(*powers.shape)
        read = [readable(x) for x in (powers, share, parent, grad_joint, grad_share)]
        kernels.climb_back(*[*read, grad_up.numpy(), grad_target.numpy()])
        return grad_up, grad_target, None


class _Descend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, above: Tensor, share: Tensor, parent: Tensor) -> Tensor:
        out = new_tensor(*share.shape)
        kernels.descend(readable(above), readable(share), readable(parent), out.numpy())
        ctx.save_for_backward(above, share, parent)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        above, share, parent = ctx.saved_tensors
        grad_above, grad_share = new_tensor(*above.shape), new_tensor(*share.shape)
        read = [readable(x) for x in (above, share, parent, grad)]
        kernels.descend_back(*[*read, grad_above.numpy(), grad_share.numpy()])
        return grad_above, grad_share, None


class _Violation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lower: Tensor, upper: Tensor, must: float, cannot: float) -> Tensor:
        both = torch.mm(lower.t(), upper)
        grads = torch.mm(upper, both.t()), torch.mm(lower, both)
        value = kernels.violation(
            readable(lower),
            readable(upper),
            readable(both),
            must,
            cannot,
            grads[0].numpy(),
            grads[1].numpy(),
        )
        ctx.save_for_backward(*grads)
        return torch.tensor((must + cannot) * value, dtype=torch.float32)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        lower, upper = ctx.saved_tensors
        return grad * lower, grad * upper, None, None


class _Use(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, memberships: Tensor, prior: Tensor, seeds: Tensor | None, tiny: float
    ) -> tuple[Tensor, Tensor]:
        scores = readable(memberships)
        slope = np.empty(scores.shape[1], dtype=np.float32)
        ctx.seeds = frozen(np.empty(0, dtype=np.int64)) if seeds is None else readable(seeds)
        ctx.tiny, ctx.slope = tiny, slope
        balance, seed = kernels.use(scores, readable(prior), ctx.seeds, tiny, slope)
        ctx.save_for_backward(memberships)
        return (
            torch.tensor(balance, dtype=torch.float32),
            torch.tensor(seed, dtype=torch.float32),
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_balance: Tensor, grad_seed: Tensor) -> tuple[Tensor | None, ...]:
        (memberships,) = ctx.saved_tensors
        out = new_tensor(*memberships.shape)
        kernels.use_back(
            readable(memberships),
            ctx.seeds,
            ctx.tiny,
            ctx.slope,
            float(grad_balance),
            float(grad_seed),
            out.numpy(),
        )
        return out, None, None, None


def _called(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    return function.apply(*arguments)  # type: ignore[no-untyped-call]
