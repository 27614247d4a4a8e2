"""One training loop: steps, the graft, validation, checkpoints, and a clean stop at any moment."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from graphham.config.settings import RunConfig
from graphham.graph.graph import Graph
from graphham.model.context import ContextTable
from graphham.model.group_seeding import Seeds, find_seeds
from graphham.model.inputs import NodeInputs
from graphham.model.losses import sharpened
from graphham.model.network import Batch, GraphHAMNet
from graphham.parallel.ranks import ALONE, Ranks
from graphham.parallel.row_shards import RowShards
from graphham.readout.layerwise import LayerWise
from graphham.readout.whole_graph import full_batch, level_states
from graphham.sampling.keys import derive_key
from graphham.sampling.random_stream import Source, make_source
from graphham.training.batches import Batches, Step
from graphham.training.checkpoints import CheckpointStore
from graphham.training.objective import loss_parts, total_loss
from graphham.training.optimizer import Adam
from graphham.training.sharded_step import ShardedSteps
from graphham.training.shared_checkpoints import load_together, save_together, share_seeds
from graphham.training.supervision import Truth
from graphham.training.validation import LabelValidator, Validator

if TYPE_CHECKING:
    from graphham.training.resolve import Plan


Status = Literal["complete", "interrupted"]


class Listener(Protocol):
    """Whoever wants to know how training goes, such as a progress bar."""

    def on_plan(self, plan: Plan) -> None:
        """Hear what is about to be done."""

    def on_start(self, total_epochs: int, start_epoch: int) -> None:
        """Hear that training begins, or goes on, at ``start_epoch``."""

    def on_epoch(self, epoch: int, record: dict[str, Any]) -> None:
        """Hear the losses of a finished epoch (from 1)."""

    def on_note(self, text: str) -> None:
        """Hear something a person should know."""

    def on_end(self, status: str) -> None:
        """Hear that training is over."""


class Silent:
    """A listener that says nothing."""

    def on_plan(self, plan: Plan) -> None:
        """Ignore the plan."""

    def on_start(self, total_epochs: int, start_epoch: int) -> None:
        """Ignore the start."""

    def on_epoch(self, epoch: int, record: dict[str, Any]) -> None:
        """Ignore the epoch."""

    def on_note(self, text: str) -> None:
        """Ignore the note."""

    def on_end(self, status: str) -> None:
        """Ignore the end."""


class Trainer:
    """Fits a network to a graph.

    Args:
        model: The network; changed in place.
        graph: Training graph.
        inputs: Inputs of its nodes.
        config: Resolved settings.
        tables: Free context vectors, updated in place; empty when contexts are inductive.
        truth: Labels for joint classification.
        validator: Scores the network for early stopping; ``None`` trains all epochs.
        run: Where metrics and checkpoints go.
        listener: Who hears about progress.
        ranks: The processes that train together; only the first has a run and a listener.
    """

    def __init__(
        self,
        model: GraphHAMNet,
        graph: Graph,
        inputs: NodeInputs,
        config: RunConfig,
        tables: list[ContextTable] | list[RowShards],
        truth: Truth | None = None,
        validator: Validator | None = None,
        run: CheckpointStore | None = None,
        listener: Listener | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        self.model, self.graph, self.inputs, self.config = model, graph, inputs, config
        self.tables: list[ContextTable] | list[RowShards] = tables
        self.truth, self.validator, self.run = truth, validator, run
        self.listener: Listener = listener or Silent()
        self.batches = Batches(graph, inputs, config, not tables, ranks)
        self.optimizer = make_optimizer(model, config)
        self.seeds: list[Tensor] | None = None
        self.guess: Tensor | None = None
        # ``(num_nodes, num_classes)`` probabilities from elsewhere that guesses lean on by half.
        self.expected: Tensor | None = None
        self.average: dict[str, Tensor] | None = None
        self.best: dict[str, Tensor] | None = None
        self.best_score: tuple[float, float] | None = None
        self.best_epoch = 0
        self.history: list[dict[str, Any]] = []
        self._whole: Batch | None = None
        self.ranks = ranks
        sharded = config.train.shards > 1 or ranks.count > 1
        self.sharded = ShardedSteps(self, ranks) if sharded else None

    @property
    def graft_epoch(self) -> int | None:
        """The epoch (from 0) that begins with the graft; ``None`` when there is none."""
        if self.config.model.nesting != "graft":
            return None
        return max(1, round(self.config.train.graft_at * self.config.num_epochs))

    def fit(self, resume: bool = False) -> Status:
        """Train until done, stopped early, or interrupted; leave the best state in the model."""
        start = self._restore() if resume else 0
        epochs = self.config.num_epochs
        self.listener.on_start(epochs, start)
        status: Status = "complete"
        if not resume:
            self._save(0)  # whatever happens, there is a state to go on from
        saved = time.monotonic()
        try:
            for epoch in range(start, epochs):
                self._epoch(epoch)
                stop = self._validate(epoch)
                self._report(epoch)
                late = time.monotonic() - saved >= self.config.train.checkpoint_every
                if self.ranks.tell(late):
                    self._save(epoch + 1)
                    saved = time.monotonic()
                if stop:
                    break
        except KeyboardInterrupt:
            if self.ranks.count > 1:
                raise  # the processes are at different places; the last checkpoint is not
            status = "interrupted"
            self.listener.on_note("stopped on request; finishing with the best state so far")
        if self.graft_epoch is not None and not self.model.is_seeded:
            self._graft()
            self.average = None
        kept = self.best or self.average
        if kept is not None:
            self.model.load_state_dict(kept)
        self.listener.on_end(status)
        return status

    def _epoch(self, epoch: int) -> None:
        began = time.perf_counter()
        if epoch == self.graft_epoch:
            self._graft()
        sums: dict[str, float] = {}
        used = [np.zeros(count, dtype=np.int64) for count in self.model.groups]
        count = 0
        for parts, groups in self._steps(epoch):
            for name, value in parts.items():
                sums[name] = sums.get(name, 0.0) + value
            for level, codes in enumerate(groups):
                used[level] += np.bincount(codes, minlength=len(used[level]))
            count += 1
        used = [np.sum(self.ranks.collect(sizes.tolist()), axis=0) for sizes in used]
        record: dict[str, Any] = {"epoch": epoch + 1}
        record |= {name: value / count for name, value in sums.items()}
        record["loss"] = sum(sums.values()) / count
        for level, sizes in enumerate(used):
            record[f"used_{level + 1}"] = int((sizes >= 0.01 * sizes.sum()).sum())
        self._update_average(epoch)
        record["seconds"] = time.perf_counter() - began
        self.history.append(record)

    def _update_average(self, epoch: int) -> None:
        """Move the running average of the weights; it starts anew with the graft.

        At first it is the plain mean of the epochs since then, so that a few long epochs are not
        all spent on forgetting the first one.
        """
        if not self.config.train.average:
            return
        graft = self.graft_epoch
        count = epoch - graft if graft is not None and epoch >= graft else epoch
        keep = min(self.config.train.average, count / (count + 1))
        state = self.model.state_dict()
        if self.average is None or not count:
            self.average = {name: value.clone() for name, value in state.items()}
            return
        for name, value in state.items():
            held = self.average[name]
            if value.is_floating_point():
                held.lerp_(value, 1 - keep)
            else:
                held.copy_(value)

    def _steps(self, epoch: int) -> Iterator[tuple[dict[str, float], list[Any]]]:
        """Take the steps of one epoch; yield the loss parts and the groups seen in each."""
        if self.sharded is not None:
            for pieces in self.sharded.epoch(epoch):
                yield self.sharded.step(pieces, epoch)
            return
        for step in self.batches.epoch(epoch):
            yield self._step(step, epoch)

    def _step(self, step: Step, epoch: int) -> tuple[dict[str, float], list[Any]]:
        self.model.train()
        step = step.to(self.config.device)
        generator = self.source(step)
        tau = self.tau(epoch)
        output = self.model(step.batch, tau, generator)
        parts = loss_parts(self.model, step, output, self.truth, self.seeds, generator, self.guess)
        self.optimizer.zero_grad(set_to_none=True)
        total_loss(parts).backward()  # type: ignore[no-untyped-call]
        self.optimizer.clip(self.config.train.clip)
        self.optimizer.step()
        for table in self.tables:
            table.step(self.config.train.table_lr)
        groups = [level[step.members].argmax(1).cpu().numpy() for level in output.evidence]
        return {name: float(value.detach()) for name, value in parts.items()}, groups

    def source(self, step: Step) -> Source:
        """Return the stream of a step's noise and dropout."""
        # Gamma draws need torch's own generator.
        config = self.config
        return make_source(derive_key(step.key, "network"), config.device, config.model.dirichlet)

    def tau(self, epoch: int) -> float:
        """Return the assignment temperature of an epoch."""
        model, epochs = self.config.model, max(self.config.num_epochs - 1, 1)
        return float(model.tau * (model.tau_end / model.tau) ** (epoch / epochs))

    def whole(self) -> Batch:
        """Return the batch of all nodes with all neighbours, built once."""
        if self._whole is None:
            self._whole = full_batch(self.model, self.inputs, self.graph)
        return self._whole

    def _graft(self) -> None:
        """Seed groups, tree and link tables from the states learned so far."""
        config = self.config
        if self.batches.is_full:
            states = level_states(self.model, self.whole())
        else:
            states = LayerWise(self.model, self.inputs, self.graph, self.ranks).level_states()
        seeds: Seeds | None = None
        # Nobody has all links of a split graph: every process adds up those it has.
        if self.ranks.is_first or self.graph.part is not None:
            seeds = find_seeds(
                states,
                self.graph,
                self.model.groups,
                derive_key(config.seed, "graft"),
                config.model.affinity_scale,
                config.model.neighbor_evidence,
                self.ranks,
            )
        del states
        seeds = share_seeds(seeds, self.ranks, len(self.model.groups))
        self.model.graft(seeds)
        # An average over the old groups means nothing; an interrupt must not bring it back.
        self.average = None
        self.seeds = [torch.from_numpy(codes).to(config.device) for codes in seeds.codes]
        # Momentum gathered for the old group vectors means nothing for the new ones.
        for level in range(len(self.model.groups)):
            self.optimizer.state.pop(self.model.layer(level).group_embedding, None)

    def _validate(self, epoch: int) -> bool:
        """Score the network where due, keep the best state; say whether to stop early."""
        if self.validator is None:
            return False
        train = self.config.train
        graft = self.graft_epoch
        if graft is not None and epoch < graft:
            return False
        last = epoch + 1 == self.config.num_epochs
        if (epoch + 1) % train.evaluate_every and not last:
            return False
        kept = self.model.state_dict() if self.average is None else self.average
        said = None
        if self.ranks.is_first:
            with _weights(self.model, kept):
                said = self.validator.score(self.model, self.whole())
        first, second = self.ranks.tell(said)
        score = (float(first), float(second))
        self._take_guess()
        self.history[-1]["validation"] = score[0]
        if self.best_score is None or score > self.best_score:
            self.best_score, self.best_epoch = score, epoch + 1
            self.best = {name: value.clone() for name, value in kept.items()}
        return epoch + 1 - self.best_epoch >= train.patience

    def _take_guess(self) -> None:
        """Keep what the network just validated expects of every node, made surer of itself."""
        if not self.config.loss.guess_weight or self.truth is None:
            return
        assert isinstance(self.validator, LabelValidator)
        logits = self.validator.logits
        held = self.ranks.share_array(None if logits is None else logits.numpy())
        is_multi = self.truth.is_multi
        said = torch.from_numpy(held)
        chances = said.sigmoid() if is_multi else said.softmax(1)
        if self.expected is not None:
            chances = (chances + self.expected) / 2
        self.guess = sharpened(chances, is_multi)  # a soft guess would teach nodes to be unsure

    def _report(self, epoch: int) -> None:
        record = self.history[-1]
        if self.run is not None:
            self.run.log(record)
        self.listener.on_epoch(epoch + 1, record)

    def _save(self, epoch: int) -> None:
        """Write a checkpoint from which training goes on exactly as if never stopped."""
        if self.run is None and self.ranks.count == 1:
            return
        arrays: dict[str, Any] = {f"model.{k}": v for k, v in self.model.state_dict().items()}
        if self.best is not None:
            arrays |= {f"best.{k}": v for k, v in self.best.items()}
        if self.average is not None:
            arrays |= {f"average.{k}": v for k, v in self.average.items()}
        for index, values in self.optimizer.state_dict()["state"].items():
            arrays |= {f"adam.{index}.{k}": torch.as_tensor(v) for k, v in values.items()}
        pieces = [table for table in self.tables if isinstance(table, RowShards)]
        for level, table in enumerate(t for t in self.tables if isinstance(t, ContextTable)):
            arrays[f"table.{level}.weight"] = table.weight
            arrays[f"table.{level}.squares"] = table.squares
        for level, codes in enumerate(self.seeds or []):
            arrays[f"seeds.{level}"] = codes
        if self.guess is not None:
            arrays["guess"] = self.guess
        meta = {
            "epoch": epoch,
            "best_score": self.best_score,
            "best_epoch": self.best_epoch,
            "history": self.history,
        }
        save_together(self.run, self.ranks, arrays, meta, pieces)

    def _restore(self) -> int:
        """Take up the last checkpoint; return the epoch to go on with."""
        pieces = [table for table in self.tables if isinstance(table, RowShards)]
        held = load_together(self.run, self.ranks, pieces)
        if held is None:
            if self.run is not None:
                self.run.truncate_log(0)
            return 0
        arrays = {name: torch.as_tensor(value) for name, value in held[0].items()}
        meta = held[1]
        self.model.load_state_dict(_under(arrays, "model."))
        self.best = _under(arrays, "best.") or None
        self.average = _under(arrays, "average.") or None
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in _under(arrays, "adam.").items():
            index, field = name.split(".", 1)
            state.setdefault(int(index), {})[field] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})
        for level, table in enumerate(t for t in self.tables if isinstance(t, ContextTable)):
            table.weight.copy_(arrays[f"table.{level}.weight"])
            table.squares.copy_(arrays[f"table.{level}.squares"])
        self.guess = arrays.get("guess")
        if "seeds.0" in arrays:
            self.seeds = [arrays[f"seeds.{level}"] for level in range(len(self.model.groups))]
        score = meta["best_score"]
        self.best_score = None if score is None else (score[0], score[1])
        self.best_epoch = meta["best_epoch"]
        self.history = list(meta["history"])
        epoch = int(meta["epoch"])
        if self.run is not None:
            self.run.truncate_log(epoch)
        return epoch


def make_optimizer(model: GraphHAMNet, config: RunConfig) -> Adam:
    """Return Adam with weight decay on transformations and classifier only (never on groups)."""
    decayed: list[Tensor] = []
    free: list[Tensor] = []
    for name, parameter in model.named_parameters():
        heavy = name.endswith((".weight", ".shortcut")) and "decoders" not in name
        (decayed if heavy else free).append(parameter)
    return Adam(
        [
            {"params": decayed, "weight_decay": config.train.weight_decay or 0.0},
            {"params": free, "weight_decay": 0.0},
        ],
        lr=config.train.lr or 0.01,
    )


@contextmanager
def _weights(model: GraphHAMNet, state: dict[str, Tensor]) -> Iterator[None]:
    """Let a model read other weights for a while; nothing is copied."""
    own = dict(itertools.chain(model.named_parameters(), model.named_buffers()))
    before = {name: tensor.data for name, tensor in own.items()}
    for name, tensor in own.items():
        tensor.data = state[name].data
    try:
        yield
    finally:
        for name, tensor in own.items():
            tensor.data = before[name]


def _under(arrays: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k[len(prefix) :]: v for k, v in arrays.items() if k.startswith(prefix)}
