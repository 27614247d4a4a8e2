"""The loop over epochs that every network is trained by: GraphHAM, the baselines, small members."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal, Protocol

from torch import nn

from graphham.training.averaging import BestState, WeightAverage, reading

if TYPE_CHECKING:
    from graphham.training.plan import Plan

Status = Literal["complete", "interrupted"]
Score = tuple[float, float]


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


class EpochLoop:
    """Train a network for some epochs and leave its best state in it.

    A subclass takes the steps of an epoch (:meth:`take_epoch`) and may score the network
    (:meth:`score`); averaging the weights, early stopping, keeping the best state and a clean stop
    on Ctrl-C are here, the same for all.

    Args:
        model: The network; changed in place.
        epochs: Epochs at most.
        average: Share of the old that the running average of the weights keeps; 0 for none.
        evaluate_every: Epochs between two validations.
        patience: Epochs without a better score before stopping.
        listener: Who hears about progress.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        epochs: int,
        average: float = 0.0,
        evaluate_every: int = 2,
        patience: int = 100,
        listener: Listener | None = None,
    ) -> None:
        self.model, self.epochs = model, epochs
        self.evaluate_every, self.patience = evaluate_every, patience
        self.listener: Listener = listener or Silent()
        self.average = WeightAverage(average)
        self.best = BestState()
        self.history: list[dict[str, Any]] = []

    def take_epoch(self, epoch: int) -> dict[str, Any]:
        """Take the steps of an epoch (from 0); return its losses by name."""
        raise NotImplementedError

    def score(self) -> Score | None:
        """Return the score of the weights now in the model and a tie-breaker; ``None`` for none."""
        return None

    def is_due(self, epoch: int) -> bool:
        """Whether the network is validated after this epoch (from 0)."""
        return (epoch + 1) % self.evaluate_every == 0 or epoch + 1 == self.epochs

    def updates(self, epoch: int) -> int:
        """Return how many epochs the average has seen before this one."""
        return epoch

    def log(self, record: dict[str, Any]) -> None:
        """Write down the record of an epoch, before anybody hears of it."""

    def end_epoch(self, epoch: int) -> None:
        """Do what is left at the end of an epoch, such as saving a checkpoint."""

    def finish(self) -> None:
        """Do what must happen before the best state is taken up."""

    @property
    def best_epoch(self) -> int:
        """The epoch (from 1) whose weights the network is left with."""
        return self.best.epoch or len(self.history)

    @property
    def best_validation(self) -> float | None:
        """The best validation score; ``None`` where nothing was validated."""
        return None if self.best.score is None else self.best.score[0]

    def run(self, start: int = 0) -> Status:
        """Train until done, stopped early, or interrupted; leave the best state in the model."""
        self.listener.on_start(self.epochs, start)
        status: Status = "complete"
        try:
            for epoch in range(start, self.epochs):
                began = time.perf_counter()
                record = {"epoch": epoch + 1, **self.take_epoch(epoch)}
                self.average.update(self.model, self.updates(epoch))
                record["seconds"] = time.perf_counter() - began
                self.history.append(record)
                self._validate(epoch)
                self.log(record)
                self.listener.on_epoch(epoch + 1, record)
                self.end_epoch(epoch)
                if self.best.score is not None and self.is_stale(epoch):
                    break
        except KeyboardInterrupt:
            self.interrupted()
            status = "interrupted"
            self.listener.on_note("stopped on request; finishing with the best state so far")
        self.finish()
        kept = self.best.state or self.average.state
        if kept is not None:
            self.model.load_state_dict(kept)
        self.listener.on_end(status)
        return status

    def is_stale(self, epoch: int) -> bool:
        """Whether nothing has become better for so long that training stops."""
        return self.is_due(epoch) and epoch + 1 - self.best.epoch >= self.patience

    def interrupted(self) -> None:
        """Hear of Ctrl-C; raise where training cannot end here."""

    def _validate(self, epoch: int) -> None:
        """Score the network where due and keep the best state."""
        if not self.is_due(epoch):
            return
        weights = self.average.weights(self.model)
        with reading(self.model, weights):
            score = self.score()
        if score is None:
            return
        self.history[-1]["validation"] = score[0]
        self.best.offer(score, epoch + 1, weights)
