"""A flipped byte in a store or in a run's graph is one sentence and code 2, never a signal."""

import shutil
from pathlib import Path

import pytest

import graphham as gh
from graphham.graph.graph import Graph
from graphham.graph.ids import NodeIds
from graphham.graph.planted import PlantedGraph
from graphham.graph.store import write_store

from .conftest import process


@pytest.fixture(scope="module")
def healthy(planted: PlantedGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from dataclasses import replace

    folder = tmp_path_factory.mktemp("damage")
    count = planted.graph.num_nodes
    graph: Graph = replace(planted.graph, ids=NodeIds([f"node {i}" for i in range(count)]))
    write_store(graph, folder / "store")
    gh.GraphHAM(groups=(6, 2), dim=16, epochs=1).fit(graph).save(folder / "run")
    return folder


COMMANDS = {
    "embed": ("store", ["embed", "run", "store", "--out", "out.parquet"]),
    "fit": ("store", ["fit", "store", "--epochs", "1", "--dim", "16", "--out", "new"]),
    "explore": ("run/graph", ["explore", "run", "--export", "page"]),
}


@pytest.mark.parametrize(
    ("command", "name", "share"),
    [
        ("embed", "indices.npy", 0.5),
        ("embed", "indptr.npy", 0.5),
        ("embed", "ids.arrow", 0.4),
        ("fit", "indices.npy", 0.003),
        ("fit", "indptr.npy", 0.9),
        ("explore", "indices.npy", 0.7),
        ("explore", "ids.arrow", 0.3),
        ("explore", "indptr.npy", 0.02),
    ],
)
def test_flipped_bytes_end_in_one_sentence(
    healthy: Path, tmp_path: Path, command: str, name: str, share: float
) -> None:
    work = tmp_path / "work"
    shutil.copytree(healthy, work)
    place, arguments = COMMANDS[command]
    file = work / place / name
    data = bytearray(file.read_bytes())
    at = int(share * len(data))
    # The high byte of a number, where there is one: the jump is as far as it can be.
    at = at - at % 8 + 3
    data[at] ^= 0xFF
    file.write_bytes(data)
    seen = process(*arguments, cwd=work)
    assert seen.code == 2, seen.err
    assert "Traceback" not in seen.err
    (sentence,) = seen.err.strip().splitlines()[-1:]
    assert sentence.startswith("Error: ")
    assert name in sentence
    assert "again" in sentence
    assert not any((work / made).exists() for made in ("out.parquet", "new", "page"))
