"""A training step: the shards of a batch, computed by however many processes there are.

A sampled batch of targets is cut into ``train.shards`` parts; a step that is not cut is one shard.
Each part is sampled, run forward and run backward by itself, with draws keyed by (seed, epoch,
step, shard); then the gradients of all shards are added up in the order of shards on every process.
The number of shards is part of the model's settings, like the size of the batch. The number of
processes is not: it changes no bit.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphham.config.resolved import ResolvedConfig
from graphham.errors import InputError
from graphham.model.context import ContextTable
from graphham.model.network import GraphHAMNet
from graphham.parallel.ranks import Gathering, Ranks
from graphham.parallel.row_shards import RowShards
from graphham.sampling.keys import derive_key, numpy_generator
from graphham.training.batches import Batches, Step, drawn_ahead
from graphham.training.last_good import check_step
from graphham.training.objective import total_loss
from graphham.training.optimizer import MAX_GRADIENT_NORM, Adam

# Loss parts of a step in an epoch, and per level the groups of the nodes it drew.
StepLoss = Callable[[Step, int], tuple[dict[str, Tensor], list[Any]]]
# Room for the loss parts of a shard; a process whose shards are empty cannot know their number.
PARTS = 32
# Steps that may wait to be taken; each holds the features of its neighbourhoods.
_STEPS_AHEAD = 2


@dataclass(frozen=True, eq=False)
class Shard:
    """One shard of one step.

    Args:
        share: Its share of the step's targets, which weighs its loss.
        step: What it looks at; ``None`` for a shard without targets.
    """

    share: float
    step: Step | None


def check_shards(count: int, ranks: Ranks) -> None:
    """Refuse more processes than there are shards of a batch."""
    if count < ranks.count:
        raise InputError(
            f"{ranks.count} processes cannot share {count} shards of a batch; start at "
            f"most {count}, or begin a new run with --set train.shards={ranks.count}"
        )


class _Ahead:
    """The steps of an epoch in their order, drawn when they are due or in idle moments before.

    Args:
        make: Draws this process's shards of a step.
        count: Number of steps.
    """

    def __init__(self, make: Callable[[int], list[Shard]], count: int) -> None:
        self._make, self._count, self._drawn = make, count, 0
        self._waiting: deque[list[Shard]] = deque()

    def draw(self) -> bool:
        """Draw one more step, unless enough wait already or there is none; say which."""
        if self._drawn == self._count or len(self._waiting) >= _STEPS_AHEAD:
            return False
        self._waiting.append(self._make(self._drawn))
        self._drawn += 1
        return True

    def __iter__(self) -> Iterator[list[Shard]]:
        while self._waiting or self.draw():
            yield self._waiting.popleft()


class TrainingSteps:
    """Makes the steps of every epoch and takes them.

    Args:
        model: The network; changed in place.
        optimizer: Moves its parameters.
        tables: Free context vectors, updated in place; empty when contexts are inductive.
        batches: Draws the steps.
        loss: Returns the loss parts of a step in an epoch, and per level the groups of its members.
        config: Resolved settings.
        ranks: The processes that share the shards.
    """

    def __init__(
        self,
        model: GraphHAMNet,
        optimizer: Adam,
        tables: Sequence[ContextTable | RowShards],
        batches: Batches,
        loss: StepLoss,
        config: ResolvedConfig,
        ranks: Ranks,
    ) -> None:
        self.model, self.optimizer, self.tables = model, optimizer, tables
        self.batches, self.loss, self.config, self.ranks = batches, loss, config, ranks
        self.count = config.train.shards
        check_shards(self.count, ranks)
        # Contiguous, so that the order of ranks is the order of shards.
        cuts = [self.count * r // ranks.count for r in range(ranks.count + 1)]
        self.sizes = [high - low for low, high in itertools.pairwise(cuts)]
        self.own = range(cuts[ranks.rank], cuts[ranks.rank + 1])
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.factor = 1.0
        self._all_written: Gathering | None = None
        self._ahead: _Ahead | None = None

    def epoch(self, epoch: int) -> Iterator[tuple[dict[str, float], list[Any]]]:
        """Take the steps of one epoch; yield each one's loss parts and the groups seen in it."""
        for shards in self._drawn(epoch):
            yield self._take(shards, epoch)

    def _drawn(self, epoch: int) -> Iterator[list[Shard]]:
        """Yield this process's shards of each step; worker threads prepare them ahead."""
        if self.count == 1:
            for step in self.batches.epoch(epoch):
                yield [Shard(1.0, step)]
            return
        train, seed = self.config.train, self.config.seed
        nodes = self.batches.graph.num_nodes
        order = numpy_generator(derive_key(seed, "order", epoch)).permutation(nodes)
        starts = self.batches.starts()
        together = self.batches.sampler.draws_together

        def make(index: int) -> list[Shard]:
            targets = order[starts[index] : starts[index] + train.batch_size]
            parts = np.array_split(targets, self.count)
            key = derive_key(seed, "step", epoch, index)
            shards: list[Shard] = []
            for shard in self.own:
                part = parts[shard]
                step = None
                if len(part) or together:
                    step = self.batches.sampled_step(part, derive_key(key, "shard", shard))
                shards.append(Shard(len(part) / len(targets), step if len(part) else None))
            if together and len(self.own) < max(self.sizes):
                # Others have a shard more to draw, and questions about nodes that are here.
                self.batches.sampled_step(order[:0], key)
            return shards

        if together:
            yield from map(make, range(len(starts)))  # all draw at once, so nobody draws ahead
        elif train.workers:
            yield from drawn_ahead(make, range(len(starts)), train.workers)
        else:
            self._ahead = _Ahead(make, len(starts))
            try:
                yield from self._ahead
            finally:
                self._ahead = None  # and with it the order of the epoch

    def _take(self, shards: list[Shard], epoch: int) -> tuple[dict[str, float], list[Any]]:
        """Take one step together; return its loss parts and the own shards' groups per level."""
        self.model.train()
        moved = [None if s.step is None else s.step.to(self.config.device) for s in shards]
        self._fetch([step for step in moved if step is not None])
        groups: list[list[Any]] = [[] for _ in self.model.groups]
        names: list[str] = []
        rows: list[Tensor] = []
        values: list[float] = []
        for shard, step in zip(shards, moved, strict=True):
            if step is None:
                rows.append(torch.empty(0))
                continue
            parts, codes = self.loss(step, epoch)
            self.optimizer.zero_grad(set_to_none=True)
            total = shard.share * total_loss(parts)
            if total.requires_grad:  # not where every part is switched off
                total.backward()  # type: ignore[no-untyped-call]
            for table in self.tables:
                table.end_shard()
            for level, seen in enumerate(codes):
                groups[level].append(seen)
            names = list(parts)
            if self.count > 1:
                rows.append(self._packed(shard, list(parts.values())))
            else:
                values = [float(value.detach()) for value in parts.values()]
        for table in self.tables:
            table.send()
        if self.count > 1:
            total, values = self._summed(rows)  # whoever has all sums knows that all have sent
            self._put(total)
        norm = self._move()
        # Not before the move, in which processes wait for each other.
        check_step(values, norm)
        used = [np.concatenate(level) if level else np.zeros(0, np.int64) for level in groups]
        # A process whose shards are all empty has no names; the first process always has.
        return dict(zip(names, values, strict=False)), used

    @property
    def _is_shared(self) -> bool:
        """Whether processes write into tables that others read."""
        return any(table.is_shared for table in self.tables)

    def _fetch(self, steps: list[Step]) -> None:
        """Have the rows of the tables at hand that the steps will look up."""
        for level, table in enumerate(self.tables):
            # Without context losses a step has no nodes to look up.
            pairs = [drawn for s in steps for drawn in (s.positives, s.negatives) if drawn]
            table.fetch([nodes[level] for nodes in pairs])
        if self._is_shared:
            # Nobody reads before everybody has written, to begin with its starting values.
            self._await(self._all_written or self.ranks.gathering(torch.zeros(1)))

    def _move(self) -> float:
        """Move parameters and tables by their gradients; return how long those were."""
        norm = self.optimizer.clip(MAX_GRADIENT_NORM)
        self.optimizer.step()
        for table in self.tables:
            table.step(self.config.train.table_lr * self.factor)
        if self._is_shared:
            self._all_written = self.ranks.gathering(torch.zeros(1))
        return norm

    def start_anew(self, factor: float) -> None:
        """Go on from a restored state, with steps of the tables multiplied by ``factor``."""
        self.factor = factor
        if self._all_written is not None:
            self._all_written.result()
            self._all_written = None  # all have written anew; the next step waits for that

    def _await(self, coming: Gathering) -> list[Tensor]:
        """Return what all have sent; whoever is early draws steps to come in the meantime.

        Processes are never equally fast in one step, but nearly so in many.
        """
        while not coming.is_done() and self._ahead is not None and self._ahead.draw():
            pass
        return coming.result()

    def _packed(self, shard: Shard, parts: list[Tensor]) -> Tensor:
        """Return the shard's gradients and loss parts as one row of numbers."""
        flat = [
            torch.zeros_like(p).reshape(-1) if p.grad is None else p.grad.reshape(-1)
            for p in self.parameters
        ]
        flat += [shard.share * torch.stack([part.detach() for part in parts])]
        return torch.cat(flat)

    def _summed(self, rows: list[Tensor]) -> tuple[Tensor, list[float]]:
        """Add up all shards' rows in the order of shards, whoever made them."""
        fixed = sum(p.numel() for p in self.parameters)
        width = fixed + PARTS
        own = torch.zeros(max(self.sizes), width, device=self.config.device)
        for place, row in enumerate(rows):
            own[place, : len(row)] = row
        total = torch.zeros(width, device=own.device)
        for part, size in zip(self._await(self.ranks.gathering(own)), self.sizes, strict=True):
            for place in range(size):
                total += part[place]
        return total, total[fixed:].tolist()

    def _put(self, total: Tensor) -> None:
        """Put the summed gradients where they belong."""
        place = 0
        for parameter in self.parameters:
            grad = total[place : place + parameter.numel()]
            parameter.grad = grad.view_as(parameter).clone()
            place += parameter.numel()
