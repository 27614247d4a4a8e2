"""The running average of weights and the best state: what is copied, what is only lent."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphham.training.averaging import BestState, WeightAverage, reading


def one_weight(value: float) -> torch.nn.Linear:
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.constant_(model.weight, value)
    return model


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=12), st.floats(0.05, 0.99))
def test_the_average_is_a_mean_that_forgets_once_it_is_old(values: list[int], keep: float) -> None:
    average = WeightAverage(keep)
    expected = 0.0
    for count, value in enumerate(values):
        average.update(one_weight(value), count)
        share = min(keep, count / (count + 1))
        expected = share * expected + (1 - share) * value
    assert average.state is not None
    assert float(average.state["weight"]) == pytest.approx(expected, abs=1e-3)
    if len(values) <= 1 / (1 - keep):
        assert expected == pytest.approx(sum(values) / len(values))


def test_an_average_that_is_off_is_the_model_itself() -> None:
    average, model = WeightAverage(0.0), one_weight(2.0)
    average.update(model, 0)
    assert average.state is None
    assert average.weights(model)["weight"].data_ptr() == model.weight.data_ptr()


def test_counting_from_zero_begins_anew() -> None:
    average = WeightAverage(0.9)
    for count, value in ((0, 1.0), (1, 3.0), (0, 7.0)):
        average.update(one_weight(value), count)
    assert average.state is not None
    assert float(average.state["weight"]) == 7.0


def test_whole_numbers_are_copied_not_averaged() -> None:
    average, model = WeightAverage(0.5), torch.nn.BatchNorm1d(2)
    for count in range(3):
        model.num_batches_tracked.fill_(10 * count)
        average.update(model, count)
    assert average.state is not None
    assert int(average.state["num_batches_tracked"]) == 20


def test_the_best_state_is_a_copy_and_only_a_better_one_replaces_it() -> None:
    best, model = BestState(), one_weight(1.0)
    for epoch, score in enumerate([(0.5, -2.0), (0.5, -2.0), (0.5, -1.0), (0.4, 9.0)], 1):
        torch.nn.init.constant_(model.weight, epoch)
        best.offer(score, epoch, model.state_dict())
    assert (best.score, best.epoch) == ((0.5, -1.0), 3)
    assert best.state is not None
    assert float(best.state["weight"]) == 3.0


def test_weights_are_lent_and_given_back_even_after_an_error() -> None:
    model = torch.nn.BatchNorm1d(1)
    parameter, place = model.weight, model.weight.data_ptr()
    other = {name: torch.full_like(value, 5) for name, value in model.state_dict().items()}

    def fail() -> None:
        with reading(model, other):
            assert float(model.weight.detach()) == float(model.running_mean) == 5
            # Nothing is copied: a change made now is made to the other weights.
            assert model.weight.data_ptr() == other["weight"].data_ptr()
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail()
    # The optimizer knows the parameter by its identity, so that must stay too.
    assert model.weight is parameter
    assert model.weight.data_ptr() == place
    assert (float(model.weight.detach()), float(model.running_mean)) == (1, 0)
