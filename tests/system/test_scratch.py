"""Folders for work in progress go when nobody works in them, and not before."""

from pathlib import Path

from graphham.graph.graph import Graph
from graphham.graph.store import is_store, write_store
from graphham.io import read_graph
from graphham.system.scratch import scratch_beside
from tests.other_systems import needs_locks


def test_scratch_of_a_living_program_stays(tmp_path: Path) -> None:
    with scratch_beside(tmp_path / "s") as mine, scratch_beside(tmp_path / "s") as other:
        assert mine.is_dir()
        assert other.is_dir()
    assert not list(tmp_path.iterdir())


@needs_locks
def test_a_store_moved_away_by_a_killed_program_comes_back(tmp_path: Path) -> None:
    graph = read_graph_of(tmp_path)
    write_store(graph, tmp_path / "s")
    left = tmp_path / ".s.part-dead"
    left.mkdir()
    (left / "lock").touch()
    (tmp_path / "s").rename(left / "replaced")
    with scratch_beside(tmp_path / "s"):
        assert is_store(tmp_path / "s")
    assert not left.exists()


def read_graph_of(folder: Path) -> Graph:
    (folder / "e.csv").write_text("a,b\nb,c\n")
    return read_graph(folder / "e.csv")
