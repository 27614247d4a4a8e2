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
from graphham.ops.pairs import PairGradient, pair_loss, update_rows
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
        self._vectors = self.ranks.swap(local)

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
        """Keep the gradients of one shard's look-ups, in the order in which they were made."""
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
        self._gradients += held

    def step(self, lr: float) -> None:
        """Send the shards' gradients to the owners of their rows and update the own rows."""
        # The rows of every part ascend, so what an owner gets of it is one piece.
        bounds = torch.tensor(self.bounds, device=self.weight.device) * self.per_node
        cuts = [torch.searchsorted(rows, bounds).tolist() for rows, _ in self._gradients]
        none = torch.empty(0, dtype=torch.long, device=self.weight.device)
        rows, grads = [], []
        for owner in range(self.ranks.count):
            pieces = [slice(cut[owner], cut[owner + 1]) for cut in cuts]
            parts = list(zip(self._gradients, pieces, strict=True))
            rows.append(torch.cat([none, *(part[0][piece] for part, piece in parts)]))
            grads.append(torch.cat([self.weight[:0], *(part[1][piece] for part, piece in parts)]))
        self._gradients.clear()
        got = self.ranks.swap(rows) - self.first * self.per_node
        update_rows(self.weight, self.squares, got, self.ranks.swap(grads), lr)

    def _by_owner(self, nodes: Tensor) -> list[Tensor]:
        """Cut sorted nodes into the parts of each owner."""
        cuts = torch.searchsorted(nodes, torch.tensor(self.bounds, device=nodes.device)).tolist()
        return [nodes[a:b] for a, b in itertools.pairwise(cuts)]

    def _expanded(self, nodes: Tensor) -> Tensor:
        columns = torch.arange(self.per_node, device=nodes.device)
        return (nodes[:, None] * self.per_node + columns).reshape(-1)
