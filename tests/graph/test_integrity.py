"""A damaged store is refused with one sentence before any of its numbers is used as an index."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import graphham.graph.integrity as integrity
from graphham.errors import InputError
from graphham.graph.graph import Graph, Labels, build_graph
from graphham.graph.ids import NodeIds
from graphham.graph.store import open_store, write_store
from graphham.graph.store_parts import open_part, split_store
from graphham.system.checksums import sealed


def example(n: int = 60, multi: bool = False, sparse: bool = True) -> Graph:
    rng = np.random.default_rng(n)
    words = sp.random(n, 9, 0.3, format="csr", dtype=np.float32, rng=rng)
    return build_graph(
        rng.integers(0, n, 4 * n),
        rng.integers(0, n, 4 * n),
        n,
        ids=NodeIds([f"näme {i}" for i in range(n)]),
        features=words if sparse else words.toarray(),
        feature_names=[f"word {i}" for i in range(9)],
        labels=(
            Labels(("x", "y", "z"), matrix=sp.csr_matrix(rng.random((n, 3)) < 0.5))
            if multi
            else Labels(("x", "y"), codes=rng.integers(-1, 2, n).astype(np.int32))
        ),
        splits={"train": np.arange(2), "zero": np.array([])},
        titles=[f"Title {i}" for i in range(n)],
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return write_store(example(), tmp_path / "s")


def flip(file: Path, position: int, bits: int = 0xFF) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= bits
    file.write_bytes(data)


def refusal(open_again: Callable[[], object], name: str) -> str:
    with pytest.raises(InputError) as caught:
        open_again()
    sentence = str(caught.value)
    assert name in sentence
    assert "damaged" in sentence
    assert "again" in sentence
    assert "\n" not in sentence
    return sentence


INDEX_FILES = (
    "indptr.npy",
    "indices.npy",
    "ids.arrow",
    "titles.arrow",
    "feature_names.arrow",
    "features_indptr.npy",
    "features_indices.npy",
    "labels.npy",
    "split_0.npy",
)


@pytest.mark.parametrize("bits", [0x01, 0x80, 0xFF])
@pytest.mark.parametrize("name", INDEX_FILES)
def test_any_flipped_byte_is_refused(store: Path, name: str, bits: int) -> None:
    file = store / name
    whole = file.read_bytes()
    for position in {0, 7, 9, 30, 70, *range(3, len(whole), 41), len(whole) - 1}:
        flip(file, min(position, len(whole) - 1), bits)
        refusal(lambda: open_store(store), name)
        file.write_bytes(whole)
    open_store(store)


def forge(store: Path, name: str) -> None:
    """Write a changed file's checksum into the manifest: only bounds are left to find it."""
    manifest = json.loads((store / "store.json").read_text())
    content = (store / name).read_bytes()
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    manifest["files"][name] = {"bytes": len(content), "blake2b": digest}
    (store / "store.json").write_text(json.dumps(sealed(manifest)))


@pytest.mark.parametrize(
    ("name", "position", "value"),
    [
        ("indices.npy", 5, 60),
        ("indices.npy", -1, -1),
        ("indices.npy", 0, 2**31 - 1),
        ("indptr.npy", 0, 1),
        ("indptr.npy", 7, -1),
        ("indptr.npy", 7, 2**40),
        ("indptr.npy", -1, 10**6),
        ("features_indices.npy", 3, 9),
        ("features_indices.npy", 3, -1),
        ("features_indptr.npy", 3, 2**30),
        ("labels.npy", 3, 2),
        ("labels.npy", 3, -2),
        ("split_0.npy", 1, 60),
    ],
)
def test_wrong_numbers_under_a_right_checksum(
    store: Path, name: str, position: int, value: int
) -> None:
    numbers = np.load(store / name)
    numbers[position] = value
    np.save(store / name, numbers)
    forge(store, name)
    refusal(lambda: open_store(store), name)


@pytest.mark.parametrize("name", ["labels_indices.npy", "labels_indptr.npy"])
def test_wrong_numbers_in_many_labels(tmp_path: Path, name: str) -> None:
    store = write_store(example(multi=True), tmp_path / "s")
    numbers = np.load(store / name)
    numbers[4] = 3000
    np.save(store / name, numbers)
    forge(store, name)
    refusal(lambda: open_store(store), name)


def test_headers_that_promise_something_else(store: Path) -> None:
    name = "indices.npy"
    numbers = np.load(store / name)
    for other in (numbers.astype(np.float32), numbers.astype(">i4"), numbers.reshape(2, -1)):
        np.save(store / name, other)
        forge(store, name)
        refusal(lambda: open_store(store), name)
    content = (store / name).read_bytes()
    wrong = [(b"(2, ", b"(9, "), (b"(2, ", b"(-2,"), (b"{'descr", b"{['desc")]
    wrong += [(b"), }", b"),( ")]  # never ends: what reads it is Python's own tokenizer
    for old, new in wrong:
        assert old in content
        (store / name).write_bytes(content.replace(old, new))
        forge(store, name)
        refusal(lambda: open_store(store), name)


@pytest.mark.parametrize("name", ["ids.arrow", "titles.arrow"])
def test_wrong_text_offsets_under_a_right_checksum(store: Path, name: str) -> None:
    """Every byte of an Arrow file in turn: Arrow may open it, but no text leads out of the file."""
    whole = (store / name).read_bytes()
    sentences = []
    for position in range(0, len(whole), 5):
        flip(store / name, position)
        forge(store, name)
        try:
            graph = open_store(store)
        except InputError as error:
            sentences.append(str(error))
        else:
            assert len(graph.ids.tolist()) == len(list(graph.titles or ())) == 60
        (store / name).write_bytes(whole)
    assert len(sentences) > 50
    assert all(name in sentence for sentence in sentences)


@pytest.mark.parametrize("name", ["indptr.npy", "indices.npy", "ids.arrow"])
def test_a_damaged_part_of_a_split_store(tmp_path: Path, name: str) -> None:
    graph = example(3000, sparse=False)
    parts = split_store(write_store(graph, tmp_path / "s"), 2, tmp_path / "parts")
    own = [open_part(parts, number, 2) for number in range(2)]
    entry = int(graph.indptr[own[1].part.first]) + 5  # type: ignore[union-attr]
    file = parts / "part-1" / name
    flip(file, 128 + 4 * entry + 3 if name == "indices.npy" else file.stat().st_size // 2)
    assert "split the store again" in refusal(lambda: open_part(parts, 1, 2), name)
    open_part(parts, 0, 2)


@given(st.integers(1, 12), st.integers(0, 30), st.booleans(), st.booleans(), st.booleans())
def test_healthy_stores_pass(
    tmp_path_factory: pytest.TempPathFactory,
    n: int,
    edges: int,
    sparse: bool,
    multi: bool,
    directed: bool,
) -> None:
    rng = np.random.default_rng([n, edges])
    base = example(n, multi, sparse)
    graph = build_graph(
        rng.integers(0, n, edges),
        rng.integers(0, n, edges),
        n,
        directed=directed,
        weights=rng.random(edges) + 0.1,
        features=base.features,
        labels=base.labels,
        titles=base.titles,
    )
    opened = open_store(write_store(graph, tmp_path_factory.mktemp("healthy") / "s"))
    assert opened.fingerprint() == graph.fingerprint()


@pytest.fixture
def checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files whose content is read, in order; stores of any size are remembered."""
    monkeypatch.setenv("GRAPHHAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(integrity, "REMEMBERED_BYTES", 0)
    read: list[str] = []
    checksum = integrity.file_checksum

    def counted(file: Path, holes: list[list[int]]) -> str:
        read.append(file.name)
        return checksum(file, holes)

    monkeypatch.setattr(integrity, "file_checksum", counted)
    for check in ("check_range", "check_ascending"):
        inner = getattr(integrity, check)

        def bounded(file: str, *arguments: object, inner: Callable[..., None] = inner) -> None:
            read.append(file)
            inner(file, *arguments)

        monkeypatch.setattr(integrity, check, bounded)
    return read


def age(store: Path) -> None:
    for file in store.iterdir():
        os.utime(file, ns=(10**18, 10**18))


def test_a_file_is_checked_once_until_it_changes(store: Path, checks: list[str]) -> None:
    age(store)
    open_store(store)
    assert set(checks) == set(INDEX_FILES) | {"features_data.npy", "split_1.npy"}
    checks.clear()
    open_store(store)
    assert checks == []
    flip(store / "indices.npy", -2, 0x01)
    refusal(lambda: open_store(store), "indices.npy")
    assert set(checks) == {"indices.npy"}
    flip(store / "indices.npy", -2, 0x01)
    checks.clear()
    open_store(store)
    assert set(checks) == {"indices.npy"}


def test_another_manifest_is_another_check(store: Path, checks: list[str]) -> None:
    age(store)
    open_store(store)
    manifest = json.loads((store / "store.json").read_text())
    (store / "store.json").write_text(json.dumps(sealed({**manifest, "name": "other"})))
    checks.clear()
    open_store(store)
    assert set(checks) >= set(INDEX_FILES)


def test_a_file_written_just_now_is_not_trusted(
    store: Path, checks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two changes within one tick of the clock leave the same time stamp."""
    monkeypatch.setattr(integrity, "_RECENT_NANOSECONDS", 10**12)
    open_store(store)
    checks.clear()
    open_store(store)
    assert set(checks) >= set(INDEX_FILES)


@pytest.mark.parametrize("cache", ["file", "unreadable note", "no home"])
def test_without_a_cache_everything_still_opens(
    store: Path, checks: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    age(store)
    if cache == "file":
        (tmp_path / "cache").write_text("not a folder")
    elif cache == "unreadable note":
        open_store(store)
        for note in (tmp_path / "cache").rglob("*.json"):
            note.write_bytes(b'{"version": 1, "files": [\xff')
    else:

        def homeless() -> Path:
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.setattr("graphham.system.folders.cache_folder", homeless)
    checks.clear()
    assert open_store(store).num_nodes == 60
    assert set(checks) >= set(INDEX_FILES)


def test_labels_beyond_the_classes_are_not_written(tmp_path: Path) -> None:
    labels = Labels(("x",), codes=np.array([0, 1], dtype=np.int32))
    graph = build_graph(np.array([0]), np.array([1]), 2, labels=labels)
    with pytest.raises(InputError, match=r"outside -1\.\.0"):
        write_store(graph, tmp_path / "s")
