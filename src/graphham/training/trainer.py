"""One training loop: steps, validation, checkpoints, and a clean stop at any moment."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphham.config.resolved import ResolvedConfig
from graphham.graph.graph import Graph
from graphham.model.context import ContextTable
from graphham.model.inputs import NodeInputs
from graphham.model.losses import sharpened
from graphham.model.network import Batch, GraphHAMNet
from graphham.parallel.ranks import ALONE, Ranks
from graphham.parallel.row_shards import RowShards
from graphham.readout.whole_graph import full_batch
from graphham.sampling.keys import derive_key
from graphham.sampling.random_stream import make_source
from graphham.training.batches import Batches, Step
from graphham.training.checkpoints import CheckpointStore
from graphham.training.epochs import EpochLoop, Listener, Score, Status
from graphham.training.last_good import moments_of, under
from graphham.training.objective import EncodedStep, loss_parts
from graphham.training.optimizer import Adam
from graphham.training.shared_checkpoints import load_together, save_together
from graphham.training.step import TrainingSteps
from graphham.training.supervision import Truth
from graphham.training.teacher import with_shares
from graphham.training.validation import LabelValidator, Validator


class Trainer(EpochLoop):
    """Fits a network to a graph: the epochs' steps, validation, checkpoints.

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
        self.is_one_step = train.batch == "full"
        self.batches = Batches(graph, inputs, config, not tables, ranks)
        self.optimizer = make_optimizer(model, config)
        self.steps = TrainingSteps(
            model, self.optimizer, tables, self.batches, self._loss, config, ranks
        )
        # ``(num_nodes, num_classes)`` what the groups say of the classes, and what teaches now.
        self.groups_say: Tensor | None = None
        self.teacher: Tensor | None = None
        self._whole: Batch | None = None
        self._saved = 0.0

    def fit(self, resume: bool = False) -> Status:
        """Train until done, stopped early, or interrupted; leave the best state in the model."""
        start = self._restore() if resume else 0
        if not resume:
            self._save(0)  # whatever happens, there is a state to go on from
        self._saved = time.monotonic()
        return self.run(start)

    def take_epoch(self, epoch: int) -> dict[str, Any]:
        """Take the steps of an epoch; return the mean loss parts and the groups in use."""
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

    def is_due(self, epoch: int) -> bool:
        """Whether the network is validated after this epoch."""
        return self.validator is not None and super().is_due(epoch)

    def is_settled(self) -> bool:
        """Whether an eighth of the epochs no longer lowers the loss of an unsupervised fit.

        Walks and negatives are drawn anew in every step, so the loss of an epoch is an estimate of
        the objective on pairs that were not trained on.
        """
        settle, span = self.config.train.settle, max(2, self.epochs // 8)
        is_judged = self.validator is not None or self.truth is not None
        if not settle or is_judged or len(self.history) < 2 * span:
            return False
        losses = [float(record["loss"]) for record in self.history[-2 * span :]]
        before, now = float(np.mean(losses[:span])), float(np.mean(losses[span:]))
        return bool(self.ranks.tell(before - now < settle * abs(before)))

    def score(self) -> Score:
        """Score the weights now in the model on what was not trained on."""
        score: Score | None = None
        if self.ranks.is_first:
            assert self.validator is not None
            score = self.validator.score(self.model, self.whole())
        first, second = self.ranks.tell(score)
        self._update_teacher()
        return float(first), float(second)

    def learn_from(self, groups_say: Tensor) -> None:
        """Teach nodes without a label by what their groups say of the classes.

        Args:
            groups_say: ``(num_nodes, num_classes)`` probabilities.
        """
        self.groups_say = self.teacher = groups_say

    def _update_teacher(self) -> None:
        """Let the teacher hear the network just validated: the mean of both, made surer.

        What is made surer leans to frequent classes, and a network taught by it would lean further:
        the shares of the classes always stay those that the groups give them.
        """
        if self.groups_say is None or self.truth is None:
            return
        logits = self.validator.logits if isinstance(self.validator, LabelValidator) else None
        shared = torch.from_numpy(
            self.ranks.share_array(None if logits is None else logits.numpy())
        )
        is_multi = self.truth.is_multi
        said = shared.sigmoid() if is_multi else shared.softmax(1)
        # A soft label would teach nodes to be unsure.
        surer = sharpened((said + self.groups_say) / 2, is_multi)
        self.teacher = surer if is_multi else with_shares(surer, self.groups_say.mean(0))

    def rates(self) -> Mapping[str, tuple[float, float]]:
        """Return the learning rates as the settings call them."""
        train = self.config.train
        return {"train.lr": (train.lr, 0.01), "train.table_lr": (train.table_lr, 0.1)}

    def agree(self, why: str | None) -> str | None:
        """Let the first process decide, which always has seen losses."""
        answer: str | None = self.ranks.tell(why)
        return answer

    def went_back(self, epochs: int) -> None:
        """Shrink the steps of the tables too, and forget the epochs that are taken again."""
        self.steps.start_anew(self.last_good.factor)
        if self.run_folder is not None:
            self.run_folder.truncate_log(epochs)

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
                generator,
                self.teacher,
            )
        )
        groups = [level[step.members].argmax(1).cpu().numpy() for level in output.memberships]
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
        if self.teacher is not None:
            arrays["teacher"] = self.teacher
        if self.is_one_step:  # else the checkpoint itself is the state to go back to
            arrays |= {f"former.{k}": v for k, v in self.last_good.newest.items()}
        meta = {
            "epoch": epoch,
            "best_score": self.best.score,
            "best_epoch": self.best.epoch,
            "history": self.history,
            "rollbacks": self.last_good.rollbacks,
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
        self.model.load_state_dict(under(arrays, "model."))
        self.best.state = under(arrays, "best.") or None
        self.average.state = under(arrays, "average.") or None
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": moments_of(arrays), "param_groups": groups})
        for level, table in enumerate(t for t in self.tables if isinstance(t, ContextTable)):
            table.weight.copy_(arrays[f"table.{level}.weight"])
            table.squares.copy_(arrays[f"table.{level}.squares"])
        self.teacher = arrays.get("teacher", self.teacher)
        score = meta["best_score"]
        self.best.score = None if score is None else (score[0], score[1])
        self.best.epoch = meta["best_epoch"]
        self.history = list(meta["history"])
        self.last_good.rollbacks = list(meta.get("rollbacks", []))
        self.last_good.shrink()
        self.steps.start_anew(self.last_good.factor)
        epoch = int(meta["epoch"])
        if former := under(arrays, "former."):
            self.last_good.keep(epoch - 1, former)
        if self.run_folder is not None:
            self.run_folder.truncate_log(epoch)
        return epoch


def make_optimizer(model: GraphHAMNet, config: ResolvedConfig) -> Adam:
    """Return Adam with weight decay on transformations and classifier only (never on groups)."""
    decayed: list[Tensor] = []
    free: list[Tensor] = []
    for name, parameter in model.named_parameters():
        heavy = name.endswith((".weight", ".shortcut", "class_odds")) and "decoders" not in name
        (decayed if heavy else free).append(parameter)
    return Adam(
        [
            {"params": decayed, "weight_decay": config.train.weight_decay},
            {"params": free, "weight_decay": 0.0},
        ],
        lr=config.train.lr,
    )
