"""Settings by name: collected along the classes, checked by kind, shown where not default."""

from collections.abc import Sequence
from typing import Any

import pytest

from graphham.errors import InputError
from graphham.methods.parameters import Parameters


class Plain(Parameters):
    name = "plain"

    def __init__(self, seed: int = 0, rate: float | None = None) -> None:
        self.seed, self.rate = seed, rate


class More(Plain):
    name = "more"

    def __init__(
        self,
        *,
        sizes: Sequence[int] = (2, 1),
        is_on: bool = False,
        rate: float | None = 0.5,
        **settings: Any,
    ) -> None:
        super().__init__(rate=rate, **settings)
        self.sizes, self.is_on = sizes, is_on


def test_a_subclass_adds_settings_and_changes_defaults() -> None:
    assert More.setting_defaults() == {"seed": 0, "rate": 0.5, "sizes": (2, 1), "is_on": False}
    assert Plain.setting_defaults() == {"seed": 0, "rate": None}
    made = More(seed=3)
    assert type(made)(**made.get_params()).get_params() == made.get_params()
    assert repr(made.set_params(is_on=True)) == "More(seed=3, is_on=True)"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sed": 1}, "no setting 'sed'; did you mean 'seed'"),
        ({"seed": 1.5}, "seed of more must be a whole number, got 1.5"),
        ({"seed": True}, "must be a whole number"),
        ({"rate": "fast"}, "must be a number"),
        ({"rate": float("nan")}, "must be a number"),
        ({"is_on": 1}, "must be true or false"),
        ({"sizes": [1, "2"]}, "must be a list of whole numbers"),
    ],
)
def test_what_a_setting_cannot_be_is_one_sentence(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        More.make(**settings)


def test_what_a_setting_can_be_is_taken() -> None:
    made = More.make(seed=2, rate=None, sizes=[3, 2], is_on=True)
    assert made.get_params() == {"seed": 2, "rate": None, "sizes": [3, 2], "is_on": True}
    with pytest.raises(InputError, match="no setting 'depth'"):
        made.set_params(depth=1)
