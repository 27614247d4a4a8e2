"""Settings are tried once each, and fixed ones stay."""

import pytest

from graphham.config.presets import merge
from graphham.errors import InputError
from graphham.evaluate.cells import Cell
from graphham.evaluate.tuning import choose
from graphham.methods.base import Method
from tests.evaluate.spy import GRAPH


def test_equal_settings_are_fitted_once(spy: None) -> None:
    fitted: list[Method] = []

    def fit(method: Method) -> Method:
        fitted.append(method.fit(GRAPH))
        return method

    chosen = choose(Cell("classify", "planted", "folds", "spy", budget=4), fit, lambda m: 0.5)
    assert len(fitted) == len(chosen.tried) == 4
    # A method with a single setting repeats its default.
    again = choose(
        Cell("links", "planted", "links", "smoothed", budget=4),
        lambda m: m.fit(GRAPH),
        lambda m: 0.5,
    )
    assert len(again.tried) <= 4
    assert len({str(t["settings"]) for t in again.tried}) == len(again.tried)
    with pytest.raises(InputError, match="budget"):
        choose(Cell("classify", "planted", "folds", "spy", budget=0), fit, lambda m: 0.0)


def test_fixed_settings_survive_the_choice() -> None:
    fixed = {"settings": {"a": 1, "b": 2}, "dim": 64}
    assert merge(fixed, {"settings": {"b": 3}}) == {"settings": {"a": 1, "b": 3}, "dim": 64}
    assert fixed == {"settings": {"a": 1, "b": 2}, "dim": 64}
    assert merge({}, {"x": 1}) == {"x": 1}
