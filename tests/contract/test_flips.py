"""No flipped byte of a run or a store goes through to a result without a word."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.graph.store import open_store, write_store
from graphham.results.model_card import CARD_FILE
from graphham.results.run_folder import Run
from graphham.results.run_writer import start_run
from tests.graph.test_integrity import example
from tests.outputs import make_graph, make_result

FLIPS_PER_FILE = 25


def read_store(folder: Path) -> None:
    graph = open_store(folder)
    graph.fingerprint()


def read_run(folder: Path) -> None:
    run = Run.open(folder)
    run.result()
    run.state()
    for what in (run.config, run.metrics, run.groups, run.hierarchy, run.renamed):
        assert what is not None
    run.graph()


def make_store(place: Path) -> Path:
    return write_store(example(), place)


def make_run(place: Path) -> Path:
    result = make_result(30)
    writer = start_run(place, {"seed": 1})
    writer.log({"epoch": 1, "loss": 0.5})
    state = {"w": np.arange(12, dtype=np.float32)}
    run = writer.finish(result, state, make_graph(result), {"task": "embed"})
    run.rename_group(1, 0, "my own")
    return run.path


def is_harmless(file: Path, before: bytes) -> bool:
    """Whether nothing is read from it, or only the layout of a manifest changed."""
    if file.name == CARD_FILE:
        return True
    if file.suffix != ".json":
        return False
    return bool(json.loads(before) == json.loads(file.read_bytes()))


def refusal(read: Callable[[Path], Any], folder: Path) -> str:
    """Return the sentence in which a folder is refused, nothing if it is not."""
    try:
        read(folder)
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("make", "read"), [(make_store, read_store), (make_run, read_run)])
def test_every_flipped_byte_is_noticed(
    tmp_path: Path, make: Callable[[Path], Path], read: Callable[[Path], Any]
) -> None:
    folder = make(tmp_path / "whole")
    read(folder)
    rng = np.random.default_rng(15)
    silent = []
    for file in sorted(p for p in folder.rglob("*") if p.is_file()):
        before = file.read_bytes()
        for at in rng.integers(0, len(before), FLIPS_PER_FILE) if before else []:
            data = bytearray(before)
            data[at] ^= 1 << int(rng.integers(8))
            file.write_bytes(data)
            sentence = refusal(read, folder)
            if "\n" in sentence or (not sentence and not is_harmless(file, before)):
                silent.append((file.name, int(at), sentence))
        file.write_bytes(before)
    assert silent == []


def test_a_stolen_format_version_does_not_hide_damage(tmp_path: Path) -> None:
    """An older format has no checksum; a manifest that has one is held to it nevertheless."""
    store, run = make_store(tmp_path / "store"), make_run(tmp_path / "run")
    for file, old in ((store / "store.json", 1), (run / "summary.json", 2)):
        content = json.loads(file.read_text())
        name = "version" if "version" in content else "format_version"
        file.write_text(json.dumps({**content, name: old}))
    with pytest.raises(InputError, match="damaged"):
        open_store(store)
    with pytest.raises(InputError, match=r"summary\.json has changed"):
        Run.open(run)


def test_a_large_file_is_compared_when_it_is_first_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import graphham.results.run_checks as run_checks

    folder = make_run(tmp_path / "run")
    file = folder / "embedding.npy"
    data = bytearray(file.read_bytes())
    data[-2] ^= 1
    file.write_bytes(data)
    with pytest.raises(InputError, match=r"embedding\.npy has changed"):
        Run.open(folder)
    monkeypatch.setattr(run_checks, "SMALL_BYTES", 10)
    run = Run.open(folder)
    with pytest.raises(InputError, match=r"embedding\.npy has changed"):
        _ = run.embedding
    with pytest.raises(InputError, match=r"embedding\.npy has changed"):
        Run.open(folder, verify=True)


def test_large_features_are_compared_to_verify(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import graphham.graph.integrity as integrity

    store = make_store(tmp_path / "store")
    file = store / "features_data.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(InputError, match=r"features_data\.npy has changed"):
        open_store(store)
    monkeypatch.setattr(integrity, "UNREAD_BYTES", 10)
    open_store(store)
    with pytest.raises(InputError, match=r"features_data\.npy has changed"):
        open_store(store, verify=True)


def test_a_run_may_be_passed_on_without_its_graph(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    shutil.rmtree(folder / "graph")
    assert not Run.open(folder).keeps_graph
