"""Labels find their nodes by id, and never count as features."""

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from graphham.cli.options import GraphOptions, attach_tables
from graphham.datasets.open_source import as_graph
from graphham.errors import InputError
from graphham.io import attach_labels, describe, read_graph, split_spec
from tests.io.edge_files import ABC, put

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
    other = frame.with_columns(topic=pl.Series([1, 1, 0]))
    graph = as_graph(ABC, features=frame, labels=(other, "topic"))
    assert graph.feature_names == ["v", "topic"]
    assert as_graph(ABC, features=frame, labels=(frame.clone(), "topic")).feature_names == ["v"]
    assert as_graph(ABC, features=frame, labels=(frame, "topic")).feature_names == ["v"]
    assert as_graph(ABC, features=frame, labels=["x", None, "y"]).num_features == 2


def test_labels_alone_in_a_file_leave_no_feature(tmp_path: Path) -> None:
    file = put(tmp_path, "n.csv", "id,topic,name\na,1,ann\nb,2,bob\nc,1,cy\n")
    told = r"beside the id 'id' and the label 'topic' \(not numbers: name\)"
    with pytest.raises(InputError, match=told):
        as_graph(ABC, features=file, labels=f"{file}:topic")


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
