"""Context tables cut into row ranges, one per process, with one ordered update per step.

A step first fetches the rows its shards will look up, then looks them up locally, then sends the
gradients to the owners. An owner adds them up in the order of shards, so that the table does not
depend on how many processes there are. Adagrad keeps one number per row.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphham.keys import derive_key, torch_generator
from graphham.ops.pairs import PairGradient, pair_loss
from graphham.parallel.ranks import Ranks

# Rows are drawn in blocks by key, so that a process draws its own range and nothing else.
_BLOCK = 4096


class RowShards:
    """This process's rows of a context table; stands in for a :class:`ContextTable`.

    Args:
        num_nodes: Nodes of the graph.
        per_node: Rows per node: 1 for factored tables, the number of groups for full ones.
        width: Width of a row.
        key: Decides the starting values.
        ranks: The processes that share the table.
        device: Where the rows are.
    """

    def __init__(
        self, num_nodes: int, per_node: int, width: int, key: Any, ranks: Ranks, device: str
    ) -> None:
        self.num_nodes, self.per_node, self.width, self.ranks = num_nodes, per_node, width, ranks
        self.bounds = ranks.bounds(num_nodes, 1)
        self.first, self.last = self.bounds[ranks.rank], self.bounds[ranks.rank + 1]
        self.weight = torch.empty((self.last - self.first) * per_node, width, device=device)
        for block in range(self.first // _BLOCK, -(-self.last // _BLOCK)):
            generator = torch_generator(derive_key(key, block), device)
            shape = (_BLOCK * per_node, width)
            drawn = torch.randn(shape, generator=generator, device=device) * width**-0.5
            low, high = max(self.first, block * _BLOCK), min(self.last, (block + 1) * _BLOCK)
            start = (low - block * _BLOCK) * per_node
            place = (low - self.first) * per_node
            count = (high - low) * per_node
            self.weight[place : place + count] = drawn[start : start + count]
        self.squares = self.weight.new_zeros(len(self.weight))
        self._nodes = torch.empty(0, dtype=torch.long)
        self._vectors = self.weight[:0]
        self._looked_up: list[tuple[Tensor, Tensor] | PairGradient] = []
        self._gradients: list[tuple[Tensor, Tensor]] = []

    def fetch(self, nodes: Sequence[Tensor]) -> None:
        """Get the rows of all nodes that the coming look-ups may ask for, wherever they are."""
        found = torch.cat([part.reshape(-1) for part in nodes]) if nodes else self._nodes[:0]
        self._nodes = torch.unique(found[found >= 0])
        asked = self.ranks.exchange(self._by_owner(self._nodes))
        local = [self.weight[self._expanded(part - self.first)] for part in asked]
        self._vectors = torch.cat(self.ranks.exchange(local))

    def look_up(self, rows: Tensor) -> Tensor:
        """Return ``(len(rows), width)`` fetched vectors that collect a gradient."""
        unique, place = torch.unique(rows, return_inverse=True)
        at = torch.searchsorted(self._nodes, unique // self.per_node)
        vectors = self._vectors[at * self.per_node + unique % self.per_node]
        leaf = vectors.requires_grad_(torch.is_grad_enabled())
        if torch.is_grad_enabled():
            self._looked_up.append((unique, leaf))
        return leaf[place]

    def pair_loss(self, target: Tensor, gate: Tensor | None, rows: Tensor, sign: float) -> Tensor:
        """Return the skip-gram loss of targets with fetched rows, which collect a gradient.

        See :func:`graphham.ops.pairs.pair_loss`; the same numbers as by :meth:`look_up`.
        """
        at = torch.searchsorted(self._nodes, rows.div(self.per_node, rounding_mode="floor"))
        place = torch.where(rows >= 0, at * self.per_node + rows % self.per_node, rows)
        loss, gradient = pair_loss(target, gate, self._vectors, place, sign)
        if gradient is not None:
            self._looked_up.append(gradient)
        return loss

    def end_shard(self) -> None:
        """Add up the gradients of one shard's look-ups, in the order in which they were made."""
        held: list[tuple[Tensor, Tensor]] = []
        for one in self._looked_up:
            if isinstance(one, PairGradient):
                found = one.summed()
                if found is not None:
                    node = self._nodes[found[0] // self.per_node]
                    held.append((node * self.per_node + found[0] % self.per_node, found[1]))
            elif one[1].grad is not None:
                held.append((one[0], one[1].grad))
        self._looked_up.clear()
        if held:
            rows = torch.cat([rows for rows, _ in held])
            self._gradients.append(_summed(rows, torch.cat([grad for _, grad in held])))

    def step(self, lr: float) -> None:
        """Send the shards' gradients to the owners of their rows and update the own rows."""
        rows = [torch.empty(0, dtype=torch.long, device=self.weight.device)]
        grads = [self.weight[:0]]
        rows += [part for part, _ in self._gradients]
        grads += [grad for _, grad in self._gradients]
        self._gradients.clear()
        all_rows, all_grads = torch.cat(rows), torch.cat(grads)
        # Stable: within an owner's part the order of shards stays.
        owner = self._owner(all_rows // self.per_node)
        order = torch.sort(owner, stable=True).indices
        counts = torch.bincount(owner, minlength=self.ranks.count).tolist()
        sent_rows = torch.split(all_rows[order], counts)
        sent_grads = torch.split(all_grads[order], counts)
        got_rows = torch.cat(self.ranks.exchange(sent_rows))
        got_grads = torch.cat(self.ranks.exchange(sent_grads))
        if not len(got_rows):
            return
        unique, grad = _summed(got_rows, got_grads)
        own = unique - self.first * self.per_node
        self.squares[own] += grad.square().mean(1)
        scale = lr / (self.squares[own].sqrt() + 1e-8)
        self.weight[own] -= scale[:, None] * grad

    def _owner(self, nodes: Tensor) -> Tensor:
        bounds = torch.tensor(self.bounds[1:], device=nodes.device)
        return torch.searchsorted(bounds, nodes, right=True)

    def _by_owner(self, nodes: Tensor) -> list[Tensor]:
        """Cut sorted nodes into the parts of each owner."""
        cuts = torch.searchsorted(nodes, torch.tensor(self.bounds, device=nodes.device)).tolist()
        return [nodes[a:b] for a, b in itertools.pairwise(cuts)]

    def _expanded(self, nodes: Tensor) -> Tensor:
        columns = torch.arange(self.per_node, device=nodes.device)
        return (nodes[:, None] * self.per_node + columns).reshape(-1)


def _summed(rows: Tensor, grads: Tensor) -> tuple[Tensor, Tensor]:
    """Return distinct rows and the sum of their gradients, added in the given order."""
    unique, place = torch.unique(rows, return_inverse=True)
    total = grads.new_zeros(len(unique), grads.shape[1])
    return unique, total.index_add_(0, place, grads)
