"""One line in the registry is all that makes a method known."""

import pytest

import graphham.methods
from graphham.errors import InputError
from graphham.methods.base import Method
from graphham.methods.registry import (
    check_method_name,
    class_modules,
    make_method,
    method_class,
    method_names,
    method_rows,
)


def test_every_line_names_a_class_that_says_the_same() -> None:
    for name, line, tasks in method_rows():
        kind = method_class(name)
        assert issubclass(kind, Method)
        assert (kind.name, kind.tasks) == (name, tasks)
        assert line
        assert getattr(graphham.methods, kind.__name__) is kind
    assert set(class_modules()) | {"Method"} == set(graphham.methods.__all__)
    assert len(method_names()) == len(set(method_names()))


def test_settings_reach_the_method() -> None:
    assert make_method("deepwalk", walks=3, seed=5).get_params()["walks"] == 3
    with pytest.raises(InputError, match="there is no method 'deepwolk'; did you mean 'deepwalk'"):
        check_method_name("deepwolk")
