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
