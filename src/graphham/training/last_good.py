"""Notice that training strays, and go back to the last good state with smaller steps.

A loss or a gradient that is not finite, a loss far above all before it and weights that leap away
mean that the steps were too large. The state at the end of the last good epoch is kept; from there
the epoch is taken again, with the same draws, by steps of a tenth. What is kept is what a step
changes: weights, running means of the optimiser, rows of context tables. A healthy fit only pays
for the copies, and no number of it changes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from graphham.errors import DivergedError, blame_rates
from graphham.training.averaging import State, WeightAverage
from graphham.training.optimizer import Adam

# How often a fit may go back, and what its steps are multiplied by each time.
MOST_ROLLBACKS = 3
SHRINK = 0.1
# A loss is a spike if it is this many times the largest before it: fits that found their way by
# themselves went up to 80 times. Weights leap if they are this many times the largest at the start,
# or as large where those are below one.
_SPIKE = 100.0
_LEAP = 1e3


class StrayedError(Exception):
    """Training strayed in this epoch; the message says by what it was noticed."""


class RowTable(Protocol):
    """Rows that steps change in place, such as free context vectors."""

    weight: Tensor
    squares: Tensor


def check_step(losses: Iterable[float], gradient_norm: float = 0.0) -> None:
    """Raise :class:`StrayedError` if a step's losses or the length of its gradient are not finite.

    With several processes all of them must call this with the same numbers.
    """
    for loss in losses:
        if not math.isfinite(loss):
            raise StrayedError(f"the loss is {loss:g}")
    if not math.isfinite(gradient_norm):
        raise StrayedError(f"the gradient is {gradient_norm:g} long")


class LastGood:
    """The state of a fit at the end of its last good epoch.

    The loss of a step tells of the state before it. So where an epoch is one step only, the state
    at its end is known to be good one epoch later, and the state before that is kept as well.

    Args:
        model: The network.
        optimizer: What moves its parameters; ``None`` where that is somebody else's matter.
        tables: Rows that steps change beside them.
        average: The running average of the weights.
        depth: How many epochs to go back: 2 where an epoch is one step, else 1.

    Attributes:
        rollbacks: Where the fit has gone back so far, and why; part of a checkpoint.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Adam | None,
        tables: Sequence[RowTable],
        average: WeightAverage,
        depth: int,
    ) -> None:
        self.model, self.optimizer, self.tables = model, optimizer, tables
        self.average, self.depth = average, depth
        self.rollbacks: list[dict[str, Any]] = []
        self._rates = [] if optimizer is None else [g["lr"] for g in optimizer.param_groups]
        self._largest_start = max(1.0, _largest(model))
        self._largest_loss = math.inf  # the first epoch shows how large losses are here
        self._kept: deque[tuple[int, State]] = deque()

    @property
    def factor(self) -> float:
        """What steps are multiplied by: one until the fit has gone back."""
        return SHRINK ** len(self.rollbacks)

    @property
    def first_rate(self) -> float:
        """The learning rate that the fit began with."""
        return float(self._rates[0]) if self._rates else 0.0

    @property
    def newest(self) -> State:
        """The state that was kept last; empty without one."""
        return self._kept[-1][1] if self._kept else {}

    def keep(self, epoch: int, state: State | None = None) -> None:
        """Keep a state, the oldest kept one giving way.

        Args:
            epoch: Epochs that led to it.
            state: The state as :attr:`newest` tells it; a copy of the one in place when not given.
        """
        room = self._kept.popleft()[1] if len(self._kept) == self.depth else {}
        if state is None:
            state = {n: _copied(v, room.get(n)) for n, v in self._in_place().items()}
        self._kept.append((epoch, state))

    def _in_place(self) -> State:
        """Return what steps change, by the names that checkpoints use."""
        state = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        state |= {f"average.{name}": value for name, value in (self.average.state or {}).items()}
        if self.optimizer is not None:
            for index, values in self.optimizer.state_dict()["state"].items():
                state |= {f"adam.{index}.{name}": value for name, value in values.items()}
        for level, table in enumerate(self.tables):
            state[f"table.{level}.weight"] = table.weight
            state[f"table.{level}.squares"] = table.squares
        return state

    def _put(self, state: State) -> None:
        """Put a kept state in place."""
        self.model.load_state_dict(under(state, "model."))
        average = under(state, "average.")
        self.average.state = {n: v.clone() for n, v in average.items()} or None
        if self.optimizer is not None:
            self.optimizer.zero_grad()
            groups = self.optimizer.state_dict()["param_groups"]
            self.optimizer.load_state_dict({"state": moments_of(state), "param_groups": groups})
        for level, table in enumerate(self.tables):
            table.weight.copy_(state[f"table.{level}.weight"])
            table.squares.copy_(state[f"table.{level}.squares"])

    def check_epoch(self, loss: float | None) -> None:
        """Look at the state after an epoch and at its mean loss.

        Raises:
            StrayedError: The loss is a spike or not finite, or the weights leapt away.
        """
        if loss is not None:
            check_step([loss])
            if abs(loss) > _SPIKE * self._largest_loss:
                raise StrayedError(
                    f"the loss is {loss:.3g}, and was at most {self._largest_loss:.3g} before"
                )
        largest = _largest(self.model)
        if not largest <= _LEAP * self._largest_start:
            raise StrayedError(f"the largest weight is {largest:.3g}")

    def remember_losses(self, losses: Iterable[float | None]) -> None:
        """Take up the losses of good epochs, against which spikes are measured."""
        for loss in losses:
            if loss is not None:
                known = self._largest_loss if math.isfinite(self._largest_loss) else 1.0
                self._largest_loss = max(known, abs(loss))

    def go_back(
        self, epoch: int, why: str, rates: Mapping[str, tuple[float, float]]
    ) -> tuple[int, str]:
        """Restore the oldest state kept and shrink the steps.

        Args:
            epoch: The epoch (from 1) that strayed.
            why: By what it was noticed.
            rates: Learning rates by the name of their setting, each with the usual value.

        Returns:
            The epochs that led to the state now in place, and what to tell a person.

        Raises:
            DivergedError: It has gone back too often already.
        """
        if len(self.rollbacks) == MOST_ROLLBACKS:
            cause, advice = blame_rates(rates)
            raise DivergedError(
                f"training{cause} went astray in epoch {epoch}, even with steps of a thousandth "
                f"({why}), so nothing was kept; {advice}"
            )
        reached, state = self._kept[0]
        self._kept = deque([(reached, state)])
        self.rollbacks.append({"epoch": epoch, "why": why, "back_to": reached})
        with torch.no_grad():
            self._put(state)
        self.shrink()
        return reached, self.notes()[-1]

    def shrink(self) -> None:
        """Multiply the rates of the optimiser by :attr:`factor`; nothing changes while it is 1."""
        if self.rollbacks and self.optimizer is not None:
            for group, rate in zip(self.optimizer.param_groups, self._rates, strict=True):
                group["lr"] = rate * self.factor

    def notes(self) -> list[str]:
        """Return a sentence for every time that the fit went back."""
        return [
            f"training strayed in epoch {one['epoch']} ({one['why']}): it went back to the state "
            f"after epoch {one['back_to']}, with steps of {SHRINK ** (place + 1):g} of the size"
            for place, one in enumerate(self.rollbacks)
        ]


def _largest(model: nn.Module) -> float:
    """Return the largest absolute weight; NaN if there is one."""
    with torch.no_grad():
        weights = [p.detach() for p in model.parameters() if p.numel()]
        if not weights:
            return 0.0
        return float(torch.stack(torch._foreach_norm(weights, math.inf)).max())


def _copied(value: Tensor, room: Tensor | None) -> Tensor:
    """Return a copy, in the memory of one that is not needed any more where it fits."""
    if room is not None and room.shape == value.shape and room.dtype == value.dtype:
        return room.copy_(value.detach())
    return value.detach().clone()


def under(arrays: Mapping[str, Tensor], prefix: str) -> State:
    """Return the arrays whose names begin with a prefix, by the rest of their names."""
    return {k[len(prefix) :]: v for k, v in arrays.items() if k.startswith(prefix)}


def moments_of(arrays: Mapping[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    """Return the running means of the optimiser among the arrays of a checkpoint."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in under(arrays, "adam.").items():
        index, field = name.split(".", 1)
        state.setdefault(int(index), {})[field] = value
    return state
