"""Small graphs as files, and two ways to run the command line."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from graphham.cli import main
from graphham.graph.planted import PlantedGraph, planted_hierarchy
from graphham.results.run_writer import Run, start_run
from tests.outputs import make_graph, make_result


@dataclass(frozen=True)
class Outcome:
    """What a command left on the screen."""

    code: int
    out: str
    err: str


Graphham = Callable[..., Outcome]


@pytest.fixture
def graphham(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Graphham:
    """Run the command line in this process, inside an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "100")  # help is wrapped to the width of the terminal

    def run(*arguments: str) -> Outcome:
        capsys.readouterr()
        code = main(list(arguments))
        seen = capsys.readouterr()
        return Outcome(code, seen.out, seen.err)

    return run


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "graphham", *arguments]


def process(*arguments: str, cwd: Path, **variables: str) -> Outcome:
    """Run the command line as its own process."""
    done = subprocess.run(
        command(*arguments),
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return everything below a folder, to see whether anything was touched."""
    return {
        str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None
        for p in sorted(folder.rglob("*"))
    }


def graph_options(folder: Path) -> list[str]:
    """Name the edges and features that ``write_files`` wrote."""
    return [str(folder / "edges.csv"), "--features", str(folder / "features.csv")]


def write_files(planted: PlantedGraph, folder: Path) -> None:
    """Write a graph the way users have it: edges.csv and nodes.csv, with ids of their own."""
    graph = planted.graph
    names = [f"n{100 + 7 * row}" for row in range(graph.num_nodes)]
    edges = [f"{names[a]},{names[b]}" for a, b in graph.edge_list().tolist()]
    (folder / "edges.csv").write_text("\n".join(["from,to", *edges]) + "\n")
    words = np.asarray(graph.features.todense(), dtype=int)  # type: ignore[union-attr]
    head = ",".join(["id", "topic", *(f"w{i}" for i in range(words.shape[1]))])
    topics = planted.levels[-1].tolist()
    rows = [
        ",".join([name, f"topic {topic}", *map(str, row)])
        for name, topic, row in zip(names, topics, words.tolist(), strict=True)
    ]
    # The label is text, so the feature table is a file of its own without it.
    (folder / "nodes.csv").write_text("\n".join([head, *rows]) + "\n")
    features = [",".join(p for i, p in enumerate(r.split(",")) if i != 1) for r in [head, *rows]]
    (folder / "features.csv").write_text("\n".join(features) + "\n")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A finished run of thirty nodes in the folder of the command."""
    result = make_result(30)
    return start_run(tmp_path / "run", {"seed": 1}).finish(result, {}, make_graph(result), {})


@pytest.fixture(scope="session")
def planted() -> PlantedGraph:
    return planted_hierarchy((2, 3), 240, mean_degree=10, words=60, word_on=0.3, seed=5)


@pytest.fixture(scope="session")
def planted_files(planted: PlantedGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planted")
    write_files(planted, folder)
    return folder
