"""Looking at a run needs no right to write into it."""

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from graphham.results.run_writer import Run

from .conftest import Graphham, contents


@pytest.fixture
def read_only(run: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run on a disk that refuses to write; root may write wherever permissions say otherwise."""
    folder = run.path.resolve()
    real_open = os.open

    def refuse(path: Any, flags: int, *more: Any, **named: Any) -> int:
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writes and Path(os.fsdecode(path)).resolve().is_relative_to(folder):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return real_open(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(tempfile, "_os", os, raising=False)
    return folder


def test_report_and_page_of_a_read_only_run(
    graphham: Graphham, read_only: Path, tmp_path: Path
) -> None:
    before = contents(read_only)
    seen = graphham("report", "run")
    assert seen.code == 0, seen.err
    assert "run-report.html" in seen.out
    assert (tmp_path / "run-report.html").stat().st_size > 10_000
    assert graphham("report", "run").code == 2  # a page in the user's own folder is not replaced
    assert graphham("report", "run", "--out", "other.html").code == 0
    seen = graphham("explore", "run", "--export", "page")
    assert seen.code == 0, seen.err
    assert (tmp_path / "page" / "index.html").is_file()
    assert contents(read_only) == before


def test_places_on_the_map_of_a_read_only_run(read_only: Path) -> None:
    from graphham.results.projection import place_on_map

    run = Run.open(read_only)
    assert place_on_map(run, run.embedding).shape == (30, 2)
    assert not (read_only / "map.npz").exists()
