"""Folders for work in progress go when nobody works in them, and not before."""

import threading
from pathlib import Path

import pytest

from graphham.graph.graph import Graph
from graphham.graph.store import is_store, write_store
from graphham.io import read_graph
from graphham.system import scratch
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


@needs_locks
@pytest.mark.parametrize("files", [[], ["lock.new"]])
def test_a_folder_killed_before_its_lock_goes_at_once(tmp_path: Path, files: list[str]) -> None:
    left = tmp_path / ".s.part-dead"
    left.mkdir()
    for name in files:
        (left / name).touch()
    with scratch_beside(tmp_path / "s"):
        assert not left.exists()


@needs_locks
def test_a_folder_that_is_being_made_is_waited_for(tmp_path: Path) -> None:
    """Between its making and its lock a folder looks abandoned; nobody may take it for that."""
    made: list[Path] = []

    def make() -> None:
        with scratch_beside(tmp_path / "s") as folder:
            made.append(folder)

    with scratch._one_maker(tmp_path) as is_alone:
        assert is_alone
        young = tmp_path / ".s.part-young"
        young.mkdir()
        other = threading.Thread(target=make)
        other.start()
        other.join(0.05)
        assert young.is_dir()
        assert not made
        lock = scratch._lock(young)
    other.join()
    assert made
    assert young.is_dir()
    assert lock is not None
    lock.close()


@needs_locks
def test_a_folder_killed_while_it_is_removed_goes_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(path: Path) -> None:
        for file in path.iterdir():
            if file.is_file():
                file.unlink()
        raise KeyboardInterrupt

    block = scratch_beside(tmp_path / "s")
    folder = block.__enter__()
    for name in ("a", "k", "z"):
        (folder / name).mkdir()
    monkeypatch.setattr(scratch, "remove_folder", stop)
    with pytest.raises(KeyboardInterrupt):
        block.__exit__(None, None, None)
    monkeypatch.undo()
    assert folder.exists()
    with scratch_beside(tmp_path / "s"):
        assert not folder.exists()


def test_a_store_that_is_replaced_is_never_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = read_graph_of(tmp_path)
    write_store(graph, tmp_path / "s")
    real, seen = Path.rename, []

    def rename(path: Path, target: Path) -> Path:
        seen.append((path.name, Path(target).name))
        return real(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    write_store(graph, tmp_path / "s", overwrite=True)
    assert is_store(tmp_path / "s")
    assert ("s", "replaced") not in seen  # moving it away would leave a moment without it
    monkeypatch.setattr(scratch, "exchange", lambda a, b: False)
    write_store(graph, tmp_path / "s", overwrite=True)
    assert ("s", "replaced") in seen
    assert is_store(tmp_path / "s")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["e.csv", "s"]


def read_graph_of(folder: Path) -> Graph:
    (folder / "e.csv").write_text("a,b\nb,c\n")
    return read_graph(folder / "e.csv")
