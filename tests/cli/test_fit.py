"""Fit from files to a run folder, stop it, kill it, resume it, and use what it left."""

import errno
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import normalized_mutual_info_score

from graphham.graph.planted import PlantedGraph
from graphham.results.run_writer import Run

from .conftest import Graphham, command, contents, graph_options, process

FILES = {
    "README.md",
    "config.toml",
    "embedding.npy",
    "graph",
    "groups.parquet",
    "hierarchy.json",
    "metrics.jsonl",
    "model.safetensors",
    "nodes.parquet",
    "summary.json",
}


def test_files_in_run_folder_out(
    graphham: Graphham, tmp_path: Path, planted: PlantedGraph, planted_files: Path
) -> None:
    seen = graphham(
        *("fit", *graph_options(planted_files), "--labels", f"{planted_files / 'nodes.csv'}:topic"),
        *("--groups", "6,2", "--dim", "32", "--epochs", "30", "--out", "runs/small"),
    )
    assert (seen.code, seen.err) == (0, "")
    for word in ("Reading", "Plan", "Training", "Groups", "Wrote", "Next"):
        assert any(line.startswith(word) for line in seen.out.splitlines()), word
    folder = tmp_path / "runs" / "small"
    assert {p.name for p in folder.iterdir()} == FILES
    run = Run.open(folder)
    assert run.summary["status"] == "complete"
    assert run.embedding.shape == (240, 32)
    ids = run.nodes.column("id").to_pylist()
    assert sorted(ids) == sorted(f"n{100 + 7 * row}" for row in range(240))
    truth = [planted.levels[-1][(int(i[1:]) - 100) // 7] for i in ids]
    found = run.nodes.column("group_2").to_pylist()
    assert normalized_mutual_info_score(truth, found) > 0.5
    assert run.nodes.column("label").to_pylist() == [f"topic {t}" for t in truth]
    before = contents(tmp_path)
    again = graphham("fit", *graph_options(planted_files), "--out", "runs/small")
    assert again.code == 2
    assert contents(tmp_path) == before


@pytest.mark.parametrize("labels", [[1, 2, 1, 2, None], ["x", "y", "x", "", "y"]])
def test_labels_of_the_feature_table_are_no_features(
    graphham: Graphham, tmp_path: Path, labels: list[object]
) -> None:
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n1,2\n2,3\n3,4\n")
    columns = {"id": [0, 1, 2, 3, 4], "size": [5, 1, 4, 2, 3], "topic": labels, "name": [*"abcde"]}
    pq.write_table(pyarrow.table(columns), tmp_path / "nodes.parquet")
    tables = ("--features", "nodes.parquet", "--labels", "./nodes.parquet:topic")
    stored = graphham("ingest", "edges.csv", *tables, "--out", "store")
    fitted = graphham("fit", "edges.csv", *tables, "--method", "logreg", "--out", "run")
    for seen in (stored, fitted):
        assert (seen.code, seen.err) == (0, "")
        assert "1 feature (" in seen.out
        assert "the column topic holds the labels" in seen.out
        assert "not features: name" in seen.out


def test_classify_predicts_in_the_users_own_words(
    graphham: Graphham, tmp_path: Path, planted_files: Path
) -> None:
    seen = graphham(
        *("fit", *graph_options(planted_files), "--labels", f"{planted_files / 'nodes.csv'}:topic"),
        *("--task", "classify", "--groups", "6,2", "--dim", "32", "--epochs", "10"),
    )
    assert (seen.code, seen.err) == (0, "")
    nodes = Run.open(tmp_path / "runs" / "edges").nodes
    label, said = (np.array(nodes.column(n).to_pylist(), object) for n in ("label", "prediction"))
    known = label != None  # noqa: E711 - element by element
    right = np.mean(label[known] == said[known])
    assert "on the validation nodes" in seen.out
    assert f"accuracy {right:.1%} on all {known.sum():,} labelled nodes" in seen.out
    assert set(nodes.column("prediction").to_pylist()) <= {"topic 0", "topic 1"}
    assert len(nodes.column("confidence")) == 240


def test_config_of_a_run_repeats_it(graphham: Graphham, tmp_path: Path) -> None:
    first = ("fit", "edges.txt", "--groups", "3,2", "--dim", "8", "--set", "train.lr=0.02")
    ring = [f"{i} {(i + step) % 40}" for i in range(40) for step in (1, 2)]
    (tmp_path / "edges.txt").write_text("\n".join(ring))
    assert graphham(*first, "--epochs", "4", "--seed", "3", "--out", "a").code == 0
    assert graphham("fit", "edges.txt", "--config", "a/config.toml", "--out", "b").code == 0
    a, b = Run.open(tmp_path / "a"), Run.open(tmp_path / "b")
    assert a.config == b.config
    assert a.config["train"]["lr"] == 0.02
    np.testing.assert_array_equal(a.embedding, b.embedding)
    assert (tmp_path / "a/nodes.parquet").read_bytes() == (
        tmp_path / "b/nodes.parquet"
    ).read_bytes()


@pytest.mark.parametrize("rate", ["1e7", "1e30"])
@pytest.mark.parametrize("task", ["embed", "classify"])
@pytest.mark.parametrize("batch", ["full", "sampled"])
def test_vectors_that_are_not_finite_are_no_run(
    graphham: Graphham, tmp_path: Path, planted_files: Path, batch: str, task: str, rate: str
) -> None:
    fit = ("fit", *graph_options(planted_files), "--labels", f"{planted_files / 'nodes.csv'}:topic")
    fit += ("--dim", "16", "--epochs", "4", "--task", task, "--set", f"train.batch={batch}")
    fit += ("--out", "run", "--quiet")
    assert graphham(*fit).code == 0
    before = contents(tmp_path)
    seen = graphham(*fit, "--overwrite", "--set", f"train.lr={rate}")
    assert seen.code == 2
    assert f"train.lr = {float(rate):g}" in seen.err
    assert "smaller train.lr" in seen.err
    assert len(seen.err.strip().splitlines()) == 1
    assert seen.out.count("training strayed in epoch") == 3  # it went back, and said so
    assert contents(tmp_path) == before  # nor is anything left beside it


def test_features_that_cannot_be_squared_are_refused(
    graphham: Graphham, tmp_path: Path, planted_files: Path
) -> None:
    lines = (planted_files / "features.csv").read_text().splitlines()
    head, first, *rest = lines
    cells = first.split(",")
    cells[1] = "1e38"
    (tmp_path / "huge.csv").write_text("\n".join([head, ",".join(cells), *rest]) + "\n")
    edges = str(planted_files / "edges.csv")
    seen = graphham("fit", edges, "--features", "huge.csv", "--out", "run", "--epochs", "1")
    assert seen.code == 2
    assert "1e+38" in seen.err
    assert "scale the features" in seen.err
    assert not (tmp_path / "run").exists()


SMALL = ["--groups", "6,2", "--dim", "32", "--epochs", "60", "--set", "train.checkpoint_every=0"]


def start(folder: Path, arguments: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command(*arguments),
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def wait_for_epoch(log: Path, epoch: int, running: "subprocess.Popen[str]") -> None:
    """Return once a checkpoint of that epoch exists; fail when the process ends before."""
    pointer = log.with_name("checkpoint.json")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        lines = log.read_text().count("\n") if log.exists() else 0
        if lines >= epoch and pointer.exists():
            return
        assert running.poll() is None, running.communicate()
        time.sleep(0.005)
    raise AssertionError("no epoch was logged within two minutes")


def test_kill_and_resume_equals_an_uninterrupted_run(tmp_path: Path, planted_files: Path) -> None:
    arguments = ["fit", *graph_options(planted_files), *SMALL]
    whole = process(*arguments, "--out", "whole", cwd=tmp_path)
    assert (whole.code, whole.err) == (0, "")
    for epoch in (5, 40):
        out = f"killed{epoch}"
        running = start(tmp_path, [*arguments, "--out", out])
        wait_for_epoch(tmp_path / f"{out}.partial" / "metrics.jsonl", epoch, running)
        running.kill()
        running.communicate()
        assert not (tmp_path / out).exists()
        refused = process(*arguments, "--out", out, cwd=tmp_path)
        assert refused.code == 2
        assert "--resume" in refused.err
        resumed = process(*arguments, "--out", out, "--resume", cwd=tmp_path)
        assert (resumed.code, resumed.err) == (0, "")
        assert "Resuming" in resumed.out
        assert not (tmp_path / f"{out}.partial").exists()
        a, b = Run.open(tmp_path / "whole"), Run.open(tmp_path / out)
        np.testing.assert_array_equal(a.embedding, b.embedding)
        assert a.nodes.equals(b.nodes)
        assert [m["epoch"] for m in a.metrics] == [m["epoch"] for m in b.metrics]


def test_resuming_a_finished_run_says_so_and_changes_nothing(
    tmp_path: Path, planted_files: Path, graphham: Graphham, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["fit", *graph_options(planted_files), *SMALL, "--epochs", "2", "--out", "run"]
    real = Path.rename

    def full(path: Path, target: Path) -> Path:
        if path.name == "run.partial":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return real(path, target)

    monkeypatch.setattr(Path, "rename", full)
    failed = graphham(*arguments)  # everything is written, and the last rename fails
    assert failed.code == 2
    assert "--resume" in failed.err
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    seen = []
    for _ in range(2):  # the first gives the run its name, the second finds it finished
        again = graphham(*arguments, "--resume")
        assert (again.code, again.err) == (0, "")
        assert "before, so there was nothing to resume" in again.out
        assert not (tmp_path / "run.partial").exists()
        seen.append(contents(tmp_path / "run"))
    assert seen[0] == seen[1]
    Run.open(tmp_path / "run", verify=True)
    # What was finished is not what this command asks for: that is no success.
    other = graphham("fit", str(planted_files / "edges.csv"), "--out", "run", "--resume")
    assert other.code == 2
    assert "another graph" in other.err
    assert graphham(*arguments, "--resume", "--dim", "64").code == 2


def test_ctrl_c_leaves_a_usable_run_that_can_be_resumed(
    tmp_path: Path, planted_files: Path, graphham: Graphham
) -> None:
    arguments = ["fit", *graph_options(planted_files), *SMALL, "--epochs", "400", "--out", "run"]
    running = start(tmp_path, arguments)
    wait_for_epoch(tmp_path / "run.partial" / "metrics.jsonl", 5, running)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=120)
    assert running.returncode == 130
    assert err == ""
    assert "--resume" in out
    run = Run.open(tmp_path / "run")
    assert run.summary["status"] == "interrupted"
    assert run.embedding.shape == (240, 32)
    assert np.isfinite(run.embedding).all()
    assert graphham("export", "run", "--out", "v.csv").code == 0
    resumed = start(tmp_path, [*arguments, "--resume"])
    wait_for_epoch(tmp_path / "run.partial" / "metrics.jsonl", len(run.metrics) + 2, resumed)
    resumed.send_signal(signal.SIGINT)
    assert "Resuming" in resumed.communicate(timeout=120)[0]
    epochs = [m["epoch"] for m in Run.open(tmp_path / "run").metrics if "epoch" in m]
    assert epochs == sorted(set(epochs))
