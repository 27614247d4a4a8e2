"""Training that strays goes back with smaller steps; what does not stray is not touched."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch

from graphham.config.settings import make_config
from graphham.errors import DivergedError
from graphham.methods.fitting import fit_graph
from graphham.methods.gcn import GCN
from graphham.methods.run_fitting import fit_to_run
from graphham.results.run_folder import Run
from graphham.training.averaging import WeightAverage
from graphham.training.epochs import EpochLoop, Silent
from graphham.training.last_good import MOST_ROLLBACKS, LastGood, StrayedError, check_step
from graphham.training.optimizer import Adam
from tests.reference.graphs import planted

GRAPH = planted().graph
# Steps of the first size spike in epoch 2; a tenth of them finds its way.
STRAYING = {"task": "classify", "groups": (6, 2), "dim": 16, "train.epochs": 6, "train.lr": 10.0}


class Heard(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def on_note(self, text: str) -> None:
        self.notes.append(text)


class Scripted(EpochLoop):
    """A network of one weight whose losses and weights come from a script."""

    def __init__(self, losses: list[float], leaps: dict[int, float] | None = None, **more: Any):
        super().__init__(torch.nn.Linear(1, 1, bias=False), **{"epochs": 4, **more})
        self.optimizer = Adam([{"params": list(self.model.parameters())}], 0.5)
        self.is_one_step = more.pop("one", False)
        self.losses, self.leaps, self.taken = iter(losses), leaps or {}, []

    def take_epoch(self, epoch: int) -> dict[str, Any]:
        (weight,) = self.model.parameters()
        self.taken.append((epoch, round(float(weight.detach()), 4), self.rate))
        weight.grad = torch.ones_like(weight)
        check_step([], self.optimizer.clip(5.0))
        self.optimizer.step()
        with torch.no_grad():
            weight.mul_(self.leaps.pop(epoch, 1.0))
        return {"loss": next(self.losses)}

    @property
    def rate(self) -> float:
        return float(self.optimizer.param_groups[0]["lr"])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e4, -1e4])
def test_a_bad_loss_is_taken_again_from_the_same_state_with_smaller_steps(bad: float) -> None:
    heard = Heard()
    loop = Scripted([1.0, 2.0, bad, 1.0, 1.0], listener=heard)
    assert loop.run() == "complete"
    epochs, weights, rates = zip(*loop.taken, strict=True)
    assert epochs == (0, 1, 2, 2, 3)
    assert weights[2] == weights[3]
    assert rates == (0.5, 0.5, 0.5, 0.05, 0.05)
    assert [record["loss"] for record in loop.history] == [1.0, 2.0, 1.0, 1.0]
    assert [record["epoch"] for record in loop.history] == [1, 2, 3, 4]
    (note,) = heard.notes
    assert "epoch 3" in note
    assert "0.1 of the size" in note


def test_where_an_epoch_is_one_step_the_epoch_before_is_taken_again_too() -> None:
    loop = Scripted([1.0, 2.0, math.nan, 2.0, 1.0, 1.0], average=0.5)
    loop.is_one_step = True
    loop.run()
    epochs, weights, _ = zip(*loop.taken, strict=True)
    assert epochs == (0, 1, 2, 1, 2, 3)
    assert weights[1] == weights[3]
    assert [record["epoch"] for record in loop.history] == [1, 2, 3, 4]


def test_weights_that_leap_away_are_noticed_without_a_loss() -> None:
    loop = Scripted([1.0] * 9, leaps={1: 1e7})
    loop.run()
    assert [epoch for epoch, *_ in loop.taken] == [0, 1, 1, 2, 3]
    assert abs(float(next(loop.model.parameters()).detach())) < 10


def test_large_losses_are_no_spikes_from_the_start() -> None:
    loop = Scripted([5e3, 6e3, 4e5, 1.0])
    loop.run()
    assert loop.last_good.rollbacks == []


def test_after_three_it_stops_and_names_the_rate() -> None:
    loop = Scripted([1.0] + [math.nan] * 9)
    with pytest.raises(DivergedError, match=r"with lr = 0\.5 .* epoch 2.* smaller lr \(0\.01"):
        loop.run()
    assert len(loop.taken) == 2 + MOST_ROLLBACKS


def test_everything_a_step_changes_comes_back() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = Adam([{"params": list(model.parameters())}], 0.1)

    class Table:
        weight, squares = torch.ones(4, 2), torch.ones(4)

    average = WeightAverage(0.5)
    good = LastGood(model, optimizer, [Table], average, 1)

    def step() -> None:
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        average.update(model, 1)
        Table.weight.mul_(2)
        Table.squares.add_(1)

    def state() -> dict[str, torch.Tensor]:
        return {name: value.clone() for name, value in good._in_place().items()}

    step()
    good.keep(1)
    before = state()
    step()
    assert any(not torch.equal(value, before[name]) for name, value in state().items())
    assert good.go_back(2, "x", {})[0] == 1
    after = state()
    assert after.keys() == before.keys()
    assert all(torch.equal(value, before[name]) for name, value in after.items())
    step()  # and what is kept is not what is in place
    good.go_back(2, "x", {})
    assert all(torch.equal(value, before[name]) for name, value in state().items())


def test_steps_are_looked_at_one_by_one() -> None:
    check_step([1.0, -3e38], 1e30)
    for losses, norm in (([1.0, math.nan], 0.0), ([1.0], math.inf), ([-math.inf], 1.0)):
        with pytest.raises(StrayedError, match=r"nan|inf"):
            check_step(losses, norm)


def test_a_fit_that_strays_recovers_and_says_so() -> None:
    heard = Heard()
    fitted = fit_graph(GRAPH, make_config(STRAYING), listener=heard)
    smaller = fit_graph(GRAPH, make_config(STRAYING, {"train.lr": 1.0}))
    np.testing.assert_array_equal(fitted.result.embedding, smaller.result.embedding)
    assert len(fitted.history) == 6
    (rollback,) = fitted.summary["training"]["rollbacks"]
    assert rollback["epoch"] == 2
    assert any("strayed in epoch 2" in note for note in heard.notes)
    assert any("strayed in epoch 2" in note for note in fitted.summary["notes"])
    assert smaller.summary["training"]["rollbacks"] == []


class Stop(Silent):
    """Press Ctrl-C, harder than is caught, after some epoch."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def on_epoch(self, epoch: int, record: dict[str, Any]) -> None:
        if epoch == self.epoch:
            raise SystemExit


@pytest.mark.parametrize("epoch", [1, 2, 4])
def test_a_fit_killed_around_a_rollback_is_resumed_to_the_same_bits(
    epoch: int, tmp_path: Any
) -> None:
    config = make_config(STRAYING, {"train.checkpoint_every": 0})
    whole = fit_to_run(GRAPH, config, tmp_path / "whole")
    with pytest.raises(SystemExit):
        # The record is heard before the checkpoint: the one of the epoch before is there.
        fit_to_run(GRAPH, config, tmp_path / "killed", listener=Stop(epoch))
    again = fit_to_run(GRAPH, config, tmp_path / "killed", resume=True)
    np.testing.assert_array_equal(again.embedding, whole.embedding)
    parts = [run.summary["training"]["rollbacks"] for run in (whole, again)]
    assert parts[0] == parts[1] != []
    logs = [Run.open(run.path).metrics for run in (whole, again)]
    for one, other in zip(*logs, strict=True):
        assert one["loss"] == other["loss"]
    assert json.dumps(parts[0])


def test_rivals_use_the_same_loop() -> None:
    with pytest.raises(DivergedError, match=r"lr = 1e\+30"):
        GCN(lr=1e30, epochs=4, dim=8).fit(GRAPH, task="classify")
