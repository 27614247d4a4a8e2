"""Features find their nodes by id, or the reader says which id or value is wrong."""

import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.io import (
    attach_features,
    attach_labels,
    describe,
    read_graph,
)
from tests.io.edge_files import ABC, NUMBERS, path_of, put


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("f.csv", "id,size,age\nc,3,0.5\na,1,2.5\nb,2,-1e3\n"),
        ("no_head.csv", "c,3,0.5\na,1,2.5\nb,2,-1e3\n"),
        ("f.tsv", "node\tsize\tage\nc\t3\t0.5\na\t1\t2.5\nb\t2\t-1000\n"),
        ("f.txt", "# by hand\nnode size age\nc 3   0.5\na 1 2.5\nb 2 -1000\n"),
        ("quoted.csv", '"id","size","age"\n"c","3","0.5"\n"a","1","2.5"\n"b","2","-1000"\n'),
    ],
)
def test_features_from_text(tmp_path: Path, name: str, content: str) -> None:
    graph = attach_features(ABC, put(tmp_path, name, content))
    np.testing.assert_array_equal(graph.features, np.float32([[1, 2.5], [2, -1000], [3, 0.5]]))
    assert isinstance(graph.features, np.ndarray)
    assert graph.features.dtype == np.float32
    if "no_head" not in name:
        assert graph.feature_names == ["size", "age"]
    zipped = put(tmp_path, name + ".gz", gzip.compress(content.encode()))
    np.testing.assert_array_equal(attach_features(ABC, zipped).features, graph.features)


def test_features_with_numbers_for_column_names(tmp_path: Path) -> None:
    file = put(tmp_path, "f.csv", "id,0,1\n30,1,2\n10,3,4\n20,5,6\n")
    graph = attach_features(NUMBERS, file)
    assert graph.feature_names == ["0", "1"]
    np.testing.assert_array_equal(graph.features, [[3, 4], [5, 6], [1, 2]])


def test_features_from_parquet_and_frames(tmp_path: Path) -> None:
    table = pa.table(
        {"id": [20, 10, 30], "on": [True, False, True], "n": pa.array([1, 2, 3], pa.int8())}
    )
    pq.write_table(table, tmp_path / "f.parquet")
    expected = [[0, 2], [1, 1], [1, 3]]
    for source in (tmp_path / "f.parquet", table, pl.from_arrow(table)):
        np.testing.assert_array_equal(attach_features(NUMBERS, source).features, expected)


def test_wide_mostly_zero_tables_become_sparse(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for width, density, sparse in ((65, 0.05, True), (65, 0.5, False), (64, 0.05, False)):
        values = sp.random(40, width, density, rng=rng).toarray().astype(np.float32)
        table = pa.table(
            {"id": np.arange(40)[::-1]} | {f"w{j}": values[:, j] for j in range(width)}
        )
        pq.write_table(table, tmp_path / "w.parquet")
        graph = attach_features(path_of(*range(40)), tmp_path / "w.parquet")
        assert graph.has_sparse_features == sparse
        found = graph.features.toarray() if sparse else graph.features  # type: ignore[union-attr]
        np.testing.assert_array_equal(found, values[::-1])
        assert graph.feature_names == [f"w{j}" for j in range(width)]


def test_features_from_npz(tmp_path: Path) -> None:
    x = np.float16([[1, 2], [3, 4], [5, 6]])
    np.savez(tmp_path / "d.npz", ids=np.array(["c", "a", "b"]), x=x, names=np.array(["p", "q"]))
    dense = attach_features(ABC, tmp_path / "d.npz")
    assert isinstance(dense.features, np.ndarray)
    assert dense.features.dtype == np.float16
    np.testing.assert_array_equal(dense.features, x[[1, 2, 0]])
    assert dense.feature_names == ["p", "q"]
    m = sp.csr_matrix(x.astype(np.float64))
    parts = {"data": m.data, "indices": m.indices, "indptr": m.indptr, "shape": m.shape}
    np.savez(tmp_path / "s.npz", ids=np.array([20, 10, 30]), **parts)  # type: ignore[arg-type]
    sparse = attach_features(NUMBERS, tmp_path / "s.npz")
    assert sparse.has_sparse_features
    np.testing.assert_array_equal(sparse.features.toarray(), x[[1, 0, 2]])  # type: ignore[union-attr]


def test_arrays_without_ids_belong_to_ids_from_zero(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(4.0)[:, None])
    graph = path_of(0, 1, 3)
    with pytest.raises(InputError, match=r"\(4 rows\) has the id 2"):
        attach_features(graph, tmp_path / "x.npy")
    grown = attach_features(graph, tmp_path / "x.npy", isolated=True)
    assert grown.ids.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(grown.features, [[0], [1], [2], [3]])


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("unknown.csv", "id,v\na,1\nb,1\nc,1\nzz,1\n", r"id 'zz'.*--isolated"),
        ("short.csv", "id,v\na,1\nc,1\n", r"2 rows for 3 nodes: 'b' lacks"),
        ("long.csv", "id,v\na,1\nb,1\nc,1\na,2\n", r"2 rows for the id 'a'"),
        ("blank.csv", "id,v,w\na,1,2\nb,,2\nc,1,2\n", r"'v' of node 'b'.*missing"),
        ("nan.csv", "id,v\na,1\nb,NaN\nc,1\n", r"'v' of node 'b'.*missing"),
        ("inf.csv", "id,v\na,1\nb,inf\nc,1\n", r"'v' of node 'b'.*inf"),
        ("word.csv", "id,v,w\na,1,2\nb,1,tall\nc,1,2\n", r"line 3 .*'tall'.*'w'"),
        ("words.csv", "id,color\na,red\nb,blue\nc,red\n", r"beside the id 'id' .*color"),
        ("ragged.csv", "id,v\na,1\nb,1,7\nc,1\n", r"line 3 .*3 fields"),
        ("noid.csv", "id,v\na,1\n,1\nc,1\n", r"line 3 .*no id"),
        ("one.csv", "id\na\n", r"one field \('id'\)"),
        ("empty.csv", "", "is empty"),
        ("bin.csv", b"\0\1\2", "binary"),
        ("latin.csv", "id,v\nß,1\n".encode("latin-1"), "byte 5, line 2"),
        ("cut.parquet", b"PAR1....", "not a complete Parquet"),
        ("cut.npz", b"PK\x03\x04..", "not a complete npz"),
    ],
)
def test_bad_feature_files(tmp_path: Path, name: str, content: str | bytes, told: str) -> None:
    file = put(tmp_path, name, content)
    with pytest.raises(InputError, match=told) as caught:
        attach_features(ABC, file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_feature_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"feature file .*gone\.csv does not exist"):
        attach_features(ABC, tmp_path / "gone.csv")
    with pytest.raises(InputError, match="is a folder"):
        attach_features(ABC, tmp_path)


def test_bad_parquet_columns(tmp_path: Path) -> None:
    file = tmp_path / "f.parquet"
    pq.write_table(
        pa.table({"id": ["a", "b", "c"], "v": [1, 2, 3], "color": ["r", "g", "b"]}), file
    )
    graph = attach_features(ABC, file)
    assert graph.feature_names == ["v"]
    assert any("color" in note for note in describe(graph.report, graph))
    pq.write_table(pa.table({"id": ["a", "b", "c"], "color": ["r", "g", "b"]}), file)
    with pytest.raises(InputError, match=r"no numeric column beside the id 'id' .*color"):
        attach_features(ABC, file)
    pq.write_table(pa.table({"id": ["a", "b", "c"], "v": [1, None, 3]}), file)
    with pytest.raises(InputError, match=r"'v' of node 'b'"):
        attach_features(ABC, file)
    pq.write_table(pa.table({"id": ["a", None, "c"], "v": [1, 2, 3]}), file)
    with pytest.raises(InputError, match=r"row 2 .*no id"):
        attach_features(ABC, file)


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ({"x": np.ones((3, 2)), "ids": np.array(["a", "b"])}, "2 ids for 3 rows"),
        ({"x": np.ones((2, 2)), "ids": np.array(["a", "b"])}, "2 rows for 3 nodes: 'c' lacks"),
        ({"x": np.ones(3), "ids": np.array(["a", "b", "c"])}, r"shape \(3,\)"),
        ({"x": np.ones((3, 2)), "ids": np.array([0.5, 1, 2])}, "'ids'"),
        (
            {"x": np.ones((3, 2)), "ids": np.array(["a", "b", "c"]), "names": np.array(["n"])},
            "1 names for 2",
        ),
        ({"x": np.array([[1], [np.nan], [2]]), "ids": np.array(["c", "a", "b"])}, "1 of node 'a'"),
        ({"y": np.ones(3)}, "it has the arrays y"),
        (
            {
                "data": np.ones(1),
                "indices": np.array([9]),
                "indptr": np.array([0, 1, 1, 1]),
                "shape": np.array([3, 2]),
                "ids": np.array(["c", "a", "b"]),
            },
            "damaged",
        ),
        *(
            (
                {
                    "data": np.ones(2),
                    "indices": np.array([1, 0]),
                    "indptr": np.array(pointers),
                    "shape": np.array([3, 2]),
                    "ids": np.array(["c", "a", "b"]),
                },
                "indptr must rise from 0 to at most 2",
            )
            # SciPy believes the last pointer and sorts as many entries as another one claims.
            for pointers in ([0, 1 << 57, 0, 0], [1, 2, 2, 2], [0, 2, 1, 2], [0, 1, 2, 3])
        ),
    ],
)
def test_bad_feature_arrays(tmp_path: Path, arrays: dict[str, np.ndarray], told: str) -> None:
    np.savez(tmp_path / "f.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=told):
        attach_features(ABC, tmp_path / "f.npz")


def test_isolated_nodes_on_request(tmp_path: Path) -> None:
    edges = put(tmp_path, "e.csv", "source,target\n30,10\n10,50\n")
    features = put(tmp_path, "f.csv", "id,v\n10,1\n20,2\n30,3\n40,4\n50,5\n")
    graph = read_graph(edges, features=features, isolated=True)
    assert graph.ids.tolist() == [10, 20, 30, 40, 50]  # whole numbers stay in ascending order
    np.testing.assert_array_equal(graph.features, [[1], [2], [3], [4], [5]])
    assert {(graph.ids[a], graph.ids[b]) for a, b in graph.edge_list().tolist()} == {
        (10, 30),
        (10, 50),
    }
    assert graph.report is not None
    assert (graph.report.isolated, graph.report.components) == (2, 3)
    assert any("2 nodes have no edge" in note for note in graph.report.notes)
    assert graph.validate().degrees().tolist() == [2, 0, 1, 0, 1]
    labels = put(tmp_path, "l.csv", "id,y\n60,x\n")
    with pytest.raises(InputError, match="'60' has no edge and no features"):
        read_graph(edges, features=features, labels=labels, isolated=True)


def test_isolated_text_nodes_come_last_and_keep_labels() -> None:
    graph = attach_labels(ABC, ["x", None, "y"])
    grown = attach_features(
        graph, pl.DataFrame({"id": ["new", "a", "b", "c"], "v": [9, 1, 2, 3]}), isolated=True
    )
    assert grown.ids.tolist() == ["a", "b", "c", "new"]
    assert grown.labels is not None
    assert grown.labels.values() == ["x", None, "y", None]
    np.testing.assert_array_equal(grown.features, [[1], [2], [3], [9]])
