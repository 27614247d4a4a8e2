"""A fit computes each fact once, keeps it, and says the same after saving and loading."""

import os
import stat
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import graphham as gh
from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.graph.neighborhoods import Block
from graphham.methods import DeepMinCut, DeepWalk
from graphham.results import hierarchy, result
from graphham.results.hierarchy import Hierarchy
from tests.reference.graphs import planted

SMALL = {"groups": (6, 2), "dim": 16, "epochs": 2}


def fresh() -> Graph:
    return planted().graph


@pytest.mark.parametrize("task", ["embed", "classify"])
def test_a_fit_and_its_folder_compute_each_fact_once(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: Counter[str] = Counter()

    def counted(name: str, inner: object) -> object:
        def call(*arguments: object, **more: object) -> object:
            seen[name] += 1
            return inner(*arguments, **more)  # type: ignore[operator]

        return call

    hashed = vars(Graph)["_fingerprint"]
    monkeypatch.setattr(hashed, "func", counted("fingerprint", hashed.func))
    made = counted("hierarchy", Hierarchy.from_groups.__func__)  # type: ignore[attr-defined]
    monkeypatch.setattr(Hierarchy, "from_groups", classmethod(made))  # type: ignore[arg-type]
    metrics = counted("metrics", hierarchy.hierarchy_metrics)
    monkeypatch.setattr(result, "hierarchy_metrics", metrics)
    made = counted("block", Block._make_full.__func__)  # type: ignore[attr-defined]
    monkeypatch.setattr(Block, "_make_full", classmethod(made))  # type: ignore[arg-type]

    graph = fresh()
    model = gh.GraphHAM(**SMALL, task=task).fit(graph)
    model.save(tmp_path / "run")
    # With and without self edges are two blocks.
    assert seen.pop("block") <= 2
    assert seen == {"fingerprint": 1, "hierarchy": 1, "metrics": 1}


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_the_tree_is_told_once_and_in_one_way(preset: str, tmp_path: Path) -> None:
    settings = {"loss.walks": 1}
    model = gh.GraphHAM(**SMALL, preset=preset, settings=settings).fit(fresh())
    run = model.save(tmp_path / "run")
    assert "metrics" not in run.summary
    said = run.summary["hierarchy"]["parents_from"]
    assert said == ("majority" if preset == "paper" else "model")
    assert said == run.hierarchy.parents_from == model.hierarchy_.parents_from  # type: ignore[union-attr]
    assert run.summary["hierarchy"] == pytest.approx(model.result_.metrics)
    loaded = gh.load(run.path)
    assert loaded.result_.metrics == pytest.approx(model.result_.metrics)
    for mine, theirs in zip(model.result_.parents, loaded.result_.parents, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("make", [lambda: gh.GraphHAM(**SMALL), lambda: DeepWalk(walks=2, dim=8)])
def test_saving_and_loading_changes_nothing_the_summary_says(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    model = make().fit(fresh())
    model.save(tmp_path / "run")
    loaded = gh.load(tmp_path / "run")
    for part in ("graph", "training", "cost", "versions", "notes"):
        assert loaded.summary_[part] == model.summary_[part], part
    again = loaded.save(tmp_path / "again")
    assert again.summary["graph"] == model.summary_["graph"]
    assert again.summary["method"] == loaded.summary_["method"]


def test_files_of_a_run_have_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    model = DeepMinCut(steps=3, dim=4).fit(fresh())
    before = os.umask(0o027)
    try:
        model.save(tmp_path / "run")
    finally:
        os.umask(before)
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "run").iterdir()}
    assert modes.pop("graph") & 0o111
    assert set(modes.values()) == {0o640}, modes


def test_a_folder_that_cannot_be_finished_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = DeepWalk(walks=2, dim=8).fit(fresh())

    def fail(folder: Path) -> list[str]:
        raise InputError("the disk is full")

    monkeypatch.setattr(model, "write_outputs", fail)
    with pytest.raises(InputError, match="disk is full"):
        model.save(tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_the_files_of_a_replaced_run_go_with_it(tmp_path: Path) -> None:
    DeepMinCut(steps=3, dim=4).fit(fresh()).save(tmp_path / "run")
    (tmp_path / "run" / "my notes.txt").write_text("mine")
    run = DeepWalk(walks=2, dim=8).fit(fresh()).save(tmp_path / "run", overwrite=True)
    names = {p.name for p in run.path.iterdir()}
    assert "my notes.txt" in names
    assert not names & {"communities.npy", "groups.parquet", "hierarchy.json"}
    assert not run.has_groups
    with pytest.raises(InputError, match="method deepwalk has no groups"):
        _ = run.hierarchy


def test_a_graphham_run_of_the_first_format_still_opens(tmp_path: Path) -> None:
    import json

    model = gh.GraphHAM(**SMALL).fit(fresh())
    model.save(tmp_path / "run")
    path = tmp_path / "run" / "summary.json"
    summary = json.loads(path.read_text())
    del summary["method"], summary["keeps_graph"], summary["checksum"], summary["checksums"]
    summary |= {"format_version": 1, "metrics": summary["hierarchy"]}
    path.write_text(json.dumps(summary))
    loaded = gh.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.transform(fresh()), model.embedding_)
