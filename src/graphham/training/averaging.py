"""Two states worth keeping besides the last one: the running average and the best validated."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

State = dict[str, Tensor]


class WeightAverage:
    """The running average of a network's weights.

    At first it is the plain mean of all updates, so that a few long epochs are not all spent on
    forgetting the first one.

    Args:
        keep: Share of the old average that every update keeps at most; 0 switches it off.
    """

    def __init__(self, keep: float) -> None:
        self.keep = keep
        self.state: State | None = None

    def update(self, model: nn.Module, count: int) -> None:
        """Move the average towards the model.

        Args:
            model: The network.
            count: Updates since the average began; 0 begins anew.
        """
        if not self.keep:
            return
        weights = model.state_dict()
        if self.state is None or not count:
            self.state = {name: value.clone() for name, value in weights.items()}
            return
        keep = min(self.keep, count / (count + 1))
        for name, value in weights.items():
            mean = self.state[name]
            if value.is_floating_point():
                mean.lerp_(value, 1 - keep)
            else:
                mean.copy_(value)

    def weights(self, model: nn.Module) -> State:
        """Return what is validated and kept: the average, or the model's own weights without."""
        return model.state_dict() if self.state is None else self.state


class BestState:
    """The weights that validated best so far.

    Attributes:
        score: Their score and its tie-breaker; ``None`` before the first validation.
        epoch: The epoch (from 1) they are from; 0 before the first validation.
        state: The weights.
    """

    def __init__(self) -> None:
        self.score: tuple[float, float] | None = None
        self.epoch = 0
        self.state: State | None = None

    def offer(self, score: tuple[float, float], epoch: int, weights: State) -> None:
        """Keep a copy of the weights if they score better than all before."""
        if self.score is None or score > self.score:
            self.score, self.epoch = score, epoch
            self.state = {name: value.clone() for name, value in weights.items()}


@contextmanager
def reading(model: nn.Module, state: State) -> Iterator[None]:
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
