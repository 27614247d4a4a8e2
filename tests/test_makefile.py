"""The Makefile offers what the README says about the size of torch."""

import subprocess
from pathlib import Path

import pytest

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


def test_the_readme_does_not_promise_cpu_torch() -> None:
    text = (ROOT / "README.md").read_text()
    assert "and CPU torch" not in text
    assert "TORCH_INDEX=" in text
