"""``data``, ``ingest``, ``info`` and ``export``: commands that need no training."""

import csv
import io
import os
from pathlib import Path

import numpy as np
import pytest

from graphham.graph.store import open_store
from graphham.results.run_writer import Run

from .conftest import Graphham, contents


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No data folder and an empty cache, whatever this machine has."""
    monkeypatch.delenv("GRAPHHAM_DATA", raising=False)
    monkeypatch.setenv("GRAPHHAM_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.mark.usefixtures("offline")
def test_list_names_every_dataset_and_where_it_is(graphham: Graphham) -> None:
    lines = graphham("data", "list").out.splitlines()
    assert len(lines) == 11
    assert any(line.startswith("cora ") and "in the package" in line for line in lines)
    assert any(line.startswith("pubmed ") and "to download" in line for line in lines)


def test_info_tells_the_licence(graphham: Graphham) -> None:
    assert "Apache-2.0" in graphham("data", "info", "cora").out


def test_get_of_an_embedded_dataset_downloads_nothing(graphham: Graphham) -> None:
    assert "part of the package" in graphham("data", "get", "cora").out


def test_table_gives_the_same_numbers_in_every_format(graphham: Graphham) -> None:
    plain, marked, comma = (
        graphham("data", "table", "--names", "cora", "--format", form).out
        for form in ("text", "markdown", "csv")
    )
    row = next(csv.DictReader(io.StringIO(comma)))
    assert (row["nodes"], row["edges"], row["raw_edges"]) == ("2708", "5278", "5429")
    assert float(row["clustering"]) == pytest.approx(0.241, abs=5e-4)
    assert plain.splitlines()[1].split()[:4] == ["cora", "2,708", "5,278", "5,429"]
    assert [c.strip() for c in marked.splitlines()[2].split("|")][1:4] == ["cora", "2,708", "5,278"]


def test_a_dataset_name_wins_over_a_file_of_that_name(graphham: Graphham, tmp_path: Path) -> None:
    (tmp_path / "cora").write_text("a b\nb c\n")
    assert "2,708 nodes" in graphham("info", "cora").out
    assert "3 nodes" in graphham("info", "./cora").out


def test_ingest_writes_a_store_that_fit_can_name(
    graphham: Graphham, tmp_path: Path, planted_files: Path
) -> None:
    seen = graphham(
        *("ingest", str(planted_files / "edges.csv"), "--out", "stores/mine", "--verify"),
        *("--features", str(planted_files / "features.csv")),
        *("--labels", f"{planted_files / 'nodes.csv'}:topic"),
    )
    assert (seen.code, seen.err) == (0, "")
    assert "Verified" in seen.out
    graph = open_store(tmp_path / "stores" / "mine")
    assert graph.ids[0].startswith("n")  # type: ignore[union-attr]
    assert graph.num_features == 60
    assert graph.labels is not None
    assert set(graph.labels.classes) == {"topic 0", "topic 1"}
    assert "240 nodes" in graphham("info", "stores/mine").out
    before = contents(tmp_path)
    assert graphham("ingest", "cora", "--out", "stores/mine").code == 2
    assert contents(tmp_path) == before
    assert graphham("ingest", "cora", "--out", "stores/mine", "--overwrite").code == 0
    assert open_store(tmp_path / "stores" / "mine").num_nodes == 2708


def test_info_of_a_run_draws_its_tree(graphham: Graphham, run: Run) -> None:
    seen = graphham("info", "run")
    assert seen.code == 0
    assert "30 nodes" in seen.out
    sizes = run.groups.column("size").to_pylist()
    tree = seen.out.partition("Tree")[2].splitlines()
    assert len([line for line in tree if line.strip()]) == np.count_nonzero(sizes)


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    import subprocess

    from .conftest import command

    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        command("data", "list"), stdout=write, stderr=subprocess.PIPE, cwd=tmp_path, check=False
    )
    os.close(write)
    assert b"Traceback" not in done.stderr
    assert b"bug" not in done.stderr
