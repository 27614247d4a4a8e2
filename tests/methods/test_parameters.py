"""Settings by name: collected along the classes, checked by kind, shown where not default."""

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import pytest

from graphham.errors import InputError
from graphham.methods.parameters import Parameters, keyword_settings


@keyword_settings
class Plain(Parameters):
    name = "plain"
    seed: int = 0
    rate: float | None = None


@keyword_settings
class More(Plain):
    name = "more"
    sizes: Sequence[int] = (2, 1)
    is_on: bool = False
    rate: float | None = 0.5
    weight_: float = field(init=False)


@keyword_settings
class Fixed(More):
    sizes: Sequence[int] = field(default=(1,), init=False)


class ByHand(Plain):
    def __init__(self, *, rate: float | None = 2.0, depth: int = 1, **others: Any) -> None:
        super().__init__(rate=rate, **others)
        self.depth = depth


def test_settings_are_given_by_name_and_fitted_attributes_are_none_of_them() -> None:
    made: Any = More
    with pytest.raises(TypeError, match="positional"):
        made(3)
    with pytest.raises(TypeError, match="weight_"):
        made(weight_=1.0)
    assert not hasattr(More(), "weight_")
    assert More() != More()


def test_a_subclass_fixes_a_setting() -> None:
    assert Fixed.setting_defaults() == {"seed": 0, "rate": 0.5, "is_on": False}
    assert Fixed(seed=1).sizes == (1,)
    with pytest.raises(InputError, match="no setting 'sizes'"):
        Fixed.make(sizes=(3,))


def test_a_constructor_written_by_hand_passes_settings_on() -> None:
    assert ByHand.setting_defaults() == {"seed": 0, "rate": 2.0, "depth": 1}
    assert ByHand.setting_kinds() == {"seed": "int", "rate": "float | None", "depth": "int"}
    assert ByHand(seed=3).get_params() == {"seed": 3, "rate": 2.0, "depth": 1}


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
