"""The context decoder: which nodes a target should predict, in the light of its own group.

A context vector Q_{j,k} depends on the context node j and the *target's* group k (E10). Inductive
vectors are the context node's own state times a vector per group; tables give every node a free
vector (factored) or one per group (full), updated row by row in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graphham import kernels
from graphham.model.losses import contrastive_loss, skipgram_loss

# Of the contrastive loss: cosines lie within one, and dividing by this lets the best pairs stand
# out. Set by trial, the runs are not kept.
TEMPERATURE = 0.2
_CHUNK = 1 << 22  # largest number of vector entries gathered at once for the full table


class ContextTable:
    """Free vectors of the context nodes, with row-wise Adagrad in place.

    Only the rows a step looked up are read and written, so the cost of a step does not grow with
    the graph, and the optimiser keeps one number per row.

    Args:
        weight: ``(num_nodes, width)`` vectors; changed in place.
        squares: ``(num_nodes,)`` sum of mean squared gradients per row; changed in place.
    """

    def __init__(self, weight: Tensor, squares: Tensor | None = None) -> None:
        self.weight = weight
        self.squares = weight.new_zeros(len(weight)) if squares is None else squares
        self._looked_up: list[tuple[Tensor, Tensor] | kernels.PairGradient] = []

    @classmethod
    def start(cls, rows: int, width: int, generator: torch.Generator) -> ContextTable:
        """Return a table of small random vectors."""
        weight = kernels.empty_table(rows, width, generator.device)
        return cls(weight.normal_(generator=generator).mul_(width**-0.5))

    def look_up(self, rows: Tensor) -> Tensor:
        """Return ``(len(rows), width)`` vectors that collect a gradient."""
        unique, place = torch.unique(rows, return_inverse=True)
        leaf = self.weight[unique].requires_grad_(torch.is_grad_enabled())
        if torch.is_grad_enabled():
            self._looked_up.append((unique, leaf))
        return leaf[place]

    def pair_loss(self, target: Tensor, gate: Tensor | None, rows: Tensor, sign: float) -> Tensor:
        """Return the skip-gram loss of targets with rows, which collect a gradient.

        See :func:`graphham.kernels.skipgram_loss.pair_loss`; same numbers as by :meth:`look_up`.
        """
        loss, gradient = kernels.pair_loss(target, gate, self.weight, rows, sign)
        if gradient is not None:
            self._looked_up.append(gradient)
        return loss

    # A table of one process has nothing to do for these; see parallel.row_shards.
    is_shared = False

    def fetch(self, nodes: Sequence[Tensor]) -> None:
        """Have the rows of these nodes at hand: all are."""

    def end_shard(self) -> None:
        """Keep the gradients of one shard apart: there is only one."""

    def send(self) -> None:
        """Tell the owners of rows about gradients: all rows are here."""

    def step(self, lr: float) -> None:
        """Update the rows looked up since the last step."""
        for one in self._looked_up:
            pairs = kernels.left_for_table(one)
            if pairs is not None:
                pairs.update(self.weight, self.squares, lr)
        self._looked_up.clear()


class ContextDecoder(nn.Module):
    """Scores and losses of one layer's contexts.

    Args:
        groups: Number of groups K of the layer.
        dim: Width of the layer's output.
        table: Free context vectors, or ``None`` for the inductive form.
        full: Whether the table holds a vector per node *and* group.
        group_context: Whether contexts depend on the target's group; without is minus-Q.
        mix: A relaxed z mixes context vectors, or the groups' losses (A15).
        straight_through: Whether only the assigned group's vector is looked up.
        contrast_size: Pairs that are each other's negatives in the contrastive loss.
    """

    def __init__(
        self,
        groups: int,
        dim: int,
        table: ContextTable | None = None,
        full: bool = False,
        *,
        group_context: bool = True,
        mix: Literal["vector", "loss"] = "vector",
        straight_through: bool = False,
        contrast_size: int = 64,
    ) -> None:
        super().__init__()
        self.groups, self.dim, self.table, self.full = groups, dim, table, full
        self.by_group, self.straight_through = group_context, straight_through
        self.mixes_losses = group_context and mix == "loss"
        self.contrast_size = contrast_size
        needs_vectors = group_context and not full
        self.group_context = nn.Parameter(torch.zeros(groups, dim)) if needs_vectors else None

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the group vectors anew; they start near zero, where every group decodes alike."""
        if self.group_context is not None:
            nn.init.normal_(self.group_context, std=0.1, generator=generator)

    def contrast(self, states: Tensor, z: Tensor, anchors: Tensor, positives: Tensor) -> Tensor:
        """Return the contrastive loss of anchor positions against positive positions."""
        left, right = kernels.take_rows(states, anchors, positives)
        if self.group_context is not None:
            left = self._modulated(left, kernels.take_rows(z, anchors)[0])
        return contrastive_loss(left, right, TEMPERATURE, self.contrast_size)

    def skipgram(
        self, states: Tensor, z: Tensor, anchors: Tensor, positives: Tensor, negatives: Tensor
    ) -> Tensor:
        """Return the skip-gram loss (E11) of every anchor with each of its contexts.

        Args:
            states: ``(nodes, dim)`` states h of the encoded nodes.
            z: ``(nodes, groups)`` their assignments.
            anchors: ``(count,)`` positions of the targets in ``states``.
            positives: ``(count, contexts)`` context nodes, -1 for none: graph rows for a table,
                positions in ``states`` for the inductive form.
            negatives: The same for sampled non-neighbours.
        """
        if self.mixes_losses:
            return self._mixed_losses(states, z, anchors, positives, negatives)
        if self._is_pairwise(states):
            return self._pair_losses(states[anchors], z[anchors], positives, negatives)
        scores = [
            self.scores(states, z, *_pairs(anchors, nodes)) for nodes in (positives, negatives)
        ]
        return skipgram_loss(scores[0], scores[1])

    def _is_pairwise(self, states: Tensor) -> bool:
        """Whether one row of a table belongs to each pair, and the compiled loops serve it."""
        if self.table is None or (self.full and self.by_group and not self.straight_through):
            return False
        return not kernels.runs_reference(states, self.table.weight)

    def _pair_losses(
        self, states: Tensor, z: Tensor, positives: Tensor, negatives: Tensor
    ) -> Tensor:
        """Return the skip-gram loss from the anchors' own states and assignments."""
        assert self.table is not None
        gate: Tensor | None = None
        if self.full and self.by_group:
            group = z.argmax(1, keepdim=True)
            chosen = z.gather(1, group)[:, 0]
            gate = 1 + chosen - chosen.detach()
            positives, negatives = (
                torch.where(nodes >= 0, nodes * self.groups + group, nodes)
                for nodes in (positives, negatives)
            )
        else:
            states = self._modulated(states, z)
        first = self.table.pair_loss(states, gate, positives, 1.0)
        return first + self.table.pair_loss(states, gate, negatives, -1.0)

    def scores(self, states: Tensor, z: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """Return ``(pairs,)`` context scores s_ij (E10).

        Args:
            states: ``(nodes, dim)`` states.
            z: ``(nodes, groups)`` assignments.
            left: ``(pairs,)`` positions of the targets.
            right: ``(pairs,)`` context nodes, as in :meth:`skipgram`.
        """
        if self.full and self.by_group:
            return self._full_scores(states, z, left, right)
        target = self._modulated(states, z)[left]
        return (target * self._vectors(states, right)).sum(1)

    def _modulated(self, states: Tensor, z: Tensor) -> Tensor:
        """Move the group's factor to the target's side: h . (c * r) = (h * r) . c."""
        if self.group_context is None:
            return states
        return states * (1 + z @ self.group_context)

    def _vectors(self, states: Tensor, nodes: Tensor) -> Tensor:
        return states[nodes] if self.table is None else self.table.look_up(nodes)

    def _full_scores(self, states: Tensor, z: Tensor, left: Tensor, right: Tensor) -> Tensor:
        if self.straight_through:
            # One look-up per pair. z_k / z_k is one forward, and passes the score's gradient to
            # the chosen group's entry backward.
            group = z.argmax(1)[left]
            assert self.table is not None
            vectors = self.table.look_up(right * self.groups + group)
            chosen = z[left, group]
            gate = 1 + chosen - chosen.detach()
            return (states[left] * vectors).sum(1) * gate
        return (z[left] * self._scores_by_group(states, left, right)).sum(1)

    def _scores_by_group(self, states: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """Return ``(pairs, groups)``: the score each group would give the pair."""
        if not self.full:
            product = states[left] * self._vectors(states, right)
            factors = 1 + self.group_context if self.group_context is not None else None
            assert factors is not None
            return product @ factors.T
        assert self.table is not None
        step = max(1, _CHUNK // (self.groups * self.dim))
        columns = torch.arange(self.groups, device=right.device)
        parts: list[Tensor] = []
        for start in range(0, len(right), step):
            rows = (right[start : start + step, None] * self.groups + columns).reshape(-1)
            vectors = self.table.look_up(rows).view(-1, self.groups, self.dim)
            parts.append(torch.einsum("pd,pkd->pk", states[left[start : start + step]], vectors))
        return torch.cat(parts) if parts else states.new_zeros(0, self.groups)

    def _mixed_losses(
        self, states: Tensor, z: Tensor, anchors: Tensor, positives: Tensor, negatives: Tensor
    ) -> Tensor:
        """Mix the groups' losses by z instead of their vectors (A15)."""
        total = states.new_zeros(())
        for nodes, sign in ((positives, 1.0), (negatives, -1.0)):
            left, right = _pairs(anchors, nodes)
            if not len(left):
                continue
            losses = -F.logsigmoid(sign * self._scores_by_group(states, left, right))
            total = total + (z[left] * losses).sum(1).mean()
        return total


def _pairs(anchors: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """Flatten ``(count, contexts)`` nodes into pairs, leaving out the missing ones."""
    left: Any = anchors[:, None].expand_as(nodes)
    valid = nodes >= 0
    return left[valid], nodes[valid]
