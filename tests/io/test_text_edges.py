"""Edges of delimited text: columns, headers and ids are understood, or the line is named."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from tests.io.edge_files import WHOLE, pairs, put, read_both, refusal_or_graph

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
    graph = read_both(put(tmp_path, name, content))
    assert graph.ids.kind == "integer"
    assert pairs(graph) == TRIANGLE
    zipped = put(tmp_path, name + ".gz", gzip.compress(content.encode()))
    assert pairs(read_both(zipped)) == TRIANGLE


def test_text_ids_keep_their_order_of_appearance(tmp_path: Path) -> None:
    graph = read_both(put(tmp_path, "e.csv", "source,target\nzeta,beta\nalpha,zeta\nbeta,gamma\n"))
    assert graph.ids.tolist() == ["zeta", "beta", "alpha", "gamma"]


def test_whole_number_ids_are_sorted(tmp_path: Path) -> None:
    graph = read_both(put(tmp_path, "e.csv", "9000000000,-5\n7,9000000000\n"))
    assert graph.ids.tolist() == [-5, 7, 9000000000]


@pytest.mark.parametrize("odd", ["007", "+7", "0x1f", "1e3", "99999999999999999999", "1.0", "-0"])
def test_ids_that_would_not_come_back_as_written_stay_text(tmp_path: Path, odd: str) -> None:
    graph = read_both(put(tmp_path, "e.csv", f"5,6\n6,{odd}\n"))
    assert graph.ids.tolist() == ["5", "6", odd]


def test_text_far_below_whole_numbers(tmp_path: Path) -> None:
    lines = "".join(f"{i},{i + 1}\n" for i in range(60_000))
    graph = read_both(put(tmp_path, "e.csv", lines + "5,five\n"))
    assert graph.ids.kind == "text"
    assert graph.num_nodes == 60_002


def test_a_first_line_that_may_be_a_header_is_remarked_on(tmp_path: Path) -> None:
    file = put(tmp_path, "e.csv", "paper,cites\nA,B\nB,C\nC,D\n")
    graph = read_both(file)
    assert graph.report is not None
    assert any("'paper'" in note and "--source" in note for note in graph.report.notes)
    assert read_both(file, source="paper", target="cites").ids.tolist() == ["A", "B", "C", "D"]


def test_a_doubtful_header_is_remarked_on(tmp_path: Path) -> None:
    graph = read_both(put(tmp_path, "e.csv", "u,v\na,b\nb,c\n"))
    assert graph.report is not None
    assert graph.report.notes == ("the first line ('u', 'v') was taken for a header",)
    sure = read_both(put(tmp_path, "s.csv", "source,target\na,b\nb,c\n"))
    assert sure.report is not None
    assert sure.report.notes == ()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('a b c"\n', "3 ('c\"'); for weights, put a header above them and name it with --weight"),
        ("a,b,2,x\nb,c,3,y\n", "3 ('2'), 4 ('x'); for weights, put a header above them"),
        ("source,target,n\na,b,2\nb,c,3\n", "n; --weight names a column of weights"),
    ],
)
def test_columns_that_are_not_read_are_named(content: str, told: str, tmp_path: Path) -> None:
    graph = read_both(put(tmp_path, "e.txt", content))
    assert graph.report is not None
    (note,) = graph.report.notes
    assert f"columns of {tmp_path / 'e.txt'} were not read: {told}" in note


def test_named_columns_and_weight(tmp_path: Path) -> None:
    file = put(tmp_path, "e.csv", "when,to,w,from\n1,b,0.5,a\n2,c,2,b\n3,a,1.5,b\n")
    graph = read_both(file, source="from", target="to", weight="w")
    assert pairs(graph) == {("a", "b"), ("b", "c")}
    assert graph.weights is not None
    first = graph.ids.row("a")
    assert graph.weights[graph.indptr[first]] == 2.0  # 0.5 and 1.5 of the two directions
    kept = read_both(file, source="from", target="to", weight="w", directed=True)
    assert pairs(kept) == {("a", "b"), ("b", "c"), ("b", "a")}


_CELL = st.text(st.sampled_from("ab7é-0 "), min_size=1, max_size=4) | WHOLE.map(str)


@given(
    st.lists(st.tuples(_CELL, _CELL, st.sampled_from(["1", "0.25", " 3e2"])), max_size=30),
    st.sampled_from([",", "\t", ";", " "]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(
        ["", "source{0}target{0}w{1}", "# note{1}", "{1}{1}", "\ufeffsrc{0}dst{0}w{1}"]
    ),
    st.booleans(),
    st.booleans(),
)
def test_text_gives_the_same_graph(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str, str]],
    separator: str,
    ending: str,
    head: str,
    quoted: bool,
    commented: bool,
) -> None:
    """Blanks, comments, headers, quotes, line ends: the same both ways."""
    folder = tmp_path_factory.mktemp("text")
    mark = '"' if quoted else ""
    lines = [separator.join(f"{mark}{cell}{mark}" for cell in row) for row in rows]
    if commented:
        lines.insert(len(lines) // 2, "% a remark, not a row")
    text = head.format(separator, ending) + "".join(line + ending for line in lines)
    (folder / "e.csv").write_bytes((text or "\n").encode())
    refusal_or_graph(read_both, folder / "e.csv")


def test_text_below_whole_numbers(tmp_path: Path) -> None:
    """A file that begins with numbers and turns to text is read again; digits are kept."""
    lines = [f"{i},{i + 1}" for i in range(100_000)]
    (tmp_path / "n.csv").write_text("\n".join(lines))
    read_both(tmp_path / "n.csv")
    (tmp_path / "t.csv").write_text("\n".join([*lines, "x,1"]))
    read_both(tmp_path / "t.csv")
    (tmp_path / "z.csv").write_text("\n".join([*lines, "007,1", f"{2**63 - 1},1"]))
    read_both(tmp_path / "z.csv")


@pytest.mark.parametrize(
    ("line", "said"),
    [("a,", "has no id"), ("a,b,c", "has 3 fields"), ("a,b\xff", "UTF-8"), ("a", "has 1 field")],
)
def test_bad_lines_are_named(tmp_path: Path, line: str, said: str) -> None:
    rows = [f"u{i},v{i}" for i in range(60_000)]
    text = "\r\n".join([*rows, line, "c,d"])
    (tmp_path / "e.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError) as refusal:
        read_both(tmp_path / "e.csv")
    assert said in str(refusal.value)
    assert "line 60,001" in str(refusal.value)
