"""Edges that wait on disk become the same graph as edges in memory."""

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graphham.errors import InputError
from graphham.io import external_sort as sorting
from graphham.io import read_graph
from graphham.io.edge_streams import EdgeColumns
from graphham.io.reader import read_edges
from tests.io.edge_files import assert_same, on_disk, put


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sorting, "_put", full)
    (tmp_path / "e.csv").write_text("a,b\nb,c\n")
    with pytest.raises(InputError, match=r"No space left on device.*make room"):
        on_disk(tmp_path / "e.csv", tmp_path / "s")


def test_small_files_touch_no_disk_and_compile_nothing(tmp_path: Path) -> None:
    """A fresh process reads a small gzipped file with no folder it could write to."""
    put(tmp_path, "e.csv.gz", gzip.compress(b"a,b\nb,c\n" * 1000))
    program = (
        "import sys, tempfile, graphham as gh\n"
        "tempfile.mkdtemp = None\n"
        "print(gh.read_graph('e.csv.gz').num_edges, 'numba' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["2", "False"]
    assert [file.name for file in tmp_path.iterdir()] == ["e.csv.gz"]


def test_large_files_go_by_way_of_a_folder_that_is_gone_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a scratch folder the graph is in memory and the temporary folder is removed."""
    ends = np.random.default_rng(0).integers(0, 50, (2, 3000))
    table = pa.table({"s": ends[0], "t": ends[1], "w": ends[0] + 1.5})
    pq.write_table(table, tmp_path / "e.parquet", row_group_size=200)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr("graphham.io.files._BATCH_ROWS", 200)
    made = []
    monkeypatch.setattr(sorting, "_sort_ranges", _noting(sorting._sort_ranges, made, tmp_path))
    paths, columns = [tmp_path / "e.parquet"], EdgeColumns(weight="w")
    for limit in (0, 9000, 70_000):  # at once, after some batches, and shortly before the last
        graph = read_edges(paths, columns, in_memory_bytes=limit)
        assert not any((tmp_path / "temporary").iterdir())
        assert_same(graph, read_graph(tmp_path / "e.parquet", weight="w"))
    assert made == [1, 1, 1]
    assert not isinstance(graph.indices.base, np.memmap)


def _noting(function: Any, made: list[int], folder: Path) -> Any:
    def noted(*args: Any) -> Any:
        made.append(len(list((folder / "temporary").iterdir())))
        return function(*args)

    return noted
