"""Context tables cut into row ranges, one per process, with one ordered update per step.

Processes of one machine hold the table in shared memory: a step reads the rows of all, and every
process writes its own. Between machines a step first fetches the rows its shards will look up. The
gradients then go to the owners. An owner adds them up in the order of shards, so that the table
does not depend on how many processes there are. Adagrad keeps one number per row.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from graphham.kernels.skipgram_loss import PairGradient, RowPairs, left_for_table, pair_loss
from graphham.parallel.ranks import Ranks
from graphham.parallel.shared_memory import Outboxes, shared_tensor
from graphham.sampling.keys import derive_key, torch_generator
from graphham.system.tensors import empty_table

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
        size, own = num_nodes * per_node, (self.last - self.first) * per_node
        # All rows, where this process can read them by itself; else it fetches those it needs.
        self.whole: Tensor | None = None
        if ranks.count == 1:
            self.whole = empty_table(size, width, device)
        elif ranks.one_host:
            self.whole = shared_tensor(ranks, size, width)
        if self.whole is None:
            self.weight = torch.empty(own, width, device=device)
        else:
            start = self.first * per_node
            self.weight = self.whole[start : start + own]
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
        self.is_shared = ranks.count > 1 and self.whole is not None
        self._outboxes = Outboxes(ranks, width) if self.is_shared else None
        self._nodes = torch.empty(0, dtype=torch.long)
        self._vectors = self.weight[:0]
        self._looked_up: list[tuple[Tensor, Tensor] | PairGradient] = []
        self._pairs: list[RowPairs] = []
        self._sent: list[RowPairs] | None = None

    def fetch(self, nodes: Sequence[Tensor]) -> None:
        """Get the rows of all nodes that the coming look-ups may ask for, wherever they are.

        Of a shared table nothing is fetched: nobody may read before all have made their last step.
        """
        if self.whole is not None:
            return
        found = torch.cat([part.reshape(-1) for part in nodes]) if nodes else self._nodes[:0]
        self._nodes = torch.unique(found[found >= 0])
        asked = self.ranks.exchange(self._by_owner(self._nodes))
        local = [self.weight[self._expanded(part - self.first)] for part in asked]
        self._vectors = self.ranks.swap(local)

    def look_up(self, rows: Tensor) -> Tensor:
        """Return ``(len(rows), width)`` fetched vectors that collect a gradient."""
        unique, place = torch.unique(rows, return_inverse=True)
        values, at = self._readable(unique)
        leaf = values[at].requires_grad_(torch.is_grad_enabled())
        if torch.is_grad_enabled():
            self._looked_up.append((unique, leaf))
        return leaf[place]

    def pair_loss(self, target: Tensor, gate: Tensor | None, rows: Tensor, sign: float) -> Tensor:
        """Return the skip-gram loss of targets with fetched rows, which collect a gradient.

        See :func:`graphham.kernels.skipgram_loss.pair_loss`; same numbers as by :meth:`look_up`.
        """
        values, at = self._readable(rows)
        loss, gradient = pair_loss(target, gate, values, at, sign)
        if gradient is not None:
            self._looked_up.append(gradient)
        return loss

    def end_shard(self) -> None:
        """Keep the gradients of one shard's look-ups, in the order in which they were made."""
        for one in self._looked_up:
            pairs = left_for_table(one)
            if pairs is None:
                continue
            if isinstance(one, PairGradient):
                # Pairs name places among the vectors at hand, look-ups rows of the table.
                pairs = replace(pairs, rows=self._table_rows(pairs.rows))
            self._pairs.append(pairs)
        self._looked_up.clear()

    def send(self) -> None:
        """Sort the shards' gradients by the owner of their row; lay them out, where shared.

        Of a shared table, nobody may make the step before all have sent.
        """
        none = torch.empty(0, dtype=torch.long, device=self.weight.device)
        pairs = RowPairs.joined([RowPairs.plain(none, self.weight[:0]), *self._pairs])
        self._pairs.clear()
        self._sent = pairs.by_owner([bound * self.per_node for bound in self.bounds])
        if self._outboxes is not None:
            self._outboxes.lay_out(self._sent)

    def step(self, lr: float) -> None:
        """Update the own rows from the gradients that all processes have sent."""
        assert self._sent is not None
        pairs = None if self._outboxes is None else self._outboxes.pick_up(self._sent)
        if pairs is None:
            pairs = self._swapped(self._sent)
        self._sent = None
        moved = replace(pairs, rows=pairs.rows - self.first * self.per_node)
        moved.update(self.weight, self.squares, lr)

    def _swapped(self, sent: list[RowPairs]) -> RowPairs:
        """Exchange gradients with the other processes; return the own, in the order of shards."""
        if self.ranks.count == 1:
            return sent[0]
        packed = self.ranks.exchange([pairs.packed() for pairs in sent])
        targets = self.ranks.exchange([pairs.targets for pairs in sent])
        return RowPairs.joined(list(map(RowPairs.unpacked, packed, targets)))

    def _readable(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return vectors at hand and where the rows of the table are among them; -1 stays."""
        if self.whole is not None:
            return self.whole, rows
        at = torch.searchsorted(self._nodes, rows.div(self.per_node, rounding_mode="floor"))
        return self._vectors, torch.where(
            rows >= 0, at * self.per_node + rows % self.per_node, rows
        )

    def _table_rows(self, places: Tensor) -> Tensor:
        """Return the table's rows at these places among the vectors at hand; -1 stays."""
        if self.whole is not None:
            return places
        node = places.clamp_min(0).div(self.per_node, rounding_mode="floor")
        rows = self._nodes[node] * self.per_node + places % self.per_node
        return torch.where(places >= 0, rows, places)

    def _by_owner(self, nodes: Tensor) -> list[Tensor]:
        """Cut sorted nodes into the parts of each owner."""
        cuts = torch.searchsorted(nodes, torch.tensor(self.bounds, device=nodes.device)).tolist()
        return [nodes[a:b] for a, b in itertools.pairwise(cuts)]

    def _expanded(self, nodes: Tensor) -> Tensor:
        columns = torch.arange(self.per_node, device=nodes.device)
        return (nodes[:, None] * self.per_node + columns).reshape(-1)
