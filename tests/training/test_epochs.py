"""The one loop over epochs, with a network of one weight and scores from a script."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphham.training.epochs import EpochLoop, Silent


class Counting(EpochLoop):
    """A network whose only weight is one more after every epoch.

    The weights say which epoch they are from, and one left behind by a validation would show in all
    epochs after it.
    """

    def __init__(self, scores: Iterable[Any] = (), **settings: Any) -> None:
        model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(model.weight)
        super().__init__(model, **{"epochs": 10, "evaluate_every": 1, **settings})
        self.script, self.scored, self.events = iter(scores), [], []

    @property
    def weight(self) -> float:
        return float(self.model.weight.detach())

    def take_epoch(self, epoch: int) -> dict[str, Any]:
        with torch.no_grad():
            self.model.weight.add_(1)
        return {"loss": 1.0 / (epoch + 1)}

    def score(self) -> tuple[float, float] | None:
        self.scored.append(self.weight)
        score = next(self.script, None)
        return score if score is None or isinstance(score, tuple) else (score, 0.0)

    def log(self, record: dict[str, Any]) -> None:
        self.events.append(("log", dict(record)))

    def end_epoch(self, epoch: int) -> None:
        self.events.append(("end of epoch", epoch))

    def finish(self) -> None:
        self.events.append(("finish", self.weight))


class Heard(Silent):
    """A listener that writes into the events of a loop, and may press Ctrl-C."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.events: list[Any] = []
        self.stop_at = stop_at

    def on_start(self, total_epochs: int, start_epoch: int) -> None:
        self.events.append(("start", total_epochs, start_epoch))

    def on_epoch(self, epoch: int, record: dict[str, Any]) -> None:
        self.events.append(("epoch", epoch))
        if epoch == self.stop_at:
            raise KeyboardInterrupt

    def on_note(self, text: str) -> None:
        self.events.append(("note", text))

    def on_end(self, status: str) -> None:
        self.events.append(("end", status))


def listened(scores: Iterable[Any] = (), stop_at: int | None = None, **settings: Any) -> Counting:
    """A loop and a listener who write into one list."""
    listener = Heard(stop_at)
    loop = Counting(scores, listener=listener, **settings)
    listener.events = loop.events
    return loop


def test_training_stops_when_patience_ends_and_keeps_the_best() -> None:
    loop = Counting([0.1, 0.5, 0.9, 0.2, 0.9, 0.8, 1.0], patience=3)
    assert loop.run() == "complete"
    # An equal score is no better one: epochs 4 to 6 bring nothing, and 1.0 is never reached.
    assert len(loop.history) == 6
    assert (loop.best_epoch, loop.best_validation) == (3, 0.9)
    assert loop.weight == 3
    assert [record["validation"] for record in loop.history] == [0.1, 0.5, 0.9, 0.2, 0.9, 0.8]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=20, max_size=20),
    st.integers(1, 12),
    st.integers(1, 4),
    st.integers(1, 6),
)
def test_any_script_is_followed_as_a_person_would(
    scores: list[tuple[int, int]], epochs: int, every: int, patience: int
) -> None:
    loop = Counting(scores, epochs=epochs, evaluate_every=every, patience=patience)
    loop.run()
    due = [e for e in range(1, epochs + 1) if e % every == 0 or e == epochs]
    best = last = 0
    for place, epoch in enumerate(due):
        last = epoch
        if not best or scores[place] > scores[due.index(best)]:
            best = epoch
        if epoch - best >= patience:
            break
    assert loop.scored == [float(e) for e in due if e <= last]
    assert len(loop.history) == last
    assert loop.best_epoch == best
    assert loop.weight == best


def test_without_scores_the_last_state_stays_and_nothing_stops_early() -> None:
    loop = Counting(patience=1)
    assert loop.run() == "complete"
    assert (loop.weight, loop.best_epoch, loop.best_validation) == (10, 10, None)
    assert all("validation" not in record for record in loop.history)


def test_the_average_is_what_is_scored_and_kept_while_training_goes_on_without_it() -> None:
    loop = Counting([0.0, 1.0, 0.5, 0.5], average=0.5, epochs=4)
    loop.run()
    averages = [1.0, 1.5, 2.25, 3.125]  # half of the old, half of 1, 2, 3 and 4
    assert loop.scored == averages
    assert loop.weight == averages[1]
    # Its own weights went on from 1 to 4: no average was trained further.
    assert ("finish", 4.0) in loop.events


def test_the_average_is_kept_where_nothing_is_validated() -> None:
    loop = Counting(average=0.9, epochs=5)
    loop.run()
    assert loop.weight == pytest.approx(3.0)  # young averages are the plain mean of 1 to 5


@pytest.mark.parametrize(
    ("scores", "average", "kept"),
    [([0.3, 0.9, 0.5, 0.6], 0.0, 2.0), ([], 0.9, 2.5), ([], 0.0, 4.0)],
)
def test_ctrl_c_finishes_with_the_best_state_so_far(
    scores: list[float], average: float, kept: float
) -> None:
    loop = listened(scores, stop_at=4, average=average)
    assert loop.run() == "interrupted"
    assert len(loop.history) == 4
    assert loop.weight == pytest.approx(kept)
    assert loop.events[-3][0] == "note"
    assert loop.events[-2] == ("finish", 4.0)
    assert loop.events[-1] == ("end", "interrupted")


def test_ctrl_c_within_an_epoch_leaves_no_trace_of_it() -> None:
    class Stopped(Counting):
        def take_epoch(self, epoch: int) -> dict[str, Any]:
            record = super().take_epoch(epoch)
            if epoch == 3:
                raise KeyboardInterrupt
            return record

    loop = Stopped([0.1, 0.2, 0.3])
    assert loop.run() == "interrupted"
    assert [record["epoch"] for record in loop.history] == [1, 2, 3]
    assert (loop.weight, loop.best_epoch) == (3, 3)


def test_where_training_cannot_end_alone_ctrl_c_goes_on() -> None:
    class Bound(Counting):
        def interrupted(self) -> None:
            raise RuntimeError("the others are waiting")

    class Broken(Counting):
        def take_epoch(self, epoch: int) -> dict[str, Any]:
            raise ValueError("not a number")

    with pytest.raises(RuntimeError, match="the others are waiting"):
        Bound(listener=Heard(stop_at=1)).run()
    with pytest.raises(ValueError, match="not a number"):
        Broken().run()


def test_an_epoch_is_written_down_before_anybody_hears_of_it() -> None:
    loop = listened([0.25, 0.5], epochs=2)
    loop.run()
    names = [event[0] for event in loop.events]
    each = ["log", "epoch", "end of epoch"]
    assert names == ["start", *each, *each, "finish", "end"]
    logged = [event[1] for event in loop.events if event[0] == "log"]
    assert logged == loop.history
    assert [record["validation"] for record in logged] == [0.25, 0.5]
    assert all(record["seconds"] >= 0 for record in logged)


def test_a_resumed_loop_goes_on_where_it_stopped() -> None:
    loop = listened(epochs=5)
    loop.run(start=3)
    assert loop.events[0] == ("start", 5, 3)
    assert [record["epoch"] for record in loop.history] == [4, 5]
    assert [record["loss"] for record in loop.history] == [1 / 4, 1 / 5]
