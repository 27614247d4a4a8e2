"""Features and labels find their nodes by id, or the reader says which id or value is wrong."""

import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from graphham.cli.options import GraphOptions, attach_tables
from graphham.datasets.open_source import as_graph
from graphham.errors import InputError
from graphham.graph.graph import Graph, build_graph
from graphham.graph.ids import NodeIds
from graphham.io import attach_features, attach_labels, describe, read_graph, split_spec


def put(folder: Path, name: str, content: str | bytes) -> Path:
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def path_of(*ids: int | str) -> Graph:
    """A path through the given ids, in this row order."""
    n = len(ids)
    return build_graph(np.arange(n - 1), np.arange(1, n), n, ids=NodeIds(list(ids)))


ABC = path_of("a", "b", "c")
NUMBERS = path_of(10, 20, 30)


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


def test_very_wide_rows(tmp_path: Path) -> None:
    """A line may be longer than what Python's csv module allows for one field."""
    width = 70_000
    rows = "".join(f"{name}{',1' * width}\n" for name in "abc")
    graph = attach_features(ABC, put(tmp_path, "w.csv", rows))
    assert graph.num_features == width
    spaced = put(tmp_path, "w.txt", rows.replace(",", " "))
    assert attach_features(ABC, spaced).num_features == width


def test_id_column_by_name(tmp_path: Path) -> None:
    file = put(tmp_path, "f.csv", "size,key\n1,b\n2,a\n3,c\n")
    graph = attach_features(ABC, file, id_column="key")
    np.testing.assert_array_equal(graph.features, [[2], [1], [3]])
    with pytest.raises(InputError, match=r"no id column 'node'; it has the columns size, key"):
        attach_features(ABC, file, id_column="node")


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
    ],
)
def test_bad_feature_arrays(tmp_path: Path, arrays: dict[str, np.ndarray], told: str) -> None:
    np.savez(tmp_path / "f.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=told):
        attach_features(ABC, tmp_path / "f.npz")


SHARED = {
    "numbers": pa.table({"topic": [7, 8, 7], "id": ["c", "a", "b"], "v": [3.0, 1.0, 2.0]}),
    "blanks": pa.table({"id": ["c", "a", "b"], "v": [3, 1, 2], "topic": [7, None, 8]}),
    "text": pa.table(
        {"id": ["c", "a", "b"], "name": ["C", "1", ""], "topic": ["x", "y", ""], "v": [3, 1, 2]}
    ),
}


@pytest.mark.parametrize("kind", SHARED)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("spelling", ["same", "dotted", "link", "pair"])
def test_a_label_is_never_a_feature_of_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, ending: str, spelling: str
) -> None:
    table, file = SHARED[kind], tmp_path / f"nodes.{ending}"
    write = pacsv.write_csv if ending == "csv" else pq.write_table
    write(table, file)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(file)
    labels = {
        "same": f"{file}:topic",
        "dotted": f"./../{tmp_path.name}/nodes.{ending}:topic",
        "link": "link:topic",
        "pair": (Path(file.name), "topic"),
    }[spelling]
    edges = put(tmp_path, "e.csv", "source,target\na,b\nb,c\n")
    for graph in (
        read_graph(edges, features=str(file), labels=labels),
        as_graph(ABC, features=file, labels=labels),
        attach_tables(ABC, GraphOptions(str(file), f"{labels[0]}:topic"))
        if isinstance(labels, tuple)
        else attach_tables(ABC, GraphOptions(str(file), labels)),
    ):
        assert graph.feature_names == ["v"]
        np.testing.assert_array_equal(graph.features, [[1], [2], [3]])
        assert graph.labels is not None
        truth = dict(zip(table["id"].to_pylist(), table["topic"].to_pylist(), strict=True))
        assert graph.labels.values() == [truth[i] or None for i in "abc"]
        said = " ".join(describe(graph.report, graph))
        assert "topic holds the labels" in said
        assert ("not features: name" in said) == (kind == "text")


def test_a_label_of_another_file_or_frame_leaves_the_features_alone() -> None:
    frame = pl.DataFrame({"id": ["a", "b", "c"], "v": [1, 2, 3], "topic": [0, 1, 0]})
    graph = as_graph(ABC, features=frame, labels=(frame.clone(), "topic"))
    assert graph.feature_names == ["v", "topic"]
    assert as_graph(ABC, features=frame, labels=(frame, "topic")).feature_names == ["v"]
    assert as_graph(ABC, features=frame, labels=["x", None, "y"]).num_features == 2


def test_labels_alone_in_a_file_leave_no_feature(tmp_path: Path) -> None:
    file = put(tmp_path, "n.csv", "id,topic,name\na,1,ann\nb,2,bob\nc,1,cy\n")
    told = r"beside the id 'id' and the label 'topic' \(not numbers: name\)"
    with pytest.raises(InputError, match=told):
        as_graph(ABC, features=file, labels=f"{file}:topic")


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


@pytest.mark.parametrize(
    ("content", "column", "expected"),
    [
        ("id,kind\nb,x\na,y\nc,\n", "kind", ["y", "x", None]),
        ("id,kind\nb,x\na,y\n", None, ["y", "x", None]),
        ("b,x\na,y\n", None, ["y", "x", None]),
        ("a,x\nb,1\nc,2\n", None, ["x", "1", "2"]),  # a is a node, so its line is data
        ("s,1\n", None, None),
        ("kind,other,id\nx,1,b\n", "kind", None),
        ("id,kind\nb,2\na,10\nc,\n", "kind", [10, 2, None]),
        ("id,kind\nb,02\na,10\nc, \n", "kind", ["10", "02", None]),
        ("id,kind\na,x\na,y\nb,x\na,x\n", "kind", [["x", "y"], ["x"], None]),
        ("id,kind\na,x\na,x\nb,y\n", "kind", ["x", "y", None]),
        ("id,kind\na,x\na,\nb,y\n", "kind", ["x", "y", None]),
    ],
)
def test_labels_from_text(
    tmp_path: Path, content: str, column: str | None, expected: list[object] | None
) -> None:
    file = put(tmp_path, "l.csv", content)
    spec = str(file) if column is None else f"{file}:{column}"
    if expected is None and column is None:
        with pytest.raises(InputError, match="id 's'"):  # a mistyped id is not silently a header
            attach_labels(ABC, spec)
        return
    if expected is None:
        with pytest.raises(InputError, match="id '1'"):  # "other" is the first other column
            attach_labels(ABC, spec)
        graph = attach_labels(ABC, spec, id_column="id")
        expected = [None, "x", None]
    else:
        graph = attach_labels(ABC, spec)
    assert graph.labels is not None
    assert graph.labels.values() == expected
    assert list(graph.labels.classes) == sorted(graph.labels.classes)


def test_label_list_columns(tmp_path: Path) -> None:
    table = pa.table({"id": ["c", "a", "b"], "tags": [["y", "x"], ["x"], None]})
    pq.write_table(table, tmp_path / "l.parquet")
    for spec in (f"{tmp_path / 'l.parquet'}:tags", (table, "tags"), pl.from_arrow(table)):
        graph = attach_labels(ABC, spec)
        assert graph.labels is not None
        assert graph.labels.is_multi
        assert graph.labels.values() == [["x"], None, ["x", "y"]]
        assert graph.labels.known.tolist() == [True, False, True]


def test_labels_from_typed_columns() -> None:
    frame = pl.DataFrame({"id": ["a", "b", "c"], "y": [1.0, None, 3.0], "z": [True, None, False]})
    labels = attach_labels(ABC, (frame, "y")).labels
    assert labels is not None
    assert labels.values() == [1, None, 3]
    labels = attach_labels(ABC, (frame, "z")).labels
    assert labels is not None
    assert labels.values() == ["true", None, "false"]
    words = frame.with_columns(pl.Series("y", ["u", None, "u"]).cast(pl.Categorical))
    labels = attach_labels(ABC, (words, "y")).labels
    assert labels is not None
    assert labels.values() == ["u", None, "u"]


@pytest.mark.parametrize(
    ("content", "column", "told"),
    [
        ("id,kind\na,x\n", "sort", r"no label column 'sort'; it has the columns id, kind"),
        ("id,kind\nzz,x\n", "kind", r"id 'zz'"),
        ("id,kind,other\na,x,1\n", None, r"3 columns.*id, kind, other"),
        ("id,kind\na,\nb,\n", "kind", "every label .* blank"),
        ("", "kind", "is empty"),
        ("id,kind\na,x\nb\n", "kind", "line 3"),
    ],
)
def test_bad_label_files(tmp_path: Path, content: str, column: str | None, told: str) -> None:
    file = put(tmp_path, "l.csv", content)
    with pytest.raises(InputError, match=told) as caught:
        attach_labels(ABC, str(file) if column is None else f"{file}:{column}")
    assert str(file) in str(caught.value)


def test_id_column_meant_for_the_features_only(tmp_path: Path) -> None:
    edges = put(tmp_path, "e.csv", "source,target\na,b\nb,c\n")
    features = put(tmp_path, "f.csv", "v,node\n1,a\n2,b\n3,c\n")
    labels = put(tmp_path, "l.csv", "paper,kind\na,x\n")
    graph = read_graph(edges, features=features, labels=f"{labels}:kind", id_column="node")
    assert graph.labels is not None
    assert graph.labels.values() == ["x", None, None]
    np.testing.assert_array_equal(graph.features, [[1], [2], [3]])


def test_real_facebook_pages(shared_data: Path) -> None:
    raw = shared_data / "FacebookPagePage" / "raw"
    labels = f"{raw / 'musae_facebook_target.csv'}:page_type"
    graph = read_graph(raw / "musae_facebook_edges.csv", labels=labels)
    assert (graph.num_nodes, graph.num_edges) == (22_470, 170_823)
    assert graph.report is not None
    assert graph.report.self_loops_dropped == 179
    assert graph.labels is not None
    assert graph.labels.classes == ("company", "government", "politician", "tvshow")
    assert graph.labels.known.all()


def test_label_column_that_is_the_id(tmp_path: Path) -> None:
    file = put(tmp_path, "l.csv", "id,kind\na,x\n")
    with pytest.raises(InputError, match=r"'id' .*is its id column"):
        attach_labels(ABC, f"{file}:id", id_column="id")


def test_spec_is_split_at_the_last_colon(tmp_path: Path) -> None:
    odd = put(tmp_path, "a:b.csv", "id,k\na,1\n")
    assert split_spec(odd) == (odd, None)
    assert split_spec(f"{odd}:k") == (odd, "k")
    assert split_spec(f"{odd}:dc:title") == (odd, "dc:title")
    assert split_spec("C:") == (Path("C:"), None)
    assert split_spec("missing.csv:k") == (Path("missing.csv"), "k")
    with pytest.raises(InputError, match=r"label file missing\.csv does not exist"):
        attach_labels(ABC, "missing.csv:k")


GRAPHML = """<graphml>
<key id="k" for="node" attr.name="size" attr.type="int"><default>7</default></key>
<key id="c" for="node" attr.name="club" attr.type="string"/>
<graph><node id="a"><data key="k">1</data><data key="c">red</data></node><node id="b"/>
<edge source="a" target="b"/></graph></graphml>"""


def test_node_attributes_of_graphml(tmp_path: Path) -> None:
    file = put(tmp_path, "g.graphml", GRAPHML)
    assert read_graph(file).features is None  # only on request
    graph = read_graph(file, features=file, labels=f"{file}:club")
    np.testing.assert_array_equal(graph.features, [[1], [7]])
    assert graph.feature_names == ["size"]
    assert graph.labels is not None
    assert graph.labels.values() == ["red", None]
    assert graph.report is not None
    assert any("club" in note for note in graph.report.notes)


def test_describe_names_everything(tmp_path: Path) -> None:
    graph = attach_labels(attach_features(ABC, np.eye(3)), ["x", "y", None])
    lines = describe(graph.report, graph)
    assert lines[0] == "2 edge rows, 3 nodes (ids: text, kept), 2 edges"
    assert "3 features (float32)" in lines
    assert "2 classes (one per node), labels known for 2 nodes" in lines


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
        min_size=2,
        max_size=8,
        unique=True,
    ),
    st.randoms(use_true_random=False),
)
def test_any_ids_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, ids: list[str], random: object
) -> None:
    graph = path_of(*ids)
    order = list(range(len(ids)))
    random.shuffle(order)  # type: ignore[attr-defined]
    folder = tmp_path_factory.mktemp("any")
    table = pl.DataFrame({"id": [ids[i] for i in order], "v": order, "y": [f"c{i}" for i in order]})
    table.write_csv(folder / "t.csv", quote_style="always")
    table.write_parquet(folder / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        read = attach_labels(graph, f"{folder / name}:y")
        assert read.labels is not None
        assert read.labels.values() == [f"c{i}" for i in range(len(ids))]
        read = attach_features(graph, table.select("id", "v"))
        np.testing.assert_array_equal(read.features, np.arange(len(ids))[:, None])
