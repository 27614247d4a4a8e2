"""A search goes on where it stopped, and its frontier is what plain comparing finds."""

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphham as gh
from graphham.cli.main import main
from graphham.errors import InputError
from graphham.evaluate import setting_search
from graphham.evaluate.setting_search import OBJECTIVES, SettingSearch, Trial, frontier

GRAPH = gh.planted_hierarchy((2, 2), num_nodes=80, seed=0).graph
SPACE = {"dim": (8, 16), "train.epochs": (1, 2), "train.lr": (0.003, 0.01, 0.02)}


def search(folder: Path, **more: Any) -> SettingSearch:
    given_ = {"space": SPACE, "sampler": "random", **more}
    return SettingSearch(GRAPH, folder, **given_)


def plain(trials: list[Trial]) -> list[tuple[int, dict[str, Any], float]]:
    return [(t.number, t.settings, t.values["score"]) for t in trials]


def test_a_stopped_search_goes_on_as_if_it_had_not(tmp_path: Path) -> None:
    whole = search(tmp_path / "whole").run(3)
    assert whole[0].settings == {}
    assert all(0 < t.values["score"] <= 1 for t in whole)
    assert len({json.dumps(t.settings) for t in whole}) == 3
    search(tmp_path / "cut").run(2)
    path = tmp_path / "cut" / "trials.jsonl"
    path.write_text(path.read_text() + '{"number": 2, "sett')  # killed in the middle of a line
    heard: list[Trial] = []
    assert plain(search(tmp_path / "cut").run(3, heard.append)) == plain(whole)
    assert [t.number for t in heard] == [2]
    assert search(tmp_path / "cut").run(2, heard.append)[2:] != []  # nothing is thrown away
    with pytest.raises(InputError, match="another graph, task, seed or space"):
        search(tmp_path / "cut", seed=1).run(3)


def test_the_best_settings_are_a_config_to_fit_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(setting_search, "SPACE", SPACE)
    lines = [f"{a},{b}" for a, b in GRAPH.edge_list().tolist()]
    Path("edges.csv").write_text("source,target\n" + "\n".join(lines) + "\n")
    tune = ["tune", "edges.csv", "--source", "source", "--target", "target", "--trials", "2"]
    tune += ["--out", "t", "--sampler", "random"]
    monkeypatch.setattr(
        SettingSearch, "_score", lambda self, model: model.fit(self.graph).embedding_.shape[1] / 256
    )
    assert main(tune) == 0
    out = capsys.readouterr().out
    assert out.count("Trial") == 2
    assert "Frontier" in out
    assert "graphham fit edges.csv --source source --target target --config" in out
    assert main([*tune[:-2], "--sampler", "random", "--objectives", "speed"]) == 2
    assert main(["fit", "edges.csv", "--config", "t/best.toml", "--epochs", "1", "--quiet"]) == 0
    assert main(tune) == 0
    assert "Trial" not in capsys.readouterr().out.replace("Trials", "")


def test_settings_that_do_not_go_together_are_an_answer(tmp_path: Path) -> None:
    found = search(tmp_path / "s", space={"model.heads": (0,)}).run(2)
    assert found[1].values == {}
    assert "heads" in found[1].error
    assert frontier(found) == [found[0]]
    bare = gh.as_graph(GRAPH.edge_list())
    with pytest.raises(InputError, match="needs labels"):
        SettingSearch(bare, tmp_path / "c", "classify").run(1)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 3)), max_size=8),
    st.lists(st.sampled_from(sorted(OBJECTIVES)), min_size=1, max_size=3, unique=True),
)
def test_the_frontier_is_what_nothing_beats(rows: Any, names: list[str]) -> None:
    trials = [
        Trial(i, {}, {"score": float(s), "seconds": float(t), "dim": float(d)})
        for i, (s, t, d) in enumerate(rows)
    ]

    def beats(a: Trial, b: Trial) -> bool:
        sign = [1 if OBJECTIVES[n] == "max" else -1 for n in names]
        gaps = [f * (a.values[n] - b.values[n]) for f, n in zip(sign, names, strict=True)]
        return min(gaps) >= 0 and max(gaps) > 0

    expected = {t.number for t in trials if not any(beats(o, t) for o in trials)}
    assert {t.number for t in frontier(trials, names)} == expected


def test_optuna_is_told_every_trial_and_asked_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    fake: Any = ModuleType("optuna")
    fake.logging = SimpleNamespace(WARNING=0, set_verbosity=lambda level: None)
    fake.distributions = SimpleNamespace(CategoricalDistribution=lambda values: values)
    fake.samplers = SimpleNamespace(TPESampler=lambda seed: seed)
    fake.trial = SimpleNamespace(create_trial=lambda **about: about)
    proposed = {"dim": 16, "train.epochs": 1, "train.lr": 0.02}
    fake.create_study = lambda direction, sampler: SimpleNamespace(
        add_trial=told.append, ask=lambda space: SimpleNamespace(params=proposed)
    )
    monkeypatch.setitem(sys.modules, "optuna", fake)
    monkeypatch.setattr(setting_search.importlib.util, "find_spec", lambda name: object())
    found = search(tmp_path / "o", sampler="optuna").run(3)
    assert found[1].settings == found[2].settings == proposed
    assert [t["value"] for t in told] == [found[1].values["score"]]
    monkeypatch.setattr(setting_search.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"graphham\[tune\]"):
        search(tmp_path / "p", sampler="optuna").run(1)
    with pytest.raises(InputError, match="no sampler"):
        search(tmp_path / "q", sampler="grid").run(1)
