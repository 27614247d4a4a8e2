"""Edge files of every format give the graph that was meant, or one sentence about what is wrong."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.graph.graph import Graph, build_graph
from graphham.graph.ids import NodeIds
from graphham.io import describe, read_graph, write_edges


def put(folder: Path, name: str, content: str | bytes) -> Path:
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def pairs(graph: Graph) -> set[tuple[object, object]]:
    return {(graph.ids[a], graph.ids[b]) for a, b in graph.edge_list().tolist()}


TRIANGLE = {(10, 20), (20, 30), (10, 30)}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("plain.csv", "10,20\n20,30\n30,10\n"),
        ("head.csv", "source,target\n10,20\n20,30\n30,10\n"),
        ("unknown_head.csv", "paper,cites\n10,20\n20,30\n30,10\n"),
        ("tab.tsv", "id_1\tid_2\n10\t20\n20\t30\n30\t10\n"),
        ("semicolon.csv", "10;20\n20;30\n30;10\n"),
        ("spaced.csv", "10, 20\n20, 30\n30, 10"),
        ("quoted.csv", '"from","to"\n"10","20"\n"20","30"\n"30","10"\n'),
        ("gaps.txt", "  10   20\n20 \t 30  \n\n30 10\n"),
        ("comments.txt", "# a comment, with a comma\n% and another\n10 20\n# mid\n20 30\n30 10\n"),
        ("windows.csv", "\ufeffsrc,dst\r\n10,20\r\n20,30\r\n30,10\r\n"),
        ("mac.csv", "10,20\r20,30\r30,10\r"),
        ("extra.csv", "u,v,when\n10,20,monday\n20,30,friday\n30,10,friday\n"),
        ("no_ending", "10 20\n20 30\n30 10\n"),
    ],
)
def test_text_edges(tmp_path: Path, name: str, content: str) -> None:
    graph = read_graph(put(tmp_path, name, content))
    assert graph.ids.kind == "integer"
    assert pairs(graph) == TRIANGLE
    zipped = put(tmp_path, name + ".gz", gzip.compress(content.encode()))
    assert pairs(read_graph(zipped)) == TRIANGLE


def test_text_ids_keep_their_order_of_appearance(tmp_path: Path) -> None:
    graph = read_graph(put(tmp_path, "e.csv", "source,target\nzeta,beta\nalpha,zeta\nbeta,gamma\n"))
    assert graph.ids.tolist() == ["zeta", "beta", "alpha", "gamma"]


def test_whole_number_ids_are_sorted(tmp_path: Path) -> None:
    graph = read_graph(put(tmp_path, "e.csv", "9000000000,-5\n7,9000000000\n"))
    assert graph.ids.tolist() == [-5, 7, 9000000000]


@pytest.mark.parametrize("odd", ["007", "+7", "0x1f", "1e3", "99999999999999999999", "1.0", "-0"])
def test_ids_that_would_not_come_back_as_written_stay_text(tmp_path: Path, odd: str) -> None:
    graph = read_graph(put(tmp_path, "e.csv", f"5,6\n6,{odd}\n"))
    assert graph.ids.tolist() == ["5", "6", odd]


def test_text_far_below_whole_numbers(tmp_path: Path) -> None:
    lines = "".join(f"{i},{i + 1}\n" for i in range(60_000))
    graph = read_graph(put(tmp_path, "e.csv", lines + "5,five\n"))
    assert graph.ids.kind == "text"
    assert graph.num_nodes == 60_002


@pytest.mark.parametrize(
    ("content", "count"),
    [
        ("u,v\nv,w\nw,x\n", 3),  # u and v are nodes here: v occurs below
        ("u,v\na,b\nb,c\n", 2),
        ("source,target\nsource,b\nb,c\n", 2),  # no such doubt about this pair
        ("ann,bob\nbob,cid\n", 2),
        ("person,friend,since\nann,bob,2001\nbob,cid,2004\n", 2),  # text over numbers
        ("left,right\n1,x\n2,y\n", 2),
        ("Source ID,Target ID\na,b\nb,c\n", 2),
    ],
)
def test_header_rule(tmp_path: Path, content: str, count: int) -> None:
    assert read_graph(put(tmp_path, "e.csv", content)).num_edges == count


def test_a_first_line_that_may_be_a_header_is_remarked_on(tmp_path: Path) -> None:
    file = put(tmp_path, "e.csv", "paper,cites\nA,B\nB,C\nC,D\n")
    graph = read_graph(file)
    assert graph.report is not None
    assert any("'paper'" in note and "--source" in note for note in graph.report.notes)
    assert read_graph(file, source="paper", target="cites").ids.tolist() == ["A", "B", "C", "D"]


def test_a_doubtful_header_is_remarked_on(tmp_path: Path) -> None:
    graph = read_graph(put(tmp_path, "e.csv", "u,v\na,b\nb,c\n"))
    assert graph.report is not None
    assert graph.report.notes == ("the first line ('u', 'v') was taken for a header",)
    sure = read_graph(put(tmp_path, "s.csv", "source,target\na,b\nb,c\n"))
    assert sure.report is not None
    assert sure.report.notes == ()


def test_named_columns_and_weight(tmp_path: Path) -> None:
    file = put(tmp_path, "e.csv", "when,to,w,from\n1,b,0.5,a\n2,c,2,b\n3,a,1.5,b\n")
    graph = read_graph(file, source="from", target="to", weight="w")
    assert pairs(graph) == {("a", "b"), ("b", "c")}
    assert graph.weights is not None
    first = graph.ids.row("a")
    assert graph.weights[graph.indptr[first]] == 2.0  # 0.5 and 1.5 of the two directions
    kept = read_graph(file, source="from", target="to", weight="w", directed=True)
    assert pairs(kept) == {("a", "b"), ("b", "c"), ("b", "a")}


def test_comment_sign_inside_quotes_is_data(tmp_path: Path) -> None:
    file = put(tmp_path, "e.csv", '# note "odd\n"a\n#b","c"\n"#d","c"\n')
    assert set(read_graph(file).ids.tolist()) == {"a\n#b", "c", "#d"}


def test_parquet_types(tmp_path: Path) -> None:
    text = pa.array(["x", "y", "x"]).dictionary_encode()
    pq.write_table(pa.table({"a": text, "b": ["y", "z", "z"]}), tmp_path / "t.parquet")
    assert pairs(read_graph(tmp_path / "t.parquet")) == {("x", "y"), ("y", "z"), ("x", "z")}
    floats = pa.table({"k": [1.5, 2.5], "a": [1.0, 2.0], "b": [2.0, 3.0]})
    pq.write_table(floats, tmp_path / "f.parquet")
    graph = read_graph(tmp_path / "f.parquet", source="a", target="b", weight="k")
    assert pairs(graph) == {(1, 2), (2, 3)}
    assert graph.weights is not None
    assert sorted(graph.weights.tolist()) == [1.5, 1.5, 2.5, 2.5]
    with pytest.raises(InputError, match="'k'"):
        read_graph(tmp_path / "f.parquet")  # 1.5 is no id
    big = pa.table({"a": pa.array([2**64 - 1], pa.uint64()), "b": pa.array([1], pa.uint64())})
    pq.write_table(big, tmp_path / "u.parquet")
    assert read_graph(tmp_path / "u.parquet").ids.tolist() == [str(2**64 - 1), "1"]


def test_npz_forms_agree(tmp_path: Path) -> None:
    edges = np.array([[0, 1], [1, 2], [3, 1]])
    np.savez(tmp_path / "list.npz", edges=edges)
    matrix = sp.coo_matrix((np.ones(3), edges.T), shape=(4, 4)).tocsr()
    matrix = matrix.maximum(matrix.T)
    sp.save_npz(tmp_path / "csr.npz", matrix)
    sp.save_npz(tmp_path / "csc.npz", matrix.tocsc())
    sp.save_npz(tmp_path / "coo.npz", matrix.tocoo())
    np.savez(tmp_path / "adj.npz", adj_indptr=matrix.indptr, adj_indices=matrix.indices)
    for name in ("list", "csr", "csc", "coo", "adj"):
        graph = read_graph(tmp_path / f"{name}.npz")
        assert pairs(graph) == {(0, 1), (1, 2), (1, 3)}, name
        assert graph.weights is None
        assert graph.report is not None
        assert graph.report.duplicates_merged == 0, name


def test_matrix_values_are_weights_and_not_doubled(tmp_path: Path) -> None:
    matrix = sp.csr_matrix(np.array([[0, 2.5, 0], [2.5, 0, 1], [0, 0, 0]]))
    sp.save_npz(tmp_path / "m.npz", matrix)
    graph = read_graph(tmp_path / "m.npz")
    assert graph.weights is not None
    assert graph.weights.tolist() == [2.5, 2.5, 1.0, 1.0]


def test_npz_rows_into_ids(tmp_path: Path) -> None:
    ids = np.array(["c", "b", "a", "lonely"])
    np.savez(tmp_path / "e.npz", edges=np.array([[0, 2], [1, 2]]), ids=ids)
    graph = read_graph(tmp_path / "e.npz")
    assert graph.ids.tolist() == ["c", "b", "a", "lonely"]
    assert pairs(graph) == {("c", "a"), ("b", "a")}
    assert graph.report is not None
    assert graph.report.isolated == 1


GRAPHML = """<?xml version="1.0"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="d0" for="edge" attr.name="strength" attr.type="double"><default>3.0</default></key>
<graph edgedefault="directed">
<node id="n1"/><node id="n0"/><node id="alone"/>
<edge source="n0" target="n1"/><edge source="n1" target="n0"><data key="d0">4</data></edge>
</graph></graphml>"""


def test_graphml(tmp_path: Path) -> None:
    file = put(tmp_path, "g.graphml", GRAPHML)
    graph = read_graph(file, weight="strength")
    assert graph.ids.tolist() == ["n1", "n0", "alone"]
    assert graph.weights is not None
    assert graph.weights.tolist() == [7.0, 7.0]
    assert graph.report is not None
    assert any("directed" in note for note in graph.report.notes)
    kept = read_graph(file, weight="strength", directed=True)
    assert kept.weights is not None
    assert sorted(kept.weights.tolist()) == [3.0, 4.0]
    assert pairs(read_graph(put(tmp_path, "z.graphml.gz", gzip.compress(GRAPHML.encode()))))


def test_report_counts(tmp_path: Path) -> None:
    graph = read_graph(put(tmp_path, "e.csv", "a,b\nb,a\na,a\nc,d\na,b\n"))
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
        read_graph(file, **options)  # type: ignore[arg-type]
    message = str(caught.value)
    assert str(file) in message
    assert "\n" not in message


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.csv does not exist"):
        read_graph(tmp_path / "nowhere.csv")
    with pytest.raises(InputError, match="is a folder"):
        read_graph(tmp_path)


def test_npz_with_python_objects_is_never_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "o.npz", edges=np.array([["a", 1]], dtype=object))
    with pytest.raises(InputError, match="never unpickled"):
        read_graph(tmp_path / "o.npz")


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ({"edges": np.zeros((3, 4), int)}, r"shape \(3, 4\)"),
        ({"edges": np.zeros((0, 2), int)}, "no edges"),
        ({"edges": np.ones((2, 2))}, "float64"),
        ({"edges": np.array([[0, 5]]), "ids": np.array(["a", "b"])}, "row 5"),
        ({"edges": np.array([[0, 1]]), "ids": np.array(["a", "a"])}, "'a' occurs twice"),
        ({"edges": np.array([[0, 1]]), "weights": np.ones(3)}, "3 weights for 1 edges"),
        ({"edges": np.array([[0, 1]]), "weights": np.array([1e39])}, r"row 1 .*1e\+39; .*scale"),
        (
            {
                "data": np.array([1e-60, 1e-60]),
                "indices": np.array([1, 0]),
                "indptr": np.array([0, 1, 2]),
                "shape": np.array([2, 2]),
            },
            "edge 0 - 1 .*1e-60; .*scale",
        ),
        ({"indptr": np.array([0, 1]), "indices": np.array([7])}, "damaged"),
        ({"something": np.ones(3)}, "it has the arrays something"),
    ],
)
def test_bad_arrays(tmp_path: Path, arrays: dict[str, np.ndarray], told: str) -> None:
    np.savez(tmp_path / "b.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=told):
        read_graph(tmp_path / "b.npz")


# CSV and XML cannot hold every character: NUL marks binary files, XML forbids control characters.
any_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
xml_text = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), min_size=1
)
whole = st.integers(-(2**62), 2**62)


@st.composite
def graphs(draw: st.DrawFn, texts: st.SearchStrategy[str] = any_text) -> Graph:
    """Any small graph without isolated nodes, whose ids are any text or any integers."""
    ids = draw(
        st.lists(texts, min_size=2, max_size=7, unique=True)
        | st.lists(whole, min_size=2, max_size=7, unique=True)
    )
    n = len(ids)
    ends = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=12))
    ends += [(i, (i + 1) % n) for i in range(n)]
    directed = draw(st.booleans())
    weights = draw(st.none() | st.just([0.25 + i for i in range(len(ends))]))
    source, target = np.array(ends).T
    return build_graph(
        source,
        target,
        n,
        ids=NodeIds(ids),
        directed=directed,
        weights=None if weights is None else np.array(weights),
    )


def assert_same(read: Graph, written: Graph) -> None:
    """Compare two graphs by id: the rows may come in another order, as the reader's rule says."""
    texts = [str(v) for v in written.ids.tolist()]
    assert sorted(map(str, read.ids.tolist())) == sorted(texts)
    order = read.ids.rows(written.ids.tolist())
    expected, found = written.adjacency(), read.adjacency()[order][:, order]
    assert (expected != found).nnz == 0
    assert (read.weights is None) == (written.weights is None)


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".csv.gz", ".parquet", ".npz"])
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, ending: str
) -> None:
    folder = tmp_path_factory.mktemp("round")

    @given(graphs())
    def check(graph: Graph) -> None:
        file = folder / f"e{ending}"
        file.unlink(missing_ok=True)
        write_edges(graph, file)
        weight = None if graph.weights is None or ending == ".npz" else "weight"
        assert_same(read_graph(file, directed=graph.directed, weight=weight), graph)

    check()


@pytest.mark.parametrize("ending", [".graphml", ".graphml.gz"])
def test_graphml_is_read_back(tmp_path_factory: pytest.TempPathFactory, ending: str) -> None:
    folder = tmp_path_factory.mktemp("round")

    @given(graphs(xml_text))
    def check(graph: Graph) -> None:
        file = folder / f"e{ending}"
        file.unlink(missing_ok=True)
        write_edges(graph, file)
        weight = None if graph.weights is None else "weight"
        assert_same(read_graph(file, directed=graph.directed, weight=weight), graph)

    check()


def test_writer_overwrites_nothing(tmp_path: Path) -> None:
    graph = build_graph(np.array([0]), np.array([1]), 2)
    file = put(tmp_path, "e.csv", "precious")
    with pytest.raises(InputError, match="exists already"):
        write_edges(graph, file)
    assert file.read_text() == "precious"
    with pytest.raises(InputError, match=r"e\.doc"):
        write_edges(graph, tmp_path / "e.doc")


def test_weights_at_the_ends_of_single_precision_are_kept(tmp_path: Path) -> None:
    ends = np.finfo(np.float32)
    file = put(tmp_path, "e.csv", f"a,b,w\nc,d,{ends.max}\nd,e,{ends.tiny}\n")
    graph = read_graph(file, weight="w", directed=True)
    assert graph.weights is not None
    assert graph.weights.tolist() == [float(ends.max), float(ends.tiny)]


def test_graphml_weights_beyond_single_precision(tmp_path: Path) -> None:
    file = put(tmp_path, "g.graphml", GRAPHML.replace(">4<", ">1e39<", 1))
    with pytest.raises(InputError, match=r"has '1e39' as its 'strength'; .*scale"):
        read_graph(file, weight="strength")
