"""A training step cut into a fixed number of shards, computed by however many processes there are.

A batch of targets is cut into ``train.shards`` parts. Each part is sampled, run forward and run
backward by itself, with draws keyed by (seed, epoch, step, shard); then the gradients of all shards
are added up in the order of shards on every process. The number of shards is part of the model's
settings, like the size of the batch. The number of processes is not: it changes no bit.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from graphham.errors import InputError
from graphham.parallel.ranks import Gathering, Ranks
from graphham.parallel.row_shards import RowShards
from graphham.sampling.keys import derive_key, numpy_generator
from graphham.training.batches import Step
from graphham.training.objective import loss_parts, total_loss

if TYPE_CHECKING:
    from graphham.training.trainer import Trainer

# Room for the loss parts of a shard; a process whose shards are empty cannot know their number.
PARTS = 32
# Steps that may wait to be taken; each holds the features of its neighbourhoods.
_STEPS_AHEAD = 2


@dataclass(frozen=True, eq=False)
class Piece:
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
        make: Draws this process's pieces of a step.
        count: Number of steps.
    """

    def __init__(self, make: Callable[[int], list[Piece]], count: int) -> None:
        self._make, self._count, self._drawn = make, count, 0
        self._held: deque[list[Piece]] = deque()

    def draw(self) -> bool:
        """Draw one more step, unless enough wait already or there is none; say which."""
        if self._drawn == self._count or len(self._held) >= _STEPS_AHEAD:
            return False
        self._held.append(self._make(self._drawn))
        self._drawn += 1
        return True

    def __iter__(self) -> Iterator[list[Piece]]:
        while self._held or self.draw():
            yield self._held.popleft()


class ShardedSteps:
    """Makes and takes the sharded steps of a trainer.

    Args:
        trainer: Whose model, optimiser and tables are used.
        ranks: The processes that share the shards.
    """

    def __init__(self, trainer: Trainer, ranks: Ranks) -> None:
        self.trainer, self.ranks = trainer, ranks
        self.count = trainer.config.train.shards
        check_shards(self.count, ranks)
        # Contiguous, so that the order of ranks is the order of shards.
        cuts = [self.count * r // ranks.count for r in range(ranks.count + 1)]
        self.sizes = [high - low for low, high in itertools.pairwise(cuts)]
        self.own = range(cuts[ranks.rank], cuts[ranks.rank + 1])
        model = trainer.model
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self._all_written: Gathering | None = None
        self._ahead: _Ahead | None = None
        # Running means move in the forward pass; every shard starts from the same ones.
        self.running = [b for name, b in model.named_buffers() if name.startswith("center_")]

    def epoch(self, epoch: int) -> Iterator[list[Piece]]:
        """Yield this process's pieces of each step; worker threads prepare them ahead."""
        trainer = self.trainer
        seed, size = trainer.config.seed, trainer.config.train.batch_size
        nodes = trainer.graph.num_nodes
        order = numpy_generator(derive_key(seed, "order", epoch)).permutation(nodes)
        starts = trainer.batches.starts()

        def make(index: int) -> list[Piece]:
            targets = order[starts[index] : starts[index] + size]
            parts = np.array_split(targets, self.count)
            key = derive_key(seed, "step", epoch, index)
            pieces: list[Piece] = []
            for shard in self.own:
                part = parts[shard]
                step = None
                if len(part) or is_split:
                    step = trainer.batches.sampled_step(part, derive_key(key, "shard", shard))
                pieces.append(Piece(len(part) / len(targets), step if len(part) else None))
            if is_split and len(self.own) < max(self.sizes):
                # Others have a shard more to draw, and questions about nodes that are here.
                trainer.batches.sampled_step(order[:0], key)
            return pieces

        is_split = trainer.batches.split is not None
        workers = trainer.config.train.workers
        if is_split:
            yield from map(make, range(len(starts)))  # all draw at once, so nobody draws ahead
            return
        if not workers:
            self._ahead = _Ahead(make, len(starts))
            try:
                yield from self._ahead
            finally:
                self._ahead = None  # and with it the order of the epoch
            return
        with ThreadPoolExecutor(workers) as pool:
            waiting: deque[Future[list[Piece]]] = deque()
            for index in range(len(starts)):
                waiting.append(pool.submit(make, index))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def step(self, pieces: list[Piece], epoch: int) -> tuple[dict[str, float], list[Any]]:
        """Take one step together; return its loss parts and the own shards' groups per level."""
        trainer = self.trainer
        model, config = trainer.model, trainer.config
        model.train()
        tables = [table for table in trainer.tables if isinstance(table, RowShards)]
        moved = [None if p.step is None else p.step.to(config.device) for p in pieces]
        present = [step for step in moved if step is not None]
        for level, table in enumerate(tables):
            table.fetch([t for s in present for t in (s.positives[level], s.negatives[level])])
        shared = any(table.is_shared for table in tables)
        if shared:
            # Nobody reads before everybody has written, to begin with its starting values.
            self._await(self._all_written or self.ranks.gathering(torch.zeros(1)))
        before = [buffer.clone() for buffer in self.running]
        groups: list[list[Any]] = [[] for _ in model.groups]
        names: list[str] = []
        rows: list[Tensor] = []
        for piece, step in zip(pieces, moved, strict=True):
            for buffer, value in zip(self.running, before, strict=True):
                buffer.copy_(value)
            if step is None:
                rows.append(torch.empty(0))
                continue
            generator = trainer.source(step)
            output = model(step.batch, trainer.tau(epoch), generator)
            parts = loss_parts(
                model, step, output, trainer.truth, trainer.seeds, generator, trainer.guess
            )
            trainer.optimizer.zero_grad(set_to_none=True)
            (piece.share * total_loss(parts)).backward()  # type: ignore[no-untyped-call]
            for table in tables:
                table.end_shard()
            for level, held in enumerate(output.evidence):
                groups[level].append(held[step.members].argmax(1).cpu().numpy())
            names = list(parts)
            rows.append(self._packed(piece, list(parts.values())))
        for table in tables:
            table.send()
        total, values = self._summed(rows)  # whoever has all sums knows that all have sent
        self._apply(total)
        for table in tables:
            table.step(config.train.table_lr)
        if shared:
            self._all_written = self.ranks.gathering(torch.zeros(1))
        used = [np.concatenate(level) if level else np.zeros(0, np.int64) for level in groups]
        # A process whose shards are all empty has no names; the first process always has.
        return dict(zip(names, values, strict=False)), used

    def _await(self, coming: Gathering) -> list[Tensor]:
        """Return what all have said; whoever is early draws steps to come in the meantime.

        Processes are never equally fast in one step, but nearly so in many.
        """
        while not coming.is_done() and self._ahead is not None and self._ahead.draw():
            pass
        return coming.result()

    def _packed(self, piece: Piece, parts: list[Tensor]) -> Tensor:
        """Return the shard's gradients, running means and loss parts as one row of numbers."""
        flat = [
            torch.zeros_like(p).reshape(-1) if p.grad is None else p.grad.reshape(-1)
            for p in self.parameters
        ]
        flat += [piece.share * buffer.reshape(-1) for buffer in self.running]
        flat += [piece.share * torch.stack([part.detach() for part in parts])]
        return torch.cat(flat)

    def _summed(self, rows: list[Tensor]) -> tuple[Tensor, list[float]]:
        """Add up all shards' rows in the order of shards, whoever made them."""
        fixed = sum(p.numel() for p in self.parameters) + sum(b.numel() for b in self.running)
        width = fixed + PARTS
        held = torch.zeros(max(self.sizes), width, device=self.trainer.config.device)
        for place, row in enumerate(rows):
            held[place, : len(row)] = row
        total = torch.zeros(width, device=held.device)
        for part, size in zip(self._await(self.ranks.gathering(held)), self.sizes, strict=True):
            for place in range(size):
                total += part[place]
        return total, total[fixed:].tolist()

    def _apply(self, total: Tensor) -> None:
        """Put the sums where they belong and let the optimiser take its step."""
        place = 0
        for parameter in self.parameters:
            grad = total[place : place + parameter.numel()]
            parameter.grad = grad.view_as(parameter).clone()
            place += parameter.numel()
        for buffer in self.running:
            buffer.copy_(total[place : place + buffer.numel()].view_as(buffer))
            place += buffer.numel()
        self.trainer.optimizer.clip(self.trainer.config.train.clip)
        self.trainer.optimizer.step()
