"""What ``graphham fit`` is asked becomes a method, whichever way the settings come."""

from pathlib import Path

import pytest

from graphham.cli.fit_settings import Flags, check_begun, parse_groups, parse_settings, wanted_fit
from graphham.errors import InputError
from graphham.methods import DeepWalk
from graphham.methods.graphham import GraphHAM, NoGroupAttention, PaperGraphHAM


def test_flags_win_over_set_and_set_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("dim = 8\nseed = 1\n[train]\nepochs = 3\nlr = 0.5\n")
    wanted = wanted_fit(
        None, str(file), ["seed=2", "train.epochs=4"], Flags(epochs=5, groups="6,2")
    )
    made = wanted.make()
    assert type(made) is GraphHAM
    config = made._config("embed")
    assert (config.dim, config.seed, config.train.epochs, config.train.lr) == (8, 2, 5, 0.5)
    assert config.groups == (6, 2)
    assert wanted.is_graphham


def test_the_config_of_another_method_names_it_and_its_task(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('method = "deepwalk"\ntask = "classify"\nwalks = 3\ndim = 8\n')
    wanted = wanted_fit(None, str(file), ["walks=4"], Flags(seed=7))
    assert (wanted.name, wanted.task, wanted.is_graphham) == ("deepwalk", "classify", False)
    assert repr(wanted.make()) == repr(DeepWalk(walks=4, dim=8, seed=7))
    assert wanted_fit(None, str(file), [], Flags(task="embed")).task == "embed"


def test_a_form_of_graphham_keeps_what_makes_it_so() -> None:
    given = ["model.group_score=additive"]
    ablation = wanted_fit("graphham-no-lambda", None, given, Flags()).make()
    assert type(ablation) is NoGroupAttention
    assert ablation._config("embed").model.group_score == "none"
    paper = wanted_fit("graphham-paper", None, given, Flags()).make()
    assert type(paper) is PaperGraphHAM
    assert paper._config("embed").preset == "paper"
    with pytest.raises(InputError, match="has the preset paper"):
        wanted_fit("graphham-paper", None, [], Flags(preset="default"))


def test_a_resumed_run_keeps_its_settings(tmp_path: Path) -> None:
    (tmp_path / "run.partial").mkdir()
    (tmp_path / "run.partial" / "config.toml").write_text("seed = 3\ndim = 8\n")
    check_begun(tmp_path / "run", [{"seed": 3}])
    with pytest.raises(InputError, match="seed was 3 and is now 4"):
        check_begun(tmp_path / "run", [{"seed": 4}])


def test_text_becomes_values_or_one_sentence() -> None:
    assert parse_groups("12,5") == (12, 5)
    assert parse_settings(["a=1", "b.c=[1, 2]", "d=word"]) == {"a": 1, "b.c": [1, 2], "d": "word"}
    with pytest.raises(InputError, match="not NAME=VALUE"):
        parse_settings(["train.lr"])
    with pytest.raises(InputError, match="write it like 12,5"):
        parse_groups("a,b")
