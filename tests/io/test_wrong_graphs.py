"""Files that used to become another graph than the one they say, without a word."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.io import attach_features, read_graph
from graphham.io.edge_streams import EdgeColumns
from graphham.io.reader import read_edges


def edges_of(path: Path, **how: Any) -> set[tuple[Any, Any]]:
    """Return the edges as ids, the same by way of memory and by way of disk."""
    graphs = [
        read_edges([path], EdgeColumns(), in_memory_bytes=size, **how) for size in (1 << 30, 1)
    ]
    found = [
        {tuple(sorted((g.ids[a], g.ids[b]))) for a, b in g.edge_list().tolist()} for g in graphs
    ]
    assert found[0] == found[1]
    assert graphs[0].report == graphs[1].report
    return found[0]


@pytest.mark.parametrize("name", ["e.csv", "e.txt"])
def test_lines_left_out_as_comments_are_counted(tmp_path: Path, name: str) -> None:
    sign = "," if name.endswith("csv") else "  "
    lines = ["# a note", "a b", "#hash b", "%x b", "b c"]
    (tmp_path / name).write_text("\n".join(lines).replace(" ", sign) + "\n")
    graph = read_graph(tmp_path / name)
    assert graph.num_edges == 2
    (note,) = graph.report.notes  # type: ignore[union-attr]
    assert "3 lines that begin with # or %" in note
    quoted = [f'"{line.split()[0]}" b' if line[0] in "#%" else line for line in lines[1:]]
    (tmp_path / name).write_text("\n".join(quoted).replace(" ", sign) + "\n")
    graph = read_graph(tmp_path / name)
    assert graph.num_edges == 4
    assert graph.report.notes == ()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "edges"),
    [
        ('a"x,b\n# c,d\nb,c\n', {('a"x', "b"), ("b", "c")}),
        ('a"x  b\n# c  d\nb"  c\n', {('a"x', "b"), ('b"', "c")}),
        ('# say "no\na,b\n#c,d\nb,c\n', {("a", "b"), ("b", "c")}),
        ('"a\n#x",b\n# c,d\nb,c\n', {("a\n#x", "b"), ("b", "c")}),
        ('"a ""\n#x",b\n# c,d\nb,c\n', {('a "\n#x', "b"), ("b", "c")}),
        ('"two  words"   b\n  b\tc \n', {("b", "two  words"), ("b", "c")}),
    ],
)
def test_a_quote_counts_only_where_a_cell_begins(
    tmp_path: Path, text: str, edges: set[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "e.csv").write_text(text)
    assert edges_of(tmp_path / "e.csv") == edges
    # The same where every few bytes are a block of their own.
    monkeypatch.setattr("graphham.io.text._BLOCK_BYTES", 16)
    assert edges_of(tmp_path / "e.csv") == edges


def test_a_no_break_space_is_part_of_an_id(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("a\u00a0, b\nb ,c\n")
    assert edges_of(tmp_path / "e.csv") == {("a\u00a0", "b"), ("b", "c")}
    (tmp_path / "e.txt").write_text("a\u00a0b c\nb\u2003 c\n")
    assert edges_of(tmp_path / "e.txt") == {("a\u00a0b", "c"), ("b\u2003", "c")}
    graph = read_graph(tmp_path / "e.csv")
    (tmp_path / "f.csv").write_text("id,x\na\u00a0,1\nb ,2\n c,3\n")
    features: Any = attach_features(graph, tmp_path / "f.csv").features
    assert features.ravel().tolist() == [1, 2, 3]


@pytest.mark.parametrize("name", ["indices", "indptr", "row", "col", "shape"])
def test_row_numbers_that_are_no_whole_numbers_are_refused(tmp_path: Path, name: str) -> None:
    csr = {"data": np.ones(2), "indices": np.array([1, 0]), "indptr": np.array([0, 1, 2])}
    coo = {"data": np.ones(2), "row": np.array([0, 1]), "col": np.array([1, 0])}
    arrays = {**(csr if name.startswith("ind") else coo), "shape": np.array([2, 2])}
    np.savez(tmp_path / "good.npz", **arrays)  # type: ignore[arg-type]
    assert read_graph(tmp_path / "good.npz").num_edges == 1
    np.savez(tmp_path / "bad.npz", **{**arrays, name: arrays[name] + 0.4})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=f"'{name}'.*must hold whole numbers"):
        read_graph(tmp_path / "bad.npz")


def test_a_matrix_of_text_is_refused(tmp_path: Path) -> None:
    parts = {"indices": np.array([1, 0]), "indptr": np.array([0, 1, 2]), "shape": np.array([2, 2])}
    for number, data in enumerate((np.array(["a", "b"]), np.ones(2, np.complex64))):
        np.savez(tmp_path / f"{number}.npz", data=data, **parts)  # type: ignore[arg-type]
        with pytest.raises(InputError, match=r"'data'.*must hold numbers"):
            read_graph(tmp_path / f"{number}.npz")
