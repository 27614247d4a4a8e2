from pathlib import Path

import pytest

import graphham as gh
from graphham.cli.main import main
from graphham.errors import InputError
from graphham.results.names import GroupFacts
from graphham.results.run_folder import Run
from graphham.results.run_names import name_run
from tests.report.conftest import write_run


def test_what_a_namer_said_is_kept_and_not_asked_again(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run").rename_group(1, 0, "mine")
    asked: list[tuple[int, int]] = []

    def namer(facts: GroupFacts) -> str:
        asked.append((facts.level, facts.group))
        return f"name {facts.level}.{facts.group}"

    named = name_run(run, namer=namer)
    assert (1, 0) not in asked
    assert len(asked) == len(set(asked)) == sum(s > 0 for s in run.groups["size"].to_pylist()) - 1
    assert named.hierarchy.names[0][0] == "mine"
    assert named.hierarchy.names[1][0] == "name 2.0"
    again = name_run(Run.open(run.path), namer=namer)
    assert len(asked) == len(set(asked))
    assert again.hierarchy.names == named.hierarchy.names
    name_run(again, namer=namer, again=True)
    assert len(asked) == 2 * len(set(asked))
    usual = name_run(Run.open(run.path))
    assert usual.hierarchy.names[0][0] == "mine"
    assert usual.hierarchy.names[1] == Run.open(write_run(tmp_path / "b").path).hierarchy.names[1]


def test_answers_survive_a_namer_that_fails(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    answers = iter(["first", "second"])
    with pytest.raises(StopIteration):
        name_run(run, namer=lambda facts: next(answers))
    assert sorted(run.renamed.values()) == ["first", "second"]
    asked = []
    name_run(run, namer=lambda facts: asked.append(facts) or f"later {facts.level}.{facts.group}")
    assert {"first", "second"} <= set(run.renamed.values())
    assert not {f.suggestion for f in asked} & {"first", "second"}
    assert all((f.level, f.group) not in {(2, 0)} for f in asked if "first" in run.hierarchy.names)


def test_labels_name_groups_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write_run(tmp_path / "run").path)
    assert main(["names", path]) == 0
    before = capsys.readouterr().out
    assert "[label]" not in before
    assert main(["names", path, "--labels"]) == 0
    assert "[label]" in capsys.readouterr().out
    assert main(["names", path, "--usual"]) == 0
    assert capsys.readouterr().out == before
    assert main(["names", path, "--usual", "--labels"]) == 2
    bare = write_run(tmp_path / "bare", labels="none")
    with pytest.raises(InputError, match="no labels"):
        name_run(bare, by_labels=True)
    with pytest.raises(InputError, match="not both"):
        name_run(bare, namer=str, by_labels=True)  # type: ignore[arg-type]


def test_a_models_names_stay_through_saving(tmp_path: Path) -> None:
    graph = gh.planted_hierarchy((2, 2), num_nodes=60, seed=0).graph
    model = gh.GraphHAM(groups=(4, 2), dim=8, epochs=1).fit(graph)
    calls: list[GroupFacts] = []

    def namer(facts: GroupFacts) -> str:
        calls.append(facts)
        return f"my {facts.level}.{facts.group}"

    table = model.name_groups(namer)
    assert set(table["name"].to_pylist()[-2:]) == {"my 2.0", "my 2.1"}
    count = len(calls)
    model.name_groups(namer)
    assert len(calls) == count
    run = model.save(tmp_path / "run")
    assert run.hierarchy.names[1] == ("my 2.0", "my 2.1")
    loaded = gh.load(tmp_path / "run")
    assert loaded.groups_table()["name"].to_pylist() == table["name"].to_pylist()
    loaded.name_groups(namer)
    assert len(calls) == count
    assert "my 1." in str(loaded.explain(loaded.ids_[0]))
    usual = loaded.name_groups()["name"].to_pylist()
    assert not any(name.startswith("my ") for name in usual)
