"""A full disk is one sentence with the folder and the bytes, and nothing is lost."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphham.results.run_folder import Run

from .conftest import graph_options, process

FIT = ["--groups", "6,2", "--dim", "16", "--epochs", "2", "--out"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    size = "size=4m"
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", place], capture_output=True)
    if done.returncode:
        pytest.skip("a small disk can only be mounted by root")
    yield place
    subprocess.run(["umount", place], check=True)


def leave(disk: Path, kilobytes: int) -> Path:
    """Fill a disk but for some room."""
    (disk / "filler").unlink(missing_ok=True)
    import shutil

    room = shutil.disk_usage(disk).free - 1024 * kilobytes
    (disk / "filler").write_bytes(bytes(room))
    return disk / "filler"


@pytest.mark.parametrize("kilobytes", [12, 40])
def test_a_fit_on_a_full_disk_goes_on_with_resume(
    small_disk: Path, planted_files: Path, kilobytes: int
) -> None:
    filler = leave(small_disk, kilobytes)
    out = str(small_disk / "run")
    seen = process("fit", *graph_options(planted_files), *FIT, out, cwd=small_disk.parent)
    assert seen.code == 2, seen.err
    sentence = seen.err.strip().splitlines()[-1]
    assert sentence.startswith("Error: ")
    assert "bug" not in sentence
    assert "None" not in sentence
    assert str(small_disk) in sentence
    begun = (small_disk / "run.partial" / "config.toml").is_file()
    if begun:
        assert "bytes are needed" in sentence
        assert "--resume" in sentence
    filler.unlink()
    how = ["--resume"] if begun else []
    again = process("fit", *graph_options(planted_files), *FIT, out, *how, cwd=small_disk.parent)
    assert again.code == 0, again.err
    Run.open(out, verify=True).result()


def test_stores_and_exports_on_a_full_disk(
    small_disk: Path, planted_files: Path, tmp_path: Path
) -> None:
    import numpy as np

    from graphham.cli import main
    from tests.outputs import make_graph, make_result

    leave(small_disk, 8)
    place = str(small_disk / "store")
    seen = process("ingest", *graph_options(planted_files), "--out", place, cwd=tmp_path)
    assert seen.code == 2, seen.err
    assert "no room for" in seen.err or "cannot write" in seen.err or "make room" in seen.err
    assert "None" not in seen.err

    from graphham.results.run_writer import start_run

    result = make_result(3000)
    state = {"w": np.zeros(3)}
    run = start_run(tmp_path / "run", {"seed": 1}).finish(result, state, make_graph(result), {})
    for name in ("vectors.csv", "vectors.parquet", "vectors.txt", "graph.graphml", "arrays.npz"):
        seen = process("export", str(run.path), "--out", str(small_disk / name), cwd=tmp_path)
        assert seen.code == 2, (name, seen.err)
        assert "no room for" in seen.err, (name, seen.err)
    seen = process("report", str(run.path), "--out", str(small_disk / "r.html"), cwd=tmp_path)
    assert seen.code == 2
    assert "None" not in seen.err
    assert [p.name for p in small_disk.iterdir()] == ["filler"]
    assert main(["info", str(run.path)]) == 0


def test_errors_of_other_libraries_are_recognised() -> None:
    from graphham.system.disk_room import is_full

    assert is_full(OSError(28, "No space left on device"))
    assert is_full(RuntimeError("I/O error: No space left on device (os error 28)"))
    assert is_full(OSError("3840 requested and 992 written"))
    assert not is_full(OSError(13, "Permission denied"))
    assert not is_full(RuntimeError("os error 280"))
