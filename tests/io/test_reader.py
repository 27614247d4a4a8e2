"""Edge files of every format give the graph that was meant, or one sentence about what is wrong."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graphham.errors import InputError
from graphham.io import (
    attach_features,
    attach_labels,
    describe,
)
from graphham.io.edge_streams import EdgeColumns
from graphham.io.reader import expand_paths, read_edges
from tests.io.edge_files import ABC, GRAPHML, assert_same, on_disk, pairs, put, read_both


def test_report_counts(tmp_path: Path) -> None:
    graph = read_both(put(tmp_path, "e.csv", "a,b\nb,a\na,a\nc,d\na,b\n"))
    report = graph.report
    assert report is not None
    assert (report.rows_read, report.duplicates_merged, report.self_loops_dropped) == (5, 2, 1)
    assert (report.components, report.isolated) == (2, 0)
    assert describe(report, graph) == [
        "5 edge rows, 4 nodes (ids: text, kept), 2 edges",
        "2 duplicate edges merged, 1 self-loop dropped, 2 components, 0 isolated nodes",
    ]


BOMB = "<!DOCTYPE x [<!ENTITY a 'aa'><!ENTITY b '&a;&a;'>]><graphml><graph/></graphml>"


THIEF = "<!DOCTYPE x [<!ENTITY a SYSTEM 'file:///etc/hostname'>]><graphml><graph/></graphml>"


@pytest.mark.parametrize(
    ("name", "content", "options", "told"),
    [
        ("empty.csv", "", {}, "is empty"),
        ("empty.csv.gz", gzip.compress(b"", mtime=0), {}, "empty once unpacked"),
        ("blank.csv", "\n\n# only this\n", {}, "no rows"),
        ("header.csv", "source,target\n", {}, "header but no edges"),
        ("garbage.csv", bytes(range(256)) * 4, {}, "binary data"),
        ("cut.csv.gz", gzip.compress(b"a,b\n" * 999, mtime=0)[:-9], {}, "cut short"),
        ("latin.csv", "a,b\nJosé,c\n".encode("latin-1"), {}, r"byte 7, line 2"),
        ("wide.csv", "a,b\n".encode("utf-16"), {}, "UTF-16"),
        ("one.csv", "alone\nagain\n", {}, "line 1 .*'alone'"),
        ("one_later.csv", "a,b\nc\nd,e\n", {}, r"line 2 .* 1 field .*'c'"),
        ("mixed.csv", "a,b\nc,d\ne\tf\n", {}, r"line 3 .*separator is comma"),
        ("three.csv", "#note\na,b\nc,d,e\n", {}, r"line 3 .* 3 fields"),
        ("hole.csv", "a,b\n,c\n", {}, r"line 2 .*column 1"),
        (
            "named.csv",
            "a,b\nc,d\n",
            {"source": "from"},
            r"no column 'from'; it has the columns a, b",
        ),
        ("twice.csv", "a,b\nc,d\n", {"source": "a", "target": "a"}, "both 'a'"),
        ("word.csv", "a,b,w\nc,d,heavy\n", {"weight": "w"}, r"line 2 .*'heavy'.*'w'"),
        ("minus.csv", "a,b,w\nc,d,1\nc,e,-2\n", {"weight": "w"}, r"line 3 .*'-2'"),
        ("nan.csv", "a,b,w\nc,d,nan\n", {"weight": "w"}, r"line 2 .*'nan'"),
        ("large.csv", "a,b,w\nc,d,1\nc,e,1e39\n", {"weight": "w"}, r"line 3 .*'1e39'.*scale"),
        ("small.csv", "a,b,w\nc,d,1e-60\n", {"weight": "w"}, r"line 2 .*'1e-60'.*scale"),
        (
            "sum.csv",
            "a,b,w\nc,d,3e38\nd,e,1\nd,c,2e38\n",
            {"weight": "w"},
            r"edge 'c' - 'd' .*add up to 5e\+38.*scale",
        ),
        ("single.csv", "a,a\n", {}, "single node"),
        ("loops.csv", "a,a\nb,b\n", {}, "no edges between"),
        ("cut.parquet", b"PAR1\x15\x04rest", {}, "not a complete Parquet"),
        ("text.parquet", "a,b\n", {}, "not a complete Parquet"),
        ("cut.npz", b"PK\x03\x04rest", {}, "not a complete npz"),
        ("bomb.graphml", BOMB, {}, "entities"),
        ("thief.graphml", THIEF, {}, "entities"),
        ("cut.graphml", GRAPHML[:-30], {}, "not well-formed GraphML .*line 6"),
        ("page.xml", "<?xml version='1.0'?><html/>", {}, "no GraphML graph"),
        ("g.graphml", GRAPHML, {"weight": "age"}, "'age'; its edge attributes: strength"),
        (
            "bad.graphml",
            GRAPHML.replace(">4<", ">no<"),
            {"weight": "strength"},
            "'n1' - 'n0'.*'no'",
        ),
        ("dangling.graphml", GRAPHML.replace('target="n1"', 'target="n9"'), {}, "'n9'"),
    ],
)
def test_bad_edge_files(
    tmp_path: Path, name: str, content: str | bytes, options: dict[str, str], told: str
) -> None:
    file = put(tmp_path, name, content)
    with pytest.raises(InputError, match=told) as caught:
        read_both(file, **options)  # type: ignore[arg-type]
    message = str(caught.value)
    assert str(file) in message
    assert "\n" not in message


def test_several_files_are_one(tmp_path: Path) -> None:
    """Numbers in one file and text in the next: all text, in the order of the files."""
    a = pa.table({"s": [5, 3], "t": [3, 3]})
    b = pa.table({"s": ["x", "3"], "t": ["5", "y"]})
    (tmp_path / "in").mkdir()
    pq.write_table(a, tmp_path / "in" / "1.parquet")
    pq.write_table(b, tmp_path / "in" / "2.parquet")
    pq.write_table(
        pa.table({"s": ["5", "3", "x", "3"], "t": ["3", "3", "5", "y"]}), tmp_path / "1.parquet"
    )
    files = expand_paths([str(tmp_path / "in")])
    found = on_disk(files, tmp_path / "s")
    expected = read_both(tmp_path / "1.parquet")
    assert found.ids.tolist() == ["5", "3", "x", "y"]
    assert found.fingerprint() == expected.fingerprint()
    assert found.report is not None
    assert found.report.source == f"{files[0]} and 1 more file"


def test_describe_names_everything(tmp_path: Path) -> None:
    graph = attach_labels(attach_features(ABC, np.eye(3)), ["x", "y", None])
    lines = describe(graph.report, graph)
    assert lines[0] == "2 edge rows, 3 nodes (ids: text, kept), 2 edges"
    assert "3 features (float32)" in lines
    assert "2 classes (one per node), labels known for 2 nodes" in lines


def test_files_that_cannot_be_joined(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", edges=np.array([[0, 1]]), ids=np.array(["a", "b"]))
    np.savez(tmp_path / "weighted.npz", edges=np.array([[0, 1]]), weights=np.array([2.0]))
    put(tmp_path, "e.csv", "a,b\nb,c\n")
    for name, told in (("rows.npz", "by row"), ("weighted.npz", "only one of .*has weights")):
        with pytest.raises(InputError, match=told):
            on_disk([tmp_path / "e.csv", tmp_path / name], tmp_path / "s")


def test_files_of_different_formats_are_one(tmp_path: Path) -> None:
    np.savez(tmp_path / "e.npz", edges=np.array([[3, 1]]))
    put(tmp_path, "g.graphml", GRAPHML)
    put(tmp_path, "e.csv", "n0 3\n3 1\n")
    files = [tmp_path / name for name in ("e.npz", "e.csv", "g.graphml")]
    graph = on_disk(files, tmp_path / "s")
    assert graph.ids.tolist() == ["n1", "n0", "alone", "3", "1"]
    assert pairs(graph) == {("n1", "n0"), ("n0", "3"), ("3", "1")}
    assert_same(graph, read_edges(files, EdgeColumns()))


def test_a_first_line_that_shares_ids_with_the_last_is_an_edge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphham.io.external_sort._CHUNK", 2)
    for last, count in (("u", 0), ("z", 1)):
        put(tmp_path, "e.csv", f"u,v5\na,b\nb,c\nc,{last}\n")
        graph = read_both(tmp_path / "e.csv")
        assert graph.report is not None
        assert len(graph.report.notes) == count
