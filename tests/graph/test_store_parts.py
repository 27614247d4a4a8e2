"""A store cut into parts: together they are the whole, and nothing else is touched."""

from __future__ import annotations

import itertools
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.graph import store_parts
from graphham.graph.planted import planted_hierarchy
from graphham.graph.store import open_store, write_store
from graphham.graph.store_parts import is_split, list_parts, open_part, split_store
from tests.reference.graphs import relinked

GRAPH = planted_hierarchy((2, 3), 200, mean_degree=6, features="gaussian", dim=4, seed=2).graph


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(write_store(GRAPH, tmp_path_factory.mktemp("parts") / "whole"))


@pytest.mark.parametrize("count", [2, 12])
def test_the_parts_add_up_to_the_whole(count: int, whole: Path, tmp_path: Path) -> None:
    folder = split_store(whole, count, tmp_path / "split")
    listed = list_parts(folder)
    # In the order of nodes, so part-10 comes after part-9.
    assert [name for name, _, _ in listed] == [f"part-{number}" for number in range(count)]
    assert [listed[0][1], listed[-1][2]] == [0, 200]
    assert all(one[2] == other[1] for one, other in itertools.pairwise(listed))
    indices, features = np.zeros_like(GRAPH.indices), np.zeros_like(GRAPH.features)
    for number in range(count):
        part = open_part(folder, number, count)
        # What lies outside a part's range is zero, so that adding up gives the whole.
        indices += part.indices
        features += part.features
        np.testing.assert_array_equal(part.indptr, GRAPH.indptr)
        assert list(part.ids) == list(GRAPH.ids)
        assert part.labels.values() == GRAPH.labels.values()
        assert part.fingerprint() == GRAPH.fingerprint()
    np.testing.assert_array_equal(indices, GRAPH.indices)
    np.testing.assert_array_equal(features, GRAPH.features)


def test_what_cannot_be_split_is_refused_before_anything_is_made(
    whole: Path, tmp_path: Path
) -> None:
    edges = GRAPH.edge_list()
    graphs = {
        "directed": relinked(replace(GRAPH, features=None), directed=True),
        "weighted": relinked(replace(GRAPH, features=None), weights=np.ones(len(edges)) * 2),
        "bare": replace(GRAPH, features=None),
        "words": planted_hierarchy((2, 3), 200).graph,
    }
    for name, graph in graphs.items():
        write_store(graph, tmp_path / name)
        words = "dense features" if name in ("bare", "words") else "undirected graph without"
        with pytest.raises(InputError, match=words):
            split_store(tmp_path / name, 2, tmp_path / "never")
    for parts in (1, 14):
        with pytest.raises(InputError, match=f"{parts} parts were asked for.* 2 to 13"):
            split_store(whole, parts, tmp_path / "never")
    assert not list(tmp_path.glob("*never*"))


def test_only_a_folder_of_parts_is_replaced(whole: Path, tmp_path: Path) -> None:
    folder = split_store(whole, 3, tmp_path / "split")
    assert is_split(folder)
    assert not is_split(whole)
    assert not is_split(tmp_path / "nothing")
    with pytest.raises(InputError, match="exists already"):
        split_store(whole, 2, folder)
    (folder / "notes.txt").write_text("mine")
    assert not is_split(folder)
    with pytest.raises(InputError, match="is not replaced"):
        split_store(whole, 2, folder, overwrite=True)
    (folder / "notes.txt").unlink()
    split_store(whole, 2, folder, overwrite=True)
    assert len(list_parts(folder)) == 2
    assert open_store(whole).fingerprint() == GRAPH.fingerprint()


def test_a_full_disk_leaves_the_former_parts(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = split_store(whole, 2, tmp_path / "split")

    class Full(store_parts.StoreWriter):
        def write(self, graph: object) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(store_parts, "StoreWriter", Full)
    with pytest.raises(InputError, match=r"No space left on device.*nothing was kept"):
        split_store(whole, 3, folder, overwrite=True)
    assert len(list_parts(folder)) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["split"]


def test_a_part_that_is_not_here_is_named(whole: Path, tmp_path: Path) -> None:
    folder = split_store(whole, 2, tmp_path / "split")
    shutil.rmtree(folder / "part-1")
    # A machine may hold its own part only; the others are still named by their store.
    assert open_part(folder, 0, 2).part.last == list_parts(folder)[0][2]
    with pytest.raises(InputError, match="has no part-1 on this machine"):
        open_part(folder, 1, 2)
    with pytest.raises(InputError, match="in 2 parts, which takes 2 processes, not 3"):
        open_part(folder, 0, 3)
    with pytest.raises(InputError, match="holds no parts of a store"):
        open_part(whole, 0, 2)
