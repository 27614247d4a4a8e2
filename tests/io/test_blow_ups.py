"""Small files that would fill memory: refused, or read in bounded memory and time."""

import gzip
import io
import mmap
import resource
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import graphham.io.files as files
from graphham.errors import InputError
from graphham.graph.graph import Graph, build_graph
from graphham.io import attach_features, read_graph
from graphham.io.files import read_raw, unpacking_at_most


def _read(path: Path, most: float) -> Graph:
    with unpacking_at_most(most):
        return read_graph(path)


def bomb(path: Path, megabytes: int) -> None:
    with gzip.open(path, "wb", compresslevel=6) as file:
        file.write(b"a,b\n")
        for _ in range(megabytes):
            file.write(b"b,c\n" * (1 << 18))


def test_a_gzip_bomb_is_refused_unless_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "UNPACKED_FREE_BYTES", 1 << 20)
    bomb(tmp_path / "e.csv.gz", 40)
    assert (tmp_path / "e.csv.gz").stat().st_size < 200_000
    for read in (read_graph, read_raw):
        with pytest.raises(InputError, match="--max-unpacked"):
            read(tmp_path / "e.csv.gz")
    assert _read(tmp_path / "e.csv.gz", 0.05).num_edges == 2
    with pytest.raises(InputError, match="limit of 31,457,280"):
        _read(tmp_path / "e.csv.gz", 30 / 1024)
    graph = build_graph([0], [1], 2)
    with pytest.raises(InputError, match="--max-unpacked"):
        attach_features(graph, tmp_path / "e.csv.gz")


def test_what_is_unpacked_does_not_stay_in_memory(tmp_path: Path) -> None:
    bomb(tmp_path / "small.csv.gz", 1)
    assert isinstance(read_raw(tmp_path / "small.csv.gz"), bytes)
    bomb(tmp_path / "large.csv.gz", 40)
    raw = read_raw(tmp_path / "large.csv.gz")
    assert isinstance(raw, mmap.mmap)
    assert len(raw) == 4 + (40 << 20)


def test_one_endless_line_is_refused_in_little_memory(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "e.csv.gz", "wb") as file:
        for _ in range(250):
            file.write(b"x" * (1 << 20))
    script = (
        "import resource, sys, graphham.io.text\n"
        "from graphham.errors import InputError\n"
        "from graphham.io import read_graph\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n read_graph(sys.argv[1])\n"
        "except InputError as error: print(error)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "e.csv.gz")],
        capture_output=True,
        text=True,
        check=True,
    )
    sentence, kilobytes = done.stdout.strip().splitlines()
    assert "line of more than 64 MiB" in sentence
    # Pages of the unpacked file count as long as the system has room for them.
    assert int(kilobytes) < 600_000


def test_a_long_line_in_the_middle_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphham.io.text._LINE_BYTES", 5000)
    monkeypatch.setattr("graphham.io.text._BLOCK_BYTES", 1000)
    (tmp_path / "e.csv").write_text("a,b\n" * 100 + "c," + "x" * 20_000 + "\nd,e\n")
    with pytest.raises(InputError, match="a line of more than"):
        read_graph(tmp_path / "e.csv")


def test_a_declared_shape_needs_entries_to_bear_it_out(tmp_path: Path) -> None:
    parts = {"row": np.array([0, 1]), "col": np.array([1, 2]), "data": np.ones(2)}
    np.savez(tmp_path / "m.npz", shape=np.array([10**8, 10**8]), **parts)  # type: ignore[arg-type]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match="declares 100,000,000 nodes for 2 entries"):
        read_graph(tmp_path / "m.npz")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
    np.savez(tmp_path / "n.npz", shape=np.array([1000, 1000]), **parts)  # type: ignore[arg-type]
    assert read_graph(tmp_path / "n.npz").num_nodes == 1000


def test_an_array_that_promises_more_than_there_is(tmp_path: Path) -> None:
    header = io.BytesIO()
    about = {"descr": "<i8", "fortran_order": False, "shape": (10**9, 2)}
    np.lib.format.write_array_header_1_0(header, about)  # type: ignore[arg-type]
    (tmp_path / "edges.npy").write_bytes(header.getvalue() + bytes(64))
    with zipfile.ZipFile(tmp_path / "e.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(tmp_path / "edges.npy", "edges.npy")
    for name in ("edges.npy", "e.npz"):
        with pytest.raises(InputError, match="not a complete npz"):
            read_graph(tmp_path / name)


def test_a_packed_archive_has_the_same_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "e.npz", edges=np.tile([[0, 1]], (200_000, 1)))
    assert read_graph(tmp_path / "e.npz").num_edges == 1
    monkeypatch.setattr(files, "UNPACKED_FREE_BYTES", 1 << 16)
    with pytest.raises(InputError, match=r"unpacks to 3,200,128 bytes.*--max-unpacked"):
        read_graph(tmp_path / "e.npz")
    assert _read(tmp_path / "e.npz", 0.01).num_edges == 1


def test_a_quote_in_the_header_takes_no_quadratic_time(tmp_path: Path) -> None:
    lines = "".join(f"{i},{i + 1}\n" for i in range(60_000))
    (tmp_path / "e.csv").write_text('sou"rce,target\n' + lines)
    begin = time.process_time()
    graph = read_graph(tmp_path / "e.csv", source='sou"rce', target="target")
    assert time.process_time() - begin < 3
    assert graph.num_edges == 60_000
    (tmp_path / "f.csv").write_text('source,"target\n' + lines)
    begin = time.process_time()
    with pytest.raises(InputError):
        read_graph(tmp_path / "f.csv")
    assert time.process_time() - begin < 3


def _peak_of(code: str, *arguments: object) -> tuple[str, int]:
    """Run code in a process of its own; return what it printed and the MiB that it took."""
    script = (
        "import resource, sys, graphham.io.text\n"
        "from graphham.errors import InputError\n"
        "from graphham.graph.graph import build_graph\n"
        "from graphham.io import attach_features, read_graph\n"
        "graph = build_graph([0], [1], 2)\n"
        "graphham.io.files.UNPACKED_FREE_BYTES = 1 << 25\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"try:\n {code}\n print('read')\n"
        "except InputError as error: print(error)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before >> 10)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    sentence, mebibytes = done.stdout.strip().splitlines()
    return sentence, int(mebibytes)


@pytest.mark.parametrize("read", ["read_graph(sys.argv[1])", "attach_features(graph, sys.argv[1])"])
def test_a_parquet_file_of_equal_rows_is_refused_before_it_is_decoded(
    tmp_path: Path, read: str
) -> None:
    rows = 5 << 20
    values = pa.array(np.zeros(1 << 20, dtype=np.int64))
    with pq.ParquetWriter(tmp_path / "e.parquet", pa.schema([("a", "i8"), ("b", "i8")])) as out:
        for _ in range(rows >> 20):
            out.write_table(pa.table({"a": values, "b": values}))
    assert (tmp_path / "e.parquet").stat().st_size < 60_000
    sentence, mebibytes = _peak_of(read, tmp_path / "e.parquet")
    assert "--max-unpacked" in sentence
    assert mebibytes < 150


@pytest.mark.parametrize("encoding", ["dictionary", "prefix"])
@pytest.mark.parametrize("read", ["read_graph(sys.argv[1])", "attach_features(graph, sys.argv[1])"])
def test_one_long_text_again_and_again_is_refused(tmp_path: Path, read: str, encoding: str) -> None:
    text = "x" * (1 << 17)
    column = pa.DictionaryArray.from_arrays(np.zeros(4000, dtype=np.int32), [text]).cast("string")
    how = {"use_dictionary": encoding == "dictionary", "store_schema": False}
    if encoding == "prefix":
        how["column_encoding"] = dict.fromkeys("ab", "DELTA_BYTE_ARRAY")
        column = column[:1000]
    pq.write_table(pa.table({"a": column, "b": column}), tmp_path / "e.parquet", **how)
    assert (tmp_path / "e.parquet").stat().st_size < 200_000
    sentence, mebibytes = _peak_of(read, tmp_path / "e.parquet")
    assert "--max-unpacked" in sentence
    assert mebibytes < 250  # of 1,000


def test_attributes_times_nodes_of_a_graphml_file_are_bounded(tmp_path: Path) -> None:
    keys = "".join(f'<key id="k{i}" for="node"/>' for i in range(4000))
    nodes = "".join(f'<node id="{i}"/>' for i in range(4000))
    text = f'<graphml>{keys}<graph>{nodes}<edge source="0" target="1"/></graph></graphml>'
    (tmp_path / "g.graphml").write_text(text)
    assert read_graph(tmp_path / "g.graphml").num_nodes == 4000
    sentence, mebibytes = _peak_of("attach_features(graph, sys.argv[1])", tmp_path / "g.graphml")
    assert "unpacks to 128,000,000 bytes" in sentence
    assert mebibytes < 100


def test_an_endless_tag_takes_no_quadratic_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphham.io.graphml._TOKEN_BYTES", 4 << 20)
    (tmp_path / "g.graphml").write_text("<graphml><!--" + "x" * (40 << 20))
    begin = time.process_time()
    with pytest.raises(InputError, match=r"comment of more than|not well-formed"):
        read_graph(tmp_path / "g.graphml")
    assert time.process_time() - begin < 3


def test_declared_columns_of_features_need_entries_to_bear_them_out(tmp_path: Path) -> None:
    graph = build_graph([0], [1], 2)
    parts = {"data": np.ones(2), "indices": np.array([0, 5]), "indptr": np.array([0, 1, 2])}
    np.savez(tmp_path / "x.npz", shape=np.array([2, 10**11]), **parts)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="declares 100,000,000,000 columns for 2 entries"):
        attach_features(graph, tmp_path / "x.npz")
    np.savez(tmp_path / "y.npz", shape=np.array([2, 10**5]), **parts)  # type: ignore[arg-type]
    assert attach_features(graph, tmp_path / "y.npz").num_features == 10**5


def test_more_columns_than_text_can_bear_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphham.io.node_tables._MOST_COLUMNS", 50)
    (tmp_path / "f.csv").write_text(",".join(["id", *(f"c{i}" for i in range(60))]) + "\n")
    with (tmp_path / "f.csv").open("a") as file:
        file.writelines(f"{row}" + ",1" * 60 + "\n" for row in (0, 1))
    with pytest.raises(InputError, match="60 columns"):
        attach_features(build_graph([0], [1], 2), tmp_path / "f.csv")
