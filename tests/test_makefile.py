"""The Makefile offers what the README says about the size of torch."""

import re
import subprocess
from pathlib import Path

import pytest

from scripts import wheel_check

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("index", ["", "somewhere/cpu"])
def test_torch_is_taken_from_the_index_that_is_named(index: str) -> None:
    done = subprocess.run(
        ["make", "-n", "-B", "demo", f"TORCH_INDEX={index}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    (install,) = [line for line in done.stdout.splitlines() if "pip install" in line]
    assert ("--extra-index-url somewhere/cpu" in install) == bool(index)
    assert "--constraint constraints.txt" in install


def test_the_check_of_the_wheel_takes_torch_from_there_too(monkeypatch: pytest.MonkeyPatch) -> None:
    # It has an environment of its own, which got the large build whatever was asked for.
    command = ["make", "-n", "-B", "wheel-check", "TORCH_INDEX=somewhere/cpu"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "TORCH_INDEX='somewhere/cpu'" in done.stdout
    monkeypatch.setenv("TORCH_INDEX", "somewhere/cpu")
    assert wheel_check.torch_from() == ["--extra-index-url", "somewhere/cpu"]
    monkeypatch.setenv("TORCH_INDEX", "")
    assert wheel_check.torch_from() == []


def test_the_readme_says_what_a_plain_machine_downloads() -> None:
    text = (ROOT / "README.md").read_text()
    assert "and CPU torch" not in text
    (passage,) = [line for line in text.splitlines() if line.startswith("Which torch that is")]
    assert "On Linux the public index alone gives the build with CUDA libraries" in passage
    assert "`make demo TORCH_INDEX=ADDRESS`" in passage
    # Both sizes, measured for the version that is pinned.
    (version,) = re.findall(r"^torch==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert f"for torch {version}" in passage
    large = float(re.findall(r"about ([\d.]+) GB to download", passage)[0])
    small = float(re.findall(r"CPU build is one file of (\d+) MB", passage)[0])
    assert large * 1000 > 5 * small > 500
