"""Resolved settings: a type without open values, written to a run and read back the same."""

import tomllib
import types
from typing import Literal, Union, get_args, get_origin

import pytest
import tomli_w

from graphham.config.resolve import resolve
from graphham.config.resolved import GraphFacts, ResolvedConfig, read_resolved
from graphham.config.settings import make_config
from graphham.errors import InputError

FACTS = GraphFacts(300, 900, 40, scaling="standard", num_classes=4, has_few_labels=True)


def test_no_field_may_be_open():
    sections = {"": ResolvedConfig} | {
        f"{name}.": info.annotation
        for name, info in ResolvedConfig.model_fields.items()
        if hasattr(info.annotation, "model_fields")
    }
    assert len(sections) == 5
    for prefix, section in sections.items():
        for name, info in section.model_fields.items():
            kind = info.annotation
            assert get_origin(kind) not in (Union, types.UnionType), prefix + name
            if get_origin(kind) is Literal:
                assert "auto" not in get_args(kind), prefix + name


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("task", ["embed", "classify"])
def test_toml_and_back_gives_the_same_settings(task, preset):
    settings = make_config({"task": task, "seed": 2**62, "train.lr": 0.0123}, preset=preset)
    config = resolve(settings, FACTS)
    written = tomli_w.dumps({**config.to_dict(), "graph": {"name": "cora", "nodes": 300}})
    again = read_resolved(tomllib.loads(written))
    assert type(again) is ResolvedConfig
    assert again == config


@pytest.mark.parametrize(
    ("name", "value"),
    [("train.epochs", None), ("groups", None), ("inputs.scaling", "auto"), ("train.batch", "auto")],
)
def test_a_run_that_leaves_something_open_is_refused(name, value):
    values = resolve(make_config({}), FACTS).to_dict()
    *section, last = name.split(".")
    held = values[section[0]] if section else values
    if value is None:
        del held[last]
    else:
        held[last] = value
    with pytest.raises(InputError, match=name):
        read_resolved(values)


def test_a_bad_value_of_a_run_is_refused_as_any_setting_is():
    values = resolve(make_config({}), FACTS).to_dict()
    values["train"]["dropout"] = 1.5
    with pytest.raises(InputError, match=r"train\.dropout cannot be 1\.5"):
        read_resolved(values)


def test_a_run_from_before_a_setting_existed_is_read() -> None:
    values = resolve(make_config({"task": "classify"}), FACTS).to_dict()
    del values["inputs"]["link_rows"], values["train"]["settle"]
    config = read_resolved(values)
    assert config.inputs.link_rows is False
    assert config.train.settle == 0.0
