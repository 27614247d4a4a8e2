"""Files written whole or not at all, and values made plain for JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.system.atomic import (
    creating,
    plain,
    remove_folder,
    replacing,
    without_none,
    write_bytes,
    write_json,
)


def test_a_failed_block_changes_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    kept, new = tmp_path / "kept", tmp_path / "new"
    kept.write_text("old")

    def half_written(manager: Any) -> None:
        with manager as temporary:
            temporary.write_text("half")
            raise RuntimeError("crash")

    for manager in (replacing(kept), creating(new)):
        with pytest.raises(RuntimeError, match="crash"):
            half_written(manager)
    assert kept.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]


def test_a_file_is_on_disk_before_it_takes_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    fsync, move = os.fsync, os.replace

    def synced(handle: int) -> None:
        events.append("folder" if Path(f"/proc/self/fd/{handle}").is_dir() else "file")
        fsync(handle)

    def replaced(*ends: Any) -> None:
        events.append("replace")
        move(*ends)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    write_bytes(tmp_path / "x", b"new")
    if Path("/proc/self/fd").is_dir():
        assert events == ["file", "replace", "folder"]
    assert (tmp_path / "x").read_bytes() == b"new"


@pytest.mark.parametrize("links", [True, False])
def test_creating_never_replaces_a_file(
    links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    if not links:
        monkeypatch.setattr(os, "link", unsupported)
    path = tmp_path / "new folder" / "x"
    with creating(path) as temporary:
        temporary.write_text("first")
    assert path.read_text() == "first"
    with pytest.raises(InputError, match="exists already"), creating(path):
        pytest.fail("the block must not begin")
    path.unlink()

    def beaten() -> None:
        with creating(path) as temporary:
            temporary.write_text("late")
            path.write_text("of somebody else")

    with pytest.raises(InputError, match="exists already"):
        beaten()
    assert path.read_text() == "of somebody else"
    assert [p.name for p in path.parent.iterdir()] == ["x"]


def test_places_that_cannot_be_written_to_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for path, words in (
        (tmp_path / "dangling", "exists already"),
        (tmp_path / "file" / "x", "cannot write .*choose another place"),
    ):
        with pytest.raises(InputError, match=words), creating(path):
            pytest.fail("the block must not begin")
    assert not (tmp_path / "nowhere").exists()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(values)
def test_any_value_becomes_strict_json_and_comes_back(tmp_path_factory: Any, value: Any) -> None:
    path = tmp_path_factory.mktemp("json") / "x.json"
    write_json(path, value)
    back = json.loads(path.read_text("utf-8"), parse_constant=lambda name: pytest.fail(name))
    assert back == plain(value) == plain(plain(value))


def test_foreign_values_become_plain_ones(tmp_path: Path) -> None:
    import torch

    given_values = {
        1: np.float32(0.5),
        "array": np.array([[1, 2]]),
        "tensor": torch.tensor([1.5, float("nan")]),
        "path": Path("a/b"),
        "set": {3},
        "infinite": np.inf,
    }
    assert plain(given_values) == {
        "1": 0.5,
        "array": [[1, 2]],
        "tensor": [1.5, None],
        "path": "a/b",
        "set": [3],
        "infinite": None,
    }
    with pytest.raises(TypeError, match="cannot write object value"):
        plain({"deep": [object()]})
    write_json(tmp_path / "x", "lone \ud800 surrogate")
    assert json.loads((tmp_path / "x").read_text("utf-8")) == "lone \ud800 surrogate"


def test_what_toml_cannot_say_is_left_out() -> None:
    nested = {"a": None, "b": {"c": None, "d": [1, None, {"e": None}]}, "f": 0}
    assert without_none(nested) == {"b": {"d": [1, {}]}, "f": 0}


def test_a_folder_is_removed_if_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    remove_folder(tmp_path / "a")
    remove_folder(tmp_path / "a")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", [".out.html.4711.tmp", ".export-abc123.tmp"])
def test_what_a_killed_program_left_goes_with_the_next_write(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"half a file")
    (tmp_path / ".other.txt.4711.tmp").write_bytes(b"another target")
    (tmp_path / "mine.tmp").write_bytes(b"not ours")
    if name.startswith(".export"):
        with creating(tmp_path / "new.csv") as temporary:
            temporary.write_bytes(b"x")
    write_bytes(tmp_path / "out.html", b"x")
    assert not (tmp_path / name).exists()
    assert (tmp_path / ".other.txt.4711.tmp").exists()
    assert (tmp_path / "mine.tmp").exists()


def test_what_a_living_program_writes_stays(tmp_path: Path) -> None:
    with creating(tmp_path / "a.csv") as one, creating(tmp_path / "b.csv") as two:
        one.write_bytes(b"1")
        two.write_bytes(b"2")
        with creating(tmp_path / "c.csv") as three:
            three.write_bytes(b"3")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {
        "a.csv": b"1",
        "b.csv": b"2",
        "c.csv": b"3",
    }


KILLED = """
import sys
from pathlib import Path
from graphham.system.atomic import creating, replacing
folder = Path(sys.argv[1])
with creating(folder / "x.csv") as one, replacing(folder / "y.html") as two:
    one.write_bytes(b"1")
    print("ready", flush=True)
    while True:
        two.write_bytes(b"2")
"""


def test_a_killed_writer_leaves_nothing_for_long(tmp_path: Path) -> None:
    from tests.reference.processes import kill_when_ready

    kill_when_ready(KILLED, [str(tmp_path)], 0.05)
    assert len(list(tmp_path.iterdir())) == 2
    with creating(tmp_path / "x.csv") as temporary:
        temporary.write_bytes(b"1")
    write_bytes(tmp_path / "y.html", b"2")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.csv", "y.html"]
