"""Starting is cheap: no numeric library is loaded before a command needs it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import graphham
from graphham.cli.main import app
from tests.reference.processes import imported

from .conftest import Graphham, process

HEAVY = ("torch", "sklearn", "scipy", "pyarrow", "numpy", "numba", "pandas")


@pytest.mark.parametrize(
    "work",
    [
        "import graphham",
        "from graphham.cli import main; main(['--help'])",
        "from graphham.cli import main; main(['fit', '--help'])",
        "from graphham.cli import main; main(['data', 'list'])",
        "from graphham.cli import main; main(['fit', 'cora', '--epochs', '-1'])",
    ],
)
def test_nothing_heavy_is_imported(work: str) -> None:
    assert imported(work, HEAVY) == []


def test_help_answers_quickly(tmp_path: Path) -> None:
    def seconds() -> float:
        begin = time.perf_counter()
        assert process("--help", cwd=tmp_path).code == 0
        return time.perf_counter() - begin

    # Under half a second on a quiet machine; the margin is for a busy one.
    assert min(seconds() for _ in range(3)) < 1.5


def test_every_public_name_can_be_loaded() -> None:
    for name in graphham.__all__:
        assert getattr(graphham, name) is not None
    assert set(graphham.__all__) <= set(dir(graphham))
    with pytest.raises(AttributeError, match="GraphHAMM"):
        graphham.GraphHAMM  # noqa: B018


def test_version_and_bare_command(graphham: Graphham) -> None:
    from graphham import __version__

    assert graphham("--version").out == f"graphham {__version__}\n"
    for arguments in ((), ("data",)):
        seen = graphham(*arguments)
        assert (seen.code, seen.err) == (0, "")
        assert "Usage" in seen.out


def test_every_command_has_an_example(graphham: Graphham) -> None:
    names = [[c.name or c.callback.__name__] for c in app.registered_commands]  # type: ignore[union-attr]
    for group in app.registered_groups:
        inner = group.typer_instance.registered_commands  # type: ignore[union-attr]
        names += [[str(group.name), c.name or c.callback.__name__] for c in inner]  # type: ignore[union-attr]
    assert len(names) >= 14
    for name in names:
        seen = graphham(*name, "--help")
        assert seen.code == 0
        assert "Example" in seen.out
        assert f"graphham {' '.join(name)}" in seen.out.partition("Example")[2]


def test_the_shell_can_complete_commands() -> None:
    """What the installed bash function asks of the program, as it asks it."""
    asked = {"_GRAPHHAM_COMPLETE": "complete_bash", "COMP_WORDS": "graphham ex", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", "from graphham.cli.main import app; app(prog_name='graphham')"],
        capture_output=True,
        text=True,
        env={**os.environ, **asked},
    )
    assert done.stdout.split() == ["explore", "explain", "export"]


@pytest.mark.parametrize(
    ("typed", "completed"),
    [("graphham neigh", "neighbors"), ("graphham neighbors --ins", "--inside")],
)
def test_the_tab_key_completes_commands_and_options(typed: str, completed: str) -> None:
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    done = subprocess.run(
        [str(Path(sys.executable).with_name("graphham"))],
        env={**os.environ, "_GRAPHHAM_COMPLETE": "complete_bash", **words},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [completed]
