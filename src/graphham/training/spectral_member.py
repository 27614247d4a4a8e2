"""An opinion on a node's class from the few directions in which its region differs from others.

With a handful of labels there is no telling which of thousands of features matter. The directions
in which features, averaged over regions of the graph, spread most need no labels at all; what is
left to learn from them is one plane per class.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graphham.graph.neighborhoods import Block
from graphham.kernels import mean_aggregate
from graphham.model.feature_rows import FeatureRows
from graphham.model.inputs import NodeInputs
from graphham.model.losses import class_loss
from graphham.model.spectral import leading_directions
from graphham.sampling.random_stream import Source
from graphham.training.supervision import Truth

_WIDTH = 64  # the most directions any way to fit the planes may keep, see _RANKS
_STEPS = 8  # averages, as far as the far view of the ensemble looks
_SEARCH_STEPS = 200  # a bound for L-BFGS
# Of which validation chooses: directions kept, how far their spreads are made equal (one is
# wholly), and what a label weighs against small weights. Without it the first of each.
_RANKS = (16, 8, 32, 64)
_POWERS = (0.5, 0.0, 1.0)
_TRUST = (1.0, 0.1, 10.0)


def mixed_averages(x: Tensor, block: Block, steps: int) -> Tensor:
    r"""Return the mean of 0 to ``steps`` symmetric averages, :math:`\frac{1}{t+1}\sum_k S^k x`.

    Args:
        x: ``(num_nodes, width)`` one row a node.
        block: The whole graph.
        steps: Most averages t.
    """
    # D^-1/2 A D^-1/2 to the k-th is D^1/2 (D^-1 A)^k D^-1/2: over many steps plain means let the
    # nodes with most links drown the others.
    root = torch.from_numpy(block.strengths).to(x).clamp_min(1e-12).sqrt().unsqueeze(1)
    x = x / root
    total = x
    for _ in range(steps):
        x = mean_aggregate(x, block)
        total = total + x
    return total / (steps + 1) * root


class SpectralMember(nn.Module):
    r"""A linear classifier on the main directions of averaged features.

    With M the mean of zero to eight symmetric averages of the features X and V its leading right
    singular vectors, the logits of a node are

    .. math:: W^\top \frac{M_i V}{\lVert M_i V \rVert} + b.

    Args:
        num_features: Width of the features X.
        num_classes: Number of classes.
        width: Number of directions.
    """

    directions: Tensor
    weight: Tensor
    bias: Tensor

    def __init__(self, num_features: int, num_classes: int, width: int) -> None:
        super().__init__()
        self.register_buffer("directions", torch.zeros(num_features, width))
        self.register_buffer("weight", torch.zeros(width, num_classes))
        self.register_buffer("bias", torch.zeros(num_classes))

    @classmethod
    def learn(
        cls, inputs: NodeInputs, block: Block, truth: Truth, width: int, key: Any
    ) -> SpectralMember:
        """Find the directions in all nodes, and the planes by the training labels.

        Args:
            inputs: Inputs of all nodes.
            block: The whole graph.
            truth: Labels; those for validation choose among a few dozen ways to fit the planes.
            width: Number of classes.
            key: Where the search for directions begins.
        """
        rows = inputs.rows(None)

        def forth(v: Any) -> Any:
            with torch.no_grad():
                return mixed_averages(rows.matmul(torch.from_numpy(v)), block, _STEPS).numpy()

        def back(q: Any) -> Any:
            # Averages need not be symmetric where links have a direction; gradients know.
            v = torch.zeros(inputs.num_features, q.shape[1], requires_grad=True)
            seen = mixed_averages(rows.matmul(v), block, _STEPS)
            return torch.autograd.grad(seen, v, torch.from_numpy(q))[0].numpy()

        shape = (len(rows), inputs.num_features)
        directions = leading_directions(forth, back, shape, _WIDTH, key)
        outline = cls(inputs.num_features, width, directions.shape[1])
        outline.directions = torch.from_numpy(directions)
        outline._fit_planes(outline.seen(rows, block).double(), truth, width)
        return outline

    def seen(self, features: FeatureRows, block: Block) -> Tensor:
        """Return ``(num_nodes, directions)`` unit rows: where each node's region lies."""
        with torch.no_grad():
            x = mixed_averages(features.matmul(self.directions), block, _STEPS)
            return F.normalize(x, dim=1)

    def forward(
        self, features: FeatureRows, block: Block, drop: float, generator: Source | None
    ) -> Tensor:
        """Return ``(num_nodes, num_classes)`` logits; nothing is ever dropped."""
        return self.seen(features, block) @ self.weight + self.bias

    def _fit_planes(self, seen: Tensor, truth: Truth, width: int) -> None:
        """Keep the planes that validate best."""
        centre = seen.mean(0)
        spread, axes = torch.linalg.eigh((seen - centre).T @ (seen - centre))
        spread, axes = spread.flip(0).clamp_min(1e-12), axes.flip(1)
        targets = truth.targets[truth.training]
        best = (-1.0, 0.0)
        ways = product(_POWERS, _RANKS, _TRUST)
        for power, rank, trust in ways:
            turn = axes[:, :rank] * spread[:rank] ** (-power / 2)
            x = (seen - centre) @ turn
            scale = float(x.square().sum(1).mean().sqrt().clamp_min(1e-12))
            weight, bias = _planes(x[truth.training] / scale, targets, width, trust)
            weight = turn @ weight / scale
            bias = bias - centre @ weight
            score = (0.0, 0.0)
            if len(truth.validation):
                score = truth.score((seen[truth.validation] @ weight + bias).float())
            if score > best:
                best = score
                self.weight, self.bias = weight.float(), bias.float()
            if not len(truth.validation):
                break


def _planes(x: Tensor, targets: Tensor, width: int, trust: float) -> tuple[Tensor, Tensor]:
    """Return the ``(columns, width)`` weights and ``(width,)`` offsets of a logistic regression.

    Args:
        x: ``(rows, columns)`` double.
        targets: ``(rows,)`` codes, or ``(rows, width)`` of zeros and ones.
        width: Number of classes.
        trust: What the loss of one row weighs against half the squared weights.
    """
    weight = torch.zeros(x.shape[1], width, dtype=x.dtype, requires_grad=True)
    bias = torch.zeros(width, dtype=x.dtype, requires_grad=True)
    search = torch.optim.LBFGS(
        [weight, bias], max_iter=_SEARCH_STEPS, line_search_fn="strong_wolfe"
    )
    goal = targets.double() if targets.dim() == 2 else targets

    def loss() -> Tensor:
        search.zero_grad()
        total = trust * len(x) * class_loss(x @ weight + bias, goal) + weight.square().sum() / 2
        total.backward()  # type: ignore[no-untyped-call]
        return total

    search.step(loss)  # type: ignore[no-untyped-call]
    return weight.detach(), bias.detach()
