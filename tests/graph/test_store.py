"""A store gives back exactly what was put in, opens without reading, and notices damage."""

import json
import os
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from graphham.cli.failures import explain_failure
from graphham.errors import InputError
from graphham.graph.graph import Graph, Labels, build_graph
from graphham.graph.ids import NodeIds
from graphham.graph.store import is_store, open_store, verify_store, write_store
from graphham.system.checksums import sealed


def example(n: int = 6, seed: int = 0) -> Graph:
    rng = np.random.default_rng([seed, n])
    return build_graph(
        rng.integers(0, n, 4 * n),
        rng.integers(0, n, 4 * n),
        n,
        ids=NodeIds([f"näme {i}" for i in range(n)]),
        weights=rng.random(4 * n) + 0.1,
        features=rng.random((n, 3)).astype(np.float16),
        feature_names=["a", "b", "c"],
        labels=Labels(("x", "y"), codes=rng.integers(-1, 2, n).astype(np.int32)),
        splits={"train": np.arange(2), "test set": np.arange(3, n)},
        titles=[f"Title {i}" for i in range(n)],
        name="example",
    )


def assert_equal(found: Graph, graph: Graph) -> None:
    assert found.fingerprint() == graph.fingerprint()
    assert found.ids == graph.ids
    assert (found.name, found.directed) == (graph.name, graph.directed)
    assert found.report == graph.report
    assert found.indices.dtype == graph.indices.dtype
    for mine, theirs in ((found.feature_names, graph.feature_names), (found.titles, graph.titles)):
        assert (None if mine is None else list(mine)) == (None if theirs is None else list(theirs))
    assert found.splits.keys() == graph.splits.keys()
    for name, rows in graph.splits.items():
        np.testing.assert_array_equal(found.splits[name], rows)
    assert (found.labels is None) == (graph.labels is None)
    if found.labels is not None and graph.labels is not None:
        assert found.labels.classes == graph.labels.classes
        assert found.labels.values() == graph.labels.values()


def test_everything_comes_back(tmp_path: Path) -> None:
    graph = example()
    write_store(graph, tmp_path / "s")
    assert is_store(tmp_path / "s")
    found = open_store(tmp_path / "s", verify=True)
    assert_equal(found.validate(), graph)
    assert found.features is not None
    assert found.features.dtype == np.float16


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=8, unique=True)
    | st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8, unique=True),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_any_graph_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    ids: list[str] | list[int],
    directed: bool,
    sparse: bool,
    multi: bool,
) -> None:
    n = len(ids)
    rng = np.random.default_rng(n)
    features = sp.random(n, 9, 0.3, format="csr", dtype=np.float32, rng=rng)
    labels = (
        Labels((3, 1, 2), matrix=sp.csr_matrix(rng.random((n, 3)) < 0.5))
        if multi
        else Labels((3, 1), codes=rng.integers(-1, 2, n).astype(np.int32))
    )
    graph = build_graph(
        rng.integers(0, n, n),
        rng.integers(0, n, n),
        n,
        ids=NodeIds(ids),
        directed=directed,
        features=features if sparse else features.toarray(),
        labels=labels,
    )
    folder = tmp_path_factory.mktemp("any") / "s"
    write_store(graph, folder)
    found = open_store(folder)
    assert_equal(found, graph)
    assert found.ids.rows(ids).tolist() == list(range(n))
    assert found.has_sparse_features == sparse


def test_opening_copies_nothing(tmp_path: Path) -> None:
    """Arrays and text ids are views of the mapped files, whatever their size."""
    graph = example(50_000)
    write_store(graph, tmp_path / "s")
    started = time.perf_counter()
    found = open_store(tmp_path / "s")
    assert time.perf_counter() - started < 0.5
    for array in (found.indptr, found.indices, found.weights, found.features):
        assert isinstance(array, np.ndarray)
        assert not array.flags.owndata
        assert not array.flags.writeable
    import pyarrow as pa

    before = pa.total_allocated_bytes()
    assert found.ids[49_999] == "näme 49999"
    assert found.titles is not None
    assert found.titles[3] == "Title 3"
    assert found.titles[-2:] == ["Title 49998", "Title 49999"]
    assert pa.total_allocated_bytes() - before < 10_000


def test_sparse_parts_are_mapped(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    features = sp.random(300, 90, 0.05, format="csr", dtype=np.float32, rng=rng)
    graph = build_graph(np.arange(299), np.arange(1, 300), 300, features=features)
    write_store(graph, tmp_path / "s")
    found = open_store(tmp_path / "s").features
    assert sp.issparse(found)
    for part in (found.data, found.indices, found.indptr):
        assert not part.flags.writeable
    assert (found != features).nnz == 0


def test_unsorted_features_are_tidied(tmp_path: Path) -> None:
    messy = sp.csr_matrix((2, 3), dtype=np.float32)
    messy.indptr, messy.indices = np.array([0, 3, 3]), np.array([2, 0, 0])
    messy.data = np.array([1, 2, 3], dtype=np.float32)
    graph = build_graph(np.array([0]), np.array([1]), 2, features=messy)
    write_store(graph, tmp_path / "s")
    found = open_store(tmp_path / "s").features
    assert found is not None
    assert found.toarray().tolist() == [[5, 0, 1], [0, 0, 0]]
    assert found.indices.tolist() == [0, 2]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    graph = example()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").write_text("x")
    for overwrite in (False, True):
        with pytest.raises(InputError, match="mine exists"):
            write_store(graph, tmp_path / "mine", overwrite=overwrite)
    assert (tmp_path / "mine" / "precious").read_text() == "x"
    write_store(graph, tmp_path / "s")
    with pytest.raises(InputError, match="exists already"):
        write_store(example(9), tmp_path / "s")
    assert open_store(tmp_path / "s").num_nodes == 6
    write_store(example(9), tmp_path / "s", overwrite=True)
    assert open_store(tmp_path / "s", verify=True).num_nodes == 9
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine", "s"]


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left"):
        write_store(example(), tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["indices.npy", "ids.arrow", "features.npy", "store.json"])
def test_truncated_store(tmp_path: Path, name: str) -> None:
    write_store(example(), tmp_path / "s")
    file = tmp_path / "s" / name
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(InputError, match="damaged") as caught:
        open_store(tmp_path / "s")
    assert str(tmp_path / "s") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file_in_store(tmp_path: Path) -> None:
    write_store(example(), tmp_path / "s")
    (tmp_path / "s" / "weights.npy").unlink()
    with pytest.raises(InputError, match=r"weights\.npy is missing"):
        open_store(tmp_path / "s")


def test_changed_bytes_are_found_by_checksum(tmp_path: Path) -> None:
    write_store(example(), tmp_path / "s")
    assert verify_store(tmp_path / "s") > 0
    file = tmp_path / "s" / "indices.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(InputError, match=r"indices\.npy has changed"):
        open_store(tmp_path / "s", verify=True)
    with pytest.raises(InputError, match=r"indices\.npy has changed"):
        verify_store(tmp_path / "s")


def edit(folder: Path, **changes: object) -> None:
    manifest = json.loads((folder / "store.json").read_text())
    (folder / "store.json").write_text(json.dumps(sealed({**manifest, **changes})))


def test_other_versions_and_folders_are_refused(tmp_path: Path) -> None:
    write_store(example(), tmp_path / "s")
    edit(tmp_path / "s", version=99)
    with pytest.raises(InputError, match="version 99"):
        open_store(tmp_path / "s")
    edit(tmp_path / "s", version=1, format="something else")
    with pytest.raises(InputError, match="'something else'"):
        open_store(tmp_path / "s")
    assert not is_store(tmp_path / "s")
    with pytest.raises(InputError, match="is not a store"):
        open_store(tmp_path)
    with pytest.raises(InputError, match="nowhere does not exist"):
        open_store(tmp_path / "nowhere")
    assert not is_store(tmp_path)


def test_a_manifest_cannot_point_outside(tmp_path: Path) -> None:
    write_store(example(), tmp_path / "s")
    entry = {"bytes": 4, "blake2b": "00"}
    (tmp_path / "outside").write_text("1234")
    edit(tmp_path / "s", files={"../outside": entry})
    with pytest.raises(InputError, match="manifest"):
        open_store(tmp_path / "s")


def test_counts_that_do_not_match_are_damage(tmp_path: Path) -> None:
    write_store(example(), tmp_path / "s")
    edit(tmp_path / "s", num_nodes=7)
    with pytest.raises(InputError, match="damaged"):
        open_store(tmp_path / "s")


def test_a_machine_without_room_says_nothing_about_the_store(tmp_path, monkeypatch):
    place = tmp_path / "store"
    ids = NodeIds(np.array(["a", "b"]))
    write_store(build_graph([0], [1], 2, ids=ids), place)

    def fails(*_):
        raise pa.ArrowException("Unknown error: Failed to launch worker thread: Resource")

    monkeypatch.setattr(pa.ipc, "open_file", fails)
    with pytest.raises(pa.ArrowException):
        open_store(place)
    assert explain_failure(pa.ArrowException("Failed to launch worker thread"))[1] == 2
