"""Settings: presets, order of sources, clear refusals."""

import tomllib

import numpy as np
import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from graphham.config.presets import preset_settings
from graphham.config.settings import (
    RunConfig,
    make_config,
    read_config,
    setting_names,
)
from graphham.errors import InputError


def test_later_sources_win_and_none_is_skipped():
    config = make_config(
        {"train": {"epochs": 5, "lr": 0.1}, "seed": 3},
        {"train.epochs": 7, "seed": None, "model": {"heads": None}},
    )
    assert (config.train.epochs, config.train.lr, config.seed) == (7, 0.1, 3)
    assert config.model.heads == RunConfig().model.heads


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("task", ["embed", "classify"])
def test_a_preset_yields_to_what_is_given(preset, task):
    config = make_config({"task": task, "train.lr": 0.5}, preset=preset)
    assert (config.preset, config.task, config.train.lr) == (preset, task, 0.5)
    settings = preset_settings(preset, task)
    for section in ("inputs", "model", "loss", "train"):
        for name, value in settings.get(section, {}).items():
            if name != "lr":
                assert getattr(getattr(config, section), name) == value, name


def test_the_two_presets_differ_where_the_paper_is_literal():
    paper = make_config(preset="paper")
    assert paper.loss.context == "skipgram"
    assert (paper.loss.walks, paper.model.group_score) == (50, "additive")
    assert paper.model.membership_input == "state"
    assert paper.model.membership_input == "state"
    assert paper.loss.must_link_weight > paper.loss.cannot_link_weight > 0


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_toml_and_back_repeats_the_config(preset):
    config = make_config({"groups": [12, 5], "seed": 2**62, "train.lr": 0.0123}, preset=preset)
    assert make_config(tomllib.loads(tomli_w.dumps(config.to_dict()))) == config


def test_config_of_a_run_names_its_graph_and_is_read_back():
    config = make_config({"groups": (4, 2)})
    written = {**config.to_dict(), "graph": {"name": "cora", "nodes": 2708}}
    assert make_config(written) == config


def test_numbers_from_numpy_are_numbers():
    config = make_config(
        {"groups": np.array([8, 3]), "seed": np.int64(4), "train.lr": np.float32(0.5)}
    )
    assert config == make_config({"groups": (8, 3), "seed": 4, "train.lr": 0.5})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"train.epochs": -1}, ["train.epochs", "-1"]),
        ({"train.epochs": 2.5}, ["train.epochs", "2.5"]),
        ({"epoch": 3}, ["epoch"]),
        ({"train.epoch": 3}, ["train.epoch", "train.epochs"]),
        ({"heads": 3}, ["heads", "model.heads"]),
        ({"groups": (5, 12)}, ["groups", "fine to coarse"]),
        ({"groups": ()}, ["groups"]),
        ({"groups": (4, 0)}, ["groups", "0"]),
        ({"groups": (6, 3, 2), "dim": 2}, ["2", "3 layers"]),
        ({"model.product": "sum"}, ["model.product", "sum"]),
        ({"preset": "best"}, ["best", "default", "paper"]),
        ({"task": "guess"}, ["guess", "embed", "classify"]),
        ({"seed": -1}, ["seed", "-1"]),
        ({"train": 5}, ["train", "5"]),
        ({"train.dropout": 1.0}, ["train.dropout", "1.0"]),
        ({"train.lr": float("nan")}, ["train.lr"]),
    ],
)
def test_a_bad_setting_is_one_sentence_that_names_it(settings, words):
    with pytest.raises(InputError) as caught:
        make_config(settings)
    text = str(caught.value)
    assert "\n" not in text
    for word in words:
        assert word in text, text


@given(st.dictionaries(st.text(max_size=12), st.integers() | st.text(max_size=5), max_size=3))
def test_any_settings_at_all_give_a_config_or_one_sentence(settings):
    said = ""
    try:
        assert isinstance(make_config(settings), RunConfig)
    except InputError as error:
        said = str(error)
    assert "\n" not in said


def test_every_setting_is_described():
    for section in ("inputs", "model", "loss", "train"):
        fields = type(getattr(RunConfig(), section)).model_fields
        for name, info in fields.items():
            assert info.description, f"{section}.{name}"
            assert f"{section}.{name}" in setting_names()


def test_the_last_fanout_serves_deeper_layers():
    config = make_config({"train.fanouts": (7, 3), "groups": (9, 6, 3), "dim": 96})
    assert [config.fanout(layer) for layer in range(3)] == [7, 3, 3]


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"a = = 3"])
def test_a_settings_file_that_cannot_be_read(tmp_path, content):
    path = tmp_path / "s.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"s\.toml"):
        read_config(path)
    with pytest.raises(InputError):
        read_config(tmp_path)
