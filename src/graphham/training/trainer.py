"""One training loop: steps, the graft, validation, checkpoints, and a clean stop at any moment."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphham.config.resolved import ResolvedConfig
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
from graphham.sampling.random_stream import make_source
from graphham.training.batches import Batches, Step
from graphham.training.checkpoints import CheckpointStore
from graphham.training.epochs import EpochLoop, Listener, Score, Status
from graphham.training.objective import EncodedStep, loss_parts
from graphham.training.optimizer import Adam
from graphham.training.shared_checkpoints import load_together, save_together, share_seeds
from graphham.training.step import TrainingSteps
from graphham.training.supervision import Truth
from graphham.training.validation import LabelValidator, Validator


class Trainer(EpochLoop):
    """Fits a network to a graph: the epochs' steps, the seeding of groups, checkpoints.

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

    model: GraphHAMNet

    def __init__(
        self,
        model: GraphHAMNet,
        graph: Graph,
        inputs: NodeInputs,
        config: ResolvedConfig,
        tables: Sequence[ContextTable | RowShards],
        truth: Truth | None = None,
        validator: Validator | None = None,
        run: CheckpointStore | None = None,
        listener: Listener | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        train = config.train
        super().__init__(
            model,
            epochs=config.train.epochs,
            average=train.average,
            evaluate_every=train.evaluate_every,
            patience=train.patience,
            listener=listener,
        )
        self.graph, self.inputs, self.config, self.tables = graph, inputs, config, tables
        self.truth, self.validator, self.run_folder, self.ranks = truth, validator, run, ranks
        self.batches = Batches(graph, inputs, config, not tables, ranks)
        self.optimizer = make_optimizer(model, config)
        self.steps = TrainingSteps(
            model, self.optimizer, tables, self.batches, self._loss, config, ranks
        )
        self.seeds: list[Tensor] | None = None
        # ``(num_nodes, num_classes)`` what nodes without a label are asked to agree with.
        self.pseudo_labels: Tensor | None = None
        # ``(num_nodes, num_classes)`` probabilities from elsewhere that those lean on by half.
        self.expected: Tensor | None = None
        self._whole: Batch | None = None
        self._saved = 0.0

    @property
    def graft_epoch(self) -> int | None:
        """The epoch (from 0) that begins with the graft; ``None`` when there is none."""
        if self.config.model.nesting != "graft":
            return None
        return max(1, round(self.config.train.graft_at * self.epochs))

    def fit(self, resume: bool = False) -> Status:
        """Train until done, stopped early, or interrupted; leave the best state in the model."""
        start = self._restore() if resume else 0
        if not resume:
            self._save(0)  # whatever happens, there is a state to go on from
        self._saved = time.monotonic()
        return self.run(start)

    def take_epoch(self, epoch: int) -> dict[str, Any]:
        """Take the steps of an epoch; return the mean loss parts and the groups in use."""
        if epoch == self.graft_epoch:
            self._graft()
        sums: dict[str, float] = {}
        used = [np.zeros(count, dtype=np.int64) for count in self.model.groups]
        count = 0
        for parts, groups in self.steps.epoch(epoch):
            for name, value in parts.items():
                sums[name] = sums.get(name, 0.0) + value
            for level, codes in enumerate(groups):
                used[level] += np.bincount(codes, minlength=len(used[level]))
            count += 1
        used = [np.sum(self.ranks.collect(sizes.tolist()), axis=0) for sizes in used]
        record: dict[str, Any] = {name: value / count for name, value in sums.items()}
        record["loss"] = sum(sums.values()) / count
        for level, sizes in enumerate(used):
            record[f"used_{level + 1}"] = int((sizes >= 0.01 * sizes.sum()).sum())
        return record

    def updates(self, epoch: int) -> int:
        """Return how many epochs the average has seen; it starts anew with the graft."""
        graft = self.graft_epoch
        return epoch - graft if graft is not None and epoch >= graft else epoch

    def is_due(self, epoch: int) -> bool:
        """Whether the network, once it has its groups, is validated after this epoch."""
        graft = self.graft_epoch
        if self.validator is None or (graft is not None and epoch < graft):
            return False
        return super().is_due(epoch)

    def score(self) -> Score:
        """Score the weights now in the model on what was not trained on."""
        score: Score | None = None
        if self.ranks.is_first:
            assert self.validator is not None
            score = self.validator.score(self.model, self.whole())
        first, second = self.ranks.tell(score)
        self._update_pseudo_labels()
        return float(first), float(second)

    def log(self, record: dict[str, Any]) -> None:
        """Add the record of an epoch to the run's log."""
        if self.run_folder is not None:
            self.run_folder.log(record)

    def end_epoch(self, epoch: int) -> None:
        """Write a checkpoint where one is due."""
        late = time.monotonic() - self._saved >= self.config.train.checkpoint_every
        if self.ranks.tell(late):
            self._save(epoch + 1)
            self._saved = time.monotonic()

    def interrupted(self) -> None:
        """Go on to the end, unless other processes are at other places."""
        if self.ranks.count > 1:
            raise KeyboardInterrupt  # the last checkpoint is the same for all

    def finish(self) -> None:
        """Seed the groups if training was stopped before it came to that."""
        if self.graft_epoch is not None and not self.model.is_seeded:
            self._graft()

    def _loss(self, step: Step, epoch: int) -> tuple[dict[str, Tensor], list[Any]]:
        """Return the loss parts of a step, and per level the groups of its members."""
        # Gamma draws need torch's own generator.
        generator = make_source(
            derive_key(step.key, "network"), self.config.device, self.config.model.dirichlet
        )
        output = self.model(step.batch, self.tau(epoch), generator)
        parts = loss_parts(
            EncodedStep(
                self.model,
                self.config.loss,
                step,
                output,
                self.truth,
                self.seeds,
                generator,
                self.pseudo_labels,
            )
        )
        groups = [level[step.members].argmax(1).cpu().numpy() for level in output.evidence]
        return parts, groups

    def tau(self, epoch: int) -> float:
        """Return the assignment temperature of an epoch."""
        model, epochs = self.config.model, max(self.epochs - 1, 1)
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
        if self.ranks.is_first or self.batches.sampler.draws_together:
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
        self.average.state = None
        self.seeds = [torch.from_numpy(codes).to(config.device) for codes in seeds.codes]
        # Momentum gathered for the old group vectors means nothing for the new ones.
        for level in range(len(self.model.groups)):
            self.optimizer.state.pop(self.model.layer(level).group_embedding, None)

    def _update_pseudo_labels(self) -> None:
        """Keep what the network just validated expects of every node, made surer of itself."""
        if not self.config.loss.guess_weight or self.truth is None:
            return
        assert isinstance(self.validator, LabelValidator)
        logits = self.validator.logits
        shared = self.ranks.share_array(None if logits is None else logits.numpy())
        is_multi = self.truth.is_multi
        everywhere = torch.from_numpy(shared)
        probabilities = everywhere.sigmoid() if is_multi else everywhere.softmax(1)
        if self.expected is not None:
            probabilities = (probabilities + self.expected) / 2
        # A soft label would teach nodes to be unsure.
        self.pseudo_labels = sharpened(probabilities, is_multi)

    def _save(self, epoch: int) -> None:
        """Write a checkpoint from which training goes on exactly as if never stopped."""
        if self.run_folder is None and self.ranks.count == 1:
            return
        arrays: dict[str, Any] = {f"model.{k}": v for k, v in self.model.state_dict().items()}
        for prefix, state in (("best", self.best.state), ("average", self.average.state)):
            arrays |= {f"{prefix}.{k}": v for k, v in (state or {}).items()}
        for index, values in self.optimizer.state_dict()["state"].items():
            arrays |= {f"adam.{index}.{k}": torch.as_tensor(v) for k, v in values.items()}
        pieces = [table for table in self.tables if isinstance(table, RowShards)]
        for level, table in enumerate(t for t in self.tables if isinstance(t, ContextTable)):
            arrays[f"table.{level}.weight"] = table.weight
            arrays[f"table.{level}.squares"] = table.squares
        for level, codes in enumerate(self.seeds or []):
            arrays[f"seeds.{level}"] = codes
        if self.pseudo_labels is not None:
            arrays["guess"] = self.pseudo_labels
        meta = {
            "epoch": epoch,
            "best_score": self.best.score,
            "best_epoch": self.best.epoch,
            "history": self.history,
        }
        save_together(self.run_folder, self.ranks, arrays, meta, pieces)

    def _restore(self) -> int:
        """Take up the last checkpoint; return the epoch to go on with."""
        pieces = [table for table in self.tables if isinstance(table, RowShards)]
        checkpoint = load_together(self.run_folder, self.ranks, pieces)
        if checkpoint is None:
            if self.run_folder is not None:
                self.run_folder.truncate_log(0)
            return 0
        arrays = {name: torch.as_tensor(value) for name, value in checkpoint[0].items()}
        meta = checkpoint[1]
        self.model.load_state_dict(_under(arrays, "model."))
        self.best.state = _under(arrays, "best.") or None
        self.average.state = _under(arrays, "average.") or None
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in _under(arrays, "adam.").items():
            index, field = name.split(".", 1)
            state.setdefault(int(index), {})[field] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})
        for level, table in enumerate(t for t in self.tables if isinstance(t, ContextTable)):
            table.weight.copy_(arrays[f"table.{level}.weight"])
            table.squares.copy_(arrays[f"table.{level}.squares"])
        self.pseudo_labels = arrays.get("guess")
        if "seeds.0" in arrays:
            self.seeds = [arrays[f"seeds.{level}"] for level in range(len(self.model.groups))]
        score = meta["best_score"]
        self.best.score = None if score is None else (score[0], score[1])
        self.best.epoch = meta["best_epoch"]
        self.history = list(meta["history"])
        epoch = int(meta["epoch"])
        if self.run_folder is not None:
            self.run_folder.truncate_log(epoch)
        return epoch


def make_optimizer(model: GraphHAMNet, config: ResolvedConfig) -> Adam:
    """Return Adam with weight decay on transformations and classifier only (never on groups)."""
    decayed: list[Tensor] = []
    free: list[Tensor] = []
    for name, parameter in model.named_parameters():
        heavy = name.endswith((".weight", ".shortcut")) and "decoders" not in name
        (decayed if heavy else free).append(parameter)
    return Adam(
        [
            {"params": decayed, "weight_decay": config.train.weight_decay},
            {"params": free, "weight_decay": 0.0},
        ],
        lr=config.train.lr,
    )


def _under(arrays: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k[len(prefix) :]: v for k, v in arrays.items() if k.startswith(prefix)}
