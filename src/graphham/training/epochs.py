"""The loop over epochs that every network is trained by: GraphHAM, the baselines, small members."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from torch import nn

from graphham.training.averaging import BestState, WeightAverage, reading
from graphham.training.last_good import LastGood, RowTable, StrayedError

if TYPE_CHECKING:
    from graphham.training.plan import Plan

_USUAL_RATE = 0.01
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
    (:meth:`score`); averaging the weights, early stopping, keeping the best state, going back with
    smaller steps where training strays and a clean stop on Ctrl-C are here, the same for all.

    Args:
        model: The network; changed in place.
        epochs: Epochs at most.
        average: Share of the old that the running average of the weights keeps; 0 for none.
        evaluate_every: Epochs between two validations.
        patience: Epochs without a better score before stopping.
        listener: Who hears about progress.
    """

    # What moves the network, and rows beside it that steps change; a subclass sets them.
    optimizer: Any = None
    tables: Sequence[RowTable] = ()
    # Whether an epoch is one step, whose loss tells of the state before it.
    is_one_step = False

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
        self._last_good: LastGood | None = None

    def take_epoch(self, epoch: int) -> dict[str, Any]:
        """Take the steps of an epoch (from 0); return its losses by name."""
        raise NotImplementedError

    def rates(self) -> Mapping[str, tuple[float, float]]:
        """Return learning rates by the name of their setting, each with the usual value."""
        return {} if self.optimizer is None else {"lr": (self.last_good.first_rate, _USUAL_RATE)}

    def agree(self, why: str | None) -> str | None:
        """Return what the first process says of an epoch; ``None`` if it is a good one."""
        return why

    def went_back(self, epochs: int) -> None:
        """Hear that the state after so many epochs is in place again."""

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
        epoch = start
        self._start_watching(start)
        try:
            while epoch < self.epochs:
                began = time.perf_counter()
                losses = self._good_epoch(epoch)
                if losses is None:
                    epoch = len(self.history)
                    continue
                record = {"epoch": epoch + 1, **losses}
                self.average.update(self.model, self.updates(epoch))
                record["seconds"] = time.perf_counter() - began
                self.history.append(record)
                self._validate(epoch)
                self.log(record)
                self.listener.on_epoch(epoch + 1, record)
                self.end_epoch(epoch)
                epoch += 1
                self.last_good.keep(epoch)
                if self.best.score is not None and self.is_stale(epoch - 1):
                    break
                if self.is_settled():
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

    @property
    def last_good(self) -> LastGood:
        """The state to go back to; made when it is first asked for, before the first step."""
        if self._last_good is None:
            depth = 2 if self.is_one_step else 1
            self._last_good = LastGood(self.model, self.optimizer, self.tables, self.average, depth)
        return self._last_good

    def _start_watching(self, start: int) -> None:
        self.last_good.remember_losses(record.get("loss") for record in self.history)
        self.last_good.shrink()
        self.last_good.keep(start)

    def _good_epoch(self, epoch: int) -> dict[str, Any] | None:
        """Take the steps of an epoch; go back and return ``None`` if they stray."""
        losses, why = None, None
        try:
            losses = self.take_epoch(epoch)
            self.last_good.check_epoch(losses.get("loss"))
        except StrayedError as error:
            why = str(error)
        why = self.agree(why)
        if why is None:
            assert losses is not None
            self.last_good.remember_losses([losses.get("loss")])
            return losses
        reached, note = self.last_good.go_back(epoch + 1, why, self.rates())
        del self.history[reached:]
        self.went_back(reached)
        self.listener.on_note(note)
        return None

    def is_stale(self, epoch: int) -> bool:
        """Whether nothing has become better for so long that training stops."""
        return self.is_due(epoch) and epoch + 1 - self.best.epoch >= self.patience

    def is_settled(self) -> bool:
        """Whether the loss has stopped falling and training ends by itself."""
        return False

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
