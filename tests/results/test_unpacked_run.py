"""Runs open from a zip as from their folder; what a stranger's zip may do is nothing."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

import graphham as gh
from graphham.cli.main import main
from graphham.errors import InputError
from graphham.results import unpacked_run
from graphham.results.export import export_run
from graphham.results.run_folder import Run
from tests.report.conftest import write_run


@pytest.fixture
def zipped(tmp_path: Path) -> Path:
    run = write_run(tmp_path / "run").rename_group(2, 0, "my own")
    (run.path / "report.html").write_text("left out")
    return export_run(run, tmp_path / "shared.zip", "zip").path


def test_a_zip_is_the_run(zipped: Path, tmp_path: Path) -> None:
    from_zip, from_folder = Run.open(zipped, verify=True), Run.open(tmp_path / "run")
    np.testing.assert_array_equal(from_zip.embedding, from_folder.embedding)
    assert from_zip.nodes.equals(from_folder.nodes)
    assert from_zip.hierarchy.names[1][0] == "my own"
    assert from_zip.graph().num_edges == from_folder.graph().num_edges
    assert not (from_zip.path / "report.html").exists()
    assert Run.open(zipped).path == from_zip.path  # unpacked once
    with pytest.raises(InputError, match="cannot be kept in a zip"):
        from_zip.rename_group(1, 0, "lost")


def test_a_fit_passed_on_as_a_zip_answers_the_same(tmp_path: Path) -> None:
    graph = gh.planted_hierarchy((2, 2), num_nodes=60, seed=0).graph
    model = gh.GraphHAM(groups=(4, 2), dim=8, epochs=1).fit(graph)
    run = model.save(tmp_path / "run")
    assert main(["export", str(run.path), "--out", str(tmp_path / "a.zip")]) == 0
    loaded = gh.load(tmp_path / "a.zip")
    np.testing.assert_array_equal(loaded.transform(graph), model.transform(graph))


def test_a_report_of_a_zip_is_written_where_it_stays(
    zipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(zipped)]) == 0
    assert (tmp_path / "shared-report.html").is_file()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../outside", "outside of it"),
        ("/etc/x", "outside of it"),
        ("two/summary.json", "holds no"),
    ],
)
def test_what_a_zip_may_not_name(zipped: Path, name: str, words: str) -> None:
    with zipfile.ZipFile(zipped, "a") as archive:
        archive.writestr(name, "x")
    with pytest.raises(InputError, match=words):
        Run.open(zipped)


def test_damaged_and_monstrous_zips_are_refused(
    zipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = bytearray(zipped.read_bytes())
    (tmp_path / "cut.zip").write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match="damaged"):
        Run.open(tmp_path / "cut.zip")
    monkeypatch.setattr(unpacked_run, "unpack_limit", lambda size: 1000)
    with pytest.raises(InputError, match="above the limit of 1,000"):
        Run.open(zipped)
