"""A file with several faults: all are told at once, or left out and counted."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graphham.cli.main import main
from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.io import attach_features, attach_labels, read_graph

EDGES = "source,target,w\na,b,1\nb,c\nc,d,2\n,e,1\nd,a,-3\nd,e,5\n"


def put(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def notes(graph: Graph) -> str:
    assert graph.report is not None
    return "\n".join(graph.report.notes)


def test_all_bad_lines_of_an_edge_file_are_told_at_once(tmp_path: Path) -> None:
    file = put(tmp_path, "e.csv", EDGES)
    with pytest.raises(InputError, match=r"line 3 of .* has 2 fields") as caught:
        read_graph(file, weight="w")
    told = str(caught.value)
    assert "3 lines of" in told
    assert "line 3: 2 fields instead of 3" in told
    assert "line 5: no id in column 1" in told
    assert "line 6: the weight '-3'" in told
    assert "\n" not in told  # which the command line would print as two signs


def test_bad_lines_are_left_out_counted_and_shown(tmp_path: Path) -> None:
    graph = read_graph(put(tmp_path, "e.csv", EDGES), weight="w", skip_bad_rows=True)
    assert graph.num_edges == 3
    assert graph.ids.tolist() == ["a", "b", "c", "d", "e"]
    assert "3 bad rows were left out" in notes(graph)
    assert "line 5: no id" in notes(graph)


def test_many_bad_lines_stay_a_screenful(tmp_path: Path) -> None:
    file = put(tmp_path, "e.csv", "a,b\n" * 5 + "a,b,c\n" * 40)
    with pytest.raises(InputError, match="40 lines of") as caught:
        read_graph(file)
    assert "and 30 more" in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_good_files_are_the_same_with_and_without_skipping(tmp_path: Path) -> None:
    for text in ("a b\nb  c\n", '"a x",b\nb,"c,d"\n', "1,2\n2,3\n"):
        file = put(tmp_path, "e.csv", text)
        plain, careful = read_graph(file), read_graph(file, skip_bad_rows=True)
        assert plain.ids == careful.ids
        np.testing.assert_array_equal(plain.indices, careful.indices)


def test_quoted_ids_survive_the_lines_left_out_around_them(tmp_path: Path) -> None:
    file = put(tmp_path, "e.csv", 'one,two\n"x,y","p ""q"""\n"x,y"\nz,"x,y"\n')
    graph = read_graph(file, skip_bad_rows=True)
    assert set(graph.ids.tolist()) >= {"x,y", 'p "q"', "z"}


def test_a_quoted_id_that_begins_like_a_comment_survives_too(tmp_path: Path) -> None:
    file = put(tmp_path, "e.csv", 'a,b\n"#c",d\nbad\n"%e",f\n')
    graph = read_graph(file, skip_bad_rows=True)
    assert sorted(graph.ids.to_arrow().to_pylist()) == ["#c", "%e", "a", "b", "d", "f"]
    assert graph.num_edges == 3


def test_what_separates_cells_stays_when_rows_are_left_out(tmp_path: Path) -> None:
    # Found by fuzzing: what is left looks like a table of tabs, which has fewer columns.
    text = "i,x(x,y,lab\t5\t6\nb\t3\t\nb\t3\t4\n\na,y,l,label\na,y,label\na,1,3,7.\n1,3,7.\n"
    graph = read_graph(put(tmp_path, "e.csv", "a,b\nb,c\n"))
    with pytest.raises(InputError):
        attach_features(graph, put(tmp_path, "x.csv", text), skip_bad_rows=True)
    odd = put(tmp_path, "y.csv", "a\t2,,ed\nb,2e\n#,d\nb,2,,2")
    mended = attach_features(graph, odd, skip_bad_rows=True, fill_missing="mean")
    assert mended.num_features >= 1


def test_parquet_rows_without_an_end_are_left_out(tmp_path: Path) -> None:
    table = pa.table({"s": [1, None, 3, 4], "t": [2, 3, None, 1], "w": [1.0, 1, 1, 0]})
    pq.write_table(table, tmp_path / "e.parquet")
    graph = read_graph(tmp_path / "e.parquet", skip_bad_rows=True)
    assert graph.num_edges == 2
    assert "2 bad rows were left out" in notes(graph)
    assert "the first is row 2" in notes(graph)
    weighted = read_graph(tmp_path / "e.parquet", weight="w", skip_bad_rows=True)
    assert weighted.ids.tolist() == [1, 2]


TABLE = "id,v,w\na,1,\nb,x,2\nc,3,4\nc,9,9\nz,1,1\nd,5\n,1,1\ne,6,8\n"


def test_all_faults_of_a_feature_table_are_told_at_once(tmp_path: Path) -> None:
    graph = read_graph(put(tmp_path, "e.csv", "a,b\nb,c\n"))
    table = put(tmp_path, "n.csv", "id,v,w\na,,1\nb,2,\nb,3,nan\nz,1,1\n")
    with pytest.raises(InputError) as caught:
        attach_features(graph, table)
    told = str(caught.value)
    assert "the feature 'v' of node 'a'" in told
    assert "the feature 'w' of node 'b'" in told
    assert "2 rows for the id 'b'" in told
    assert "the id 'z'" in told
    assert "'c' lacks features" in told


def test_bad_rows_and_gaps_of_a_feature_table_are_mended(tmp_path: Path) -> None:
    graph = read_graph(put(tmp_path, "e.csv", "a,b\nb,c\nc,d\nd,e\n"))
    table = put(tmp_path, "n.csv", TABLE)
    done = attach_features(graph, table, skip_bad_rows=True, fill_missing="mean")
    # Kept: a (w missing), c, e; b and d have no usable row.
    assert done.features is not None
    v, w = (1 + 3 + 6) / 3, (4 + 8) / 2
    expected = [[1, w], [v, w], [3, 4], [v, w], [6, 8]]
    np.testing.assert_allclose(done.features, expected, rtol=1e-6)
    told = notes(done)
    assert "3 bad rows were left out" in told or "line 3: 'x' in column 'v'" in told
    assert "id that is in no edge were left out, the first for 'z'" in told
    assert "repeat an id" in told
    assert "1 missing values of 1 features were set to the mean of their column" in told
    assert "2 nodes without features got the mean of their column" in told


def test_gaps_are_filled_with_zero_in_sparse_tables_too(tmp_path: Path) -> None:
    names = [f"f{i}" for i in range(80)]
    rows = {"a": {3: 2.0}, "b": {}, "c": {79: np.nan}}
    table = pa.table(
        {"id": list(rows)} | {n: [rows[k].get(i, 0.0) for k in rows] for i, n in enumerate(names)}
    )
    graph = read_graph(put(tmp_path, "e.csv", "a,b\nb,c\nc,d\n"))
    done = attach_features(graph, table, fill_missing="zero")
    assert done.has_sparse_features
    dense = done.features.toarray()  # type: ignore[union-attr]
    assert dense.sum() == dense[0, 3] == 2
    mean = attach_features(graph, table, fill_missing="mean").features
    assert mean is not None
    assert mean.toarray()[3, 3] == pytest.approx(2 / 3)  # type: ignore[union-attr]
    with pytest.raises(InputError, match="'median'; choose mean or zero"):
        attach_features(graph, table, fill_missing="median")


def test_labels_of_nodes_without_edges_are_left_out(tmp_path: Path) -> None:
    graph = read_graph(put(tmp_path, "e.csv", "a,b\nb,c\n"))
    file = put(tmp_path, "l.csv", "id,k\na,x\nzz,y\nb,y\n")
    done = attach_labels(graph, f"{file}:k", skip_bad_rows=True)
    assert done.labels is not None
    assert done.labels.values() == ["x", "y", None]
    assert "1 rows of" in notes(done)


def test_the_command_line_takes_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edges, nodes = put(tmp_path, "e.csv", EDGES), put(tmp_path, "n.csv", TABLE)
    store = str(tmp_path / "store")
    line = ["ingest", str(edges), "--weight", "w", "--features", str(nodes), "--out", store]
    assert main(line) == 2
    assert main([*line, "--skip-bad-rows", "--fill-missing", "mean"]) == 0
    assert "bad rows were left out" in capsys.readouterr().out


def test_the_advice_of_info_about_bad_rows_can_be_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edges = str(put(tmp_path, "e.csv", EDGES))
    assert main(["info", edges]) == 2
    assert "--skip-bad-rows" in capsys.readouterr().err
    assert main(["info", edges, "--skip-bad-rows"]) == 0
    said = capsys.readouterr().out
    assert "2 bad rows were left out" in said
    assert "line 3: 2 fields" in said


def test_nodes_without_features_are_told_how_to_be_filled(tmp_path: Path) -> None:
    graph = read_graph(put(tmp_path, "e.csv", "a,b\nb,c\n"))
    table = put(tmp_path, "n.csv", "id,x\na,1\na,2\nb,1\n")
    with pytest.raises(InputError, match=r"'c' lacks features.*--fill-missing") as caught:
        attach_features(graph, table)
    assert "2 rows for the id 'a'" in str(caught.value)
    assert "\n" not in str(caught.value)
