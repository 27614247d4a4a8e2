"""The demo replaces an earlier demo and nothing else."""

import json
from pathlib import Path

import pytest

from .conftest import Graphham, contents, process


@pytest.mark.parametrize("folder", ["runs/cora-demo", "runs/cora-demo.partial"])
def test_what_is_no_demo_is_kept(folder: str, graphham: Graphham, tmp_path: Path) -> None:
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "config.toml").write_text('task = "embed"\npreset = "paper"\nseed = 0\n')
    before = contents(tmp_path)
    seen = graphham("demo", "--fast")
    assert seen.code == 2
    assert f"{folder} exists and is not an earlier demo" in seen.err
    assert contents(tmp_path) == before


@pytest.mark.slow
def test_demo_twice(tmp_path: Path) -> None:
    for _ in range(2):
        seen = process("demo", "--fast", cwd=tmp_path)
        assert (seen.code, seen.err) == (0, "")
        assert "Next" in seen.out
    summary = json.loads((tmp_path / "runs/cora-demo/summary.json").read_text())
    assert summary["graph"]["name"] == "cora"
