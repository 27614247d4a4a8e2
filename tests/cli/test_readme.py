"""What the README says must be true: its code runs and its commands exist."""

import re
import shlex
from pathlib import Path

import pytest

from graphham.cli.main import app

README = Path(__file__).resolve().parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text("utf-8"), re.DOTALL)


def test_the_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = blocks("python")[0]
    assert "seed=0)" in code
    names: dict[str, object] = {}
    exec(code.replace("seed=0)", "seed=0, dim=16, epochs=3)"), names)
    again = names["gh"].load("runs/cora").transform(names["graph"])  # type: ignore[attr-defined]
    assert (again == names["model"].embedding_).all()  # type: ignore[attr-defined]


def test_the_commands_of_the_readme_exist() -> None:
    options = {
        c.callback.__name__: set(re.findall(r"--[a-z]+", _source(c.callback)))  # type: ignore[union-attr]
        for c in app.registered_commands
    }
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    used = [shlex.split(line, comments=True) for line in lines if line.startswith("graphham ")]
    assert len(used) >= 3
    for _, command, *rest in used:
        assert {word for word in rest if word.startswith("--")} <= options[command]


def _source(function: object) -> str:
    import inspect

    from graphham.cli import options

    return inspect.getsource(function) + inspect.getsource(options)  # type: ignore[arg-type]
