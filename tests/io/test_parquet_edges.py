"""Edges of Parquet files: any sensible type of column, or the row that is wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from tests.io.edge_files import WHOLE, on_disk, pairs, read_both, refusal_or_graph


def test_columns_of_many_files_that_are_not_read_are_named_once(tmp_path: Path) -> None:
    files = [tmp_path / f"{i}.parquet" for i in range(3)]
    for file in files:
        pq.write_table(pa.table({"a": ["x"], "b": ["y"], "k": [1.5], "when": ["now"]}), file)
    told = f"columns of {files[0]} and 2 more were not read: k, when; --weight names"
    graph = on_disk(files, tmp_path / "scratch")
    assert graph.report is not None
    assert [note for note in graph.report.notes if told in note] == list(graph.report.notes)
    weighed = on_disk(files[:1], tmp_path / "scratch", weight="k")
    assert weighed.report is not None
    assert weighed.report.notes == (f"columns of {files[0]} were not read: when",)


def test_parquet_types(tmp_path: Path) -> None:
    text = pa.array(["x", "y", "x"]).dictionary_encode()
    pq.write_table(pa.table({"a": text, "b": ["y", "z", "z"]}), tmp_path / "t.parquet")
    assert pairs(read_both(tmp_path / "t.parquet")) == {("x", "y"), ("y", "z"), ("x", "z")}
    floats = pa.table({"k": [1.5, 2.5], "a": [1.0, 2.0], "b": [2.0, 3.0]})
    pq.write_table(floats, tmp_path / "f.parquet")
    graph = read_both(tmp_path / "f.parquet", source="a", target="b", weight="k")
    assert pairs(graph) == {(1, 2), (2, 3)}
    assert graph.weights is not None
    assert sorted(graph.weights.tolist()) == [1.5, 1.5, 2.5, 2.5]
    with pytest.raises(InputError, match="'k'"):
        read_both(tmp_path / "f.parquet")  # 1.5 is no id
    big = pa.table({"a": pa.array([2**64 - 1], pa.uint64()), "b": pa.array([1], pa.uint64())})
    pq.write_table(big, tmp_path / "u.parquet")
    assert read_both(tmp_path / "u.parquet").ids.tolist() == [str(2**64 - 1), "1"]


_WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
_SHORT = st.sampled_from(["a", "b", "é", "u12", "x" * 15, "x" * 16, "y" + "x" * 15, "日本", "0"])


@st.composite
def edges(draw: st.DrawFn) -> tuple[list[Any], list[Any], list[float]]:
    node = draw(st.sampled_from([_WORDS, _SHORT, WHOLE, WHOLE.map(str), _SHORT | _WORDS]))
    nodes = draw(st.lists(node, min_size=1, max_size=9))
    rows = draw(st.lists(st.tuples(*[st.sampled_from(nodes)] * 2), min_size=1, max_size=40))
    weight = st.floats(1e-3, 1e6, allow_subnormal=False)
    weights = draw(st.lists(weight, min_size=len(rows), max_size=len(rows)))
    return [s for s, _ in rows], [t for _, t in rows], weights


@given(edges(), st.booleans(), st.booleans(), st.integers(1, 50))
def test_parquet_gives_the_same_graph(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: tuple[list[Any], list[Any], list[float]],
    directed: bool,
    weighted: bool,
    group: int,
) -> None:
    folder = tmp_path_factory.mktemp("parquet")
    source, target, weights = drawn
    table = pa.table({"a": source, "b": target, "w": weights})
    pq.write_table(table, folder / "e.parquet", row_group_size=group)
    weight = "w" if weighted else None
    refusal_or_graph(read_both, folder / "e.parquet", directed=directed, weight=weight)


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"s": ["a"] * 9 + [None], "t": ["b"] * 10}),
        pa.table({"s": ["a"] * 10, "t": pa.array([1] * 4 + [None] + [2] * 5)}),
        pa.table({"s": ["a"] * 10, "t": ["b"] * 10, "w": [1.0] * 8 + [-2.0, 3.0]}),
        pa.table({"s": [1.5] * 10, "t": [2] * 10}),
        pa.table({"s": ["a"] * 3, "t": ["a"] * 3}),
        pa.table({"s": [[1]] * 3, "t": ["a"] * 3}),
        pa.table({"s": pa.array([2**64 - 1, 1], pa.uint64()), "t": [3, 4]}),
        pa.table({"s": pa.array(["q", "r"]).dictionary_encode(), "t": [3, 4]}),
    ],
)
def test_bad_and_odd_columns(tmp_path: Path, table: pa.Table) -> None:
    """The same refusal, which names the row in the file and not in its batch."""
    pq.write_table(table, tmp_path / "e.parquet", row_group_size=3)
    weight = "w" if "w" in table.column_names else None
    refusal_or_graph(read_both, tmp_path / "e.parquet", weight=weight)


def test_invalid_text_in_parquet_is_refused(tmp_path: Path) -> None:
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe")]
    )
    pq.write_table(pa.table({"s": bad, "t": ["b"]}), tmp_path / "e.parquet")
    with pytest.raises(InputError, match="UTF"):
        on_disk(tmp_path / "e.parquet", tmp_path / "s")


def test_columns_of_one_name_are_told_apart_by_place(tmp_path: Path) -> None:
    table = pa.table([["a", "b"], ["b", "c"], [1, 2]], names=["n", "n", "w"])
    pq.write_table(table, tmp_path / "e.parquet")
    graph = read_both(tmp_path / "e.parquet", weight="w")
    assert pairs(graph) == {("a", "b"), ("b", "c")}
