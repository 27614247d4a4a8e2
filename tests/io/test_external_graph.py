"""Reading out of core gives the same graph as reading in memory, or the same refusal."""

import gzip
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.graph.store import is_store, open_store, write_store
from graphham.io import external_sort as sorting
from graphham.io import read_graph
from graphham.io.external_graph import expand_paths, read_external
from graphham.io.id_table import IdTable
from graphham.system.scratch import scratch_beside

_WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
_SHORT = st.sampled_from(["a", "b", "é", "u12", "x" * 15, "x" * 16, "y" + "x" * 15, "日本", "0"])
_WHOLE = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 9)


def external(path: Path | list[Path], scratch: Path, **options: Any) -> Graph:
    scratch.mkdir(exist_ok=True)
    graph = read_external(path if isinstance(path, list) else [path], scratch, **options)
    assert graph is not None
    return graph


def assert_same(found: Graph, expected: Graph) -> None:
    assert found.ids == expected.ids
    np.testing.assert_array_equal(found.indptr, expected.indptr)
    np.testing.assert_array_equal(found.indices, expected.indices)
    assert found.indices.dtype == expected.indices.dtype
    assert (found.weights is None) == (expected.weights is None)
    if found.weights is not None:
        np.testing.assert_array_equal(found.weights, expected.weights)
    assert found.report == expected.report
    assert (found.name, found.directed) == (expected.name, expected.directed)


def both(path: Path, scratch: Path, **options: Any) -> None:
    """Read both ways: the same graph, or a refusal from both."""
    found, expected = (
        _graph_or_refusal(read, path, **options)
        for read in (lambda *a, **b: external(*a, scratch, **b), read_graph)
    )
    if isinstance(found, str) or isinstance(expected, str):
        assert found == expected
    else:
        assert_same(found, expected)


def _graph_or_refusal(read: Any, path: Path, **options: Any) -> Graph | str:
    try:
        graph: Graph = read(path, **options)
    except InputError as error:
        return str(error)
    return graph


@st.composite
def edges(draw: st.DrawFn) -> tuple[list[Any], list[Any], list[float]]:
    node = draw(st.sampled_from([_WORDS, _SHORT, _WHOLE, _WHOLE.map(str), _SHORT | _WORDS]))
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
    both(folder / "e.parquet", folder / "s", directed=directed, weight=weight)


_CELL = st.text(st.sampled_from("ab7é-0 "), min_size=1, max_size=4) | _WHOLE.map(str)


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
    """Blanks, comments, headers, quotes, line ends: whatever the whole reader makes of them."""
    folder = tmp_path_factory.mktemp("text")
    mark = '"' if quoted else ""
    lines = [separator.join(f"{mark}{cell}{mark}" for cell in row) for row in rows]
    if commented:
        lines.insert(len(lines) // 2, "% a remark, not a row")
    text = head.format(separator, ending) + "".join(line + ending for line in lines)
    (folder / "e.csv").write_bytes((text or "\n").encode())
    try:
        expected = read_graph(folder / "e.csv")
    except InputError:
        expected = None
    (folder / "s").mkdir()
    try:
        found = read_external([folder / "e.csv"], folder / "s")
    except InputError:
        assert expected is None
        return
    if found is not None:  # a rare kind of file is left to the whole reader
        assert expected is not None
        assert_same(found, expected)


def test_many_ranges_and_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of a few rows, hubs and weights: sums in the order of the file, to the bit."""
    monkeypatch.setattr(sorting, "_RANGE", 100)
    monkeypatch.setattr(sorting, "_CHUNK", 333)
    monkeypatch.setattr(sorting, "_BLOCKS", 64)
    rng = np.random.default_rng(5)
    ends = (300 * rng.random((5000, 2)) ** 3).astype(int)
    for prefix in ("", "node "):
        names = [[f"{prefix}{v}" for v in column] for column in ends.T]
        table = pa.table({"s": names[0], "t": names[1], "w": rng.random(5000) + 0.01})
        pq.write_table(table, tmp_path / "e.parquet", row_group_size=700)
        for directed in (False, True):
            for weight in (None, "w"):
                both(tmp_path / "e.parquet", tmp_path / "s", directed=directed, weight=weight)


def test_long_text_file_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks far smaller than the file; a quoted line break and a late comment across them."""
    monkeypatch.setattr("graphham.io.textstream._BLOCK_BYTES", 501)
    rng = np.random.default_rng(1)
    rows = [f'"n {a}",b{b},{a + 1}' for a, b in rng.integers(0, 200, (4000, 2))]
    rows[2000] = '"two\n# lines",b1,5'
    rows.insert(1500, '# it is 5" wide')
    for name, lines in (("q", rows), ("p", [r.replace('"', "") for r in rows if "\n" not in r])):
        text = "from,to,w\r\n" + "\r\n".join(lines)
        (tmp_path / f"{name}.csv").write_bytes(text.encode())
        both(tmp_path / f"{name}.csv", tmp_path / "s", weight="w")
        (tmp_path / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
        both(tmp_path / f"{name}.csv.gz", tmp_path / "s")


def test_text_below_whole_numbers(tmp_path: Path) -> None:
    """A file that begins with numbers and turns to text is read again; digits are kept."""
    lines = [f"{i},{i + 1}" for i in range(100_000)]
    (tmp_path / "n.csv").write_text("\n".join(lines))
    both(tmp_path / "n.csv", tmp_path / "s")
    (tmp_path / "t.csv").write_text("\n".join([*lines, "x,1"]))
    both(tmp_path / "t.csv", tmp_path / "s")
    (tmp_path / "z.csv").write_text("\n".join([*lines, "007,1", f"{2**63 - 1},1"]))
    both(tmp_path / "z.csv", tmp_path / "s")


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
    found = external(files, tmp_path / "s")
    expected = read_graph(tmp_path / "1.parquet")
    assert found.ids.tolist() == ["5", "3", "x", "y"]
    assert found.fingerprint() == expected.fingerprint()
    assert found.report is not None
    assert found.report.source == f"{files[0]} and 1 more file"


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
    both(tmp_path / "e.parquet", tmp_path / "s", weight=weight)


@pytest.mark.parametrize(
    ("line", "said"),
    [("a,", "has no id"), ("a,b,c", "has 3 fields"), ("a,b\xff", "UTF-8"), ("a", "has 1 field")],
)
def test_bad_lines_are_named(tmp_path: Path, line: str, said: str) -> None:
    rows = [f"u{i},v{i}" for i in range(60_000)]
    text = "\r\n".join([*rows, line, "c,d"])
    (tmp_path / "e.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError) as refusal:
        external(tmp_path / "e.csv", tmp_path / "s")
    assert said in str(refusal.value)
    assert "60,001" in str(refusal.value) or said == "UTF-8"


def test_invalid_text_in_parquet_is_refused(tmp_path: Path) -> None:
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe")]
    )
    pq.write_table(pa.table({"s": bad, "t": ["b"]}), tmp_path / "e.parquet")
    with pytest.raises(InputError, match="UTF"):
        external(tmp_path / "e.parquet", tmp_path / "s")


def test_equal_hashes_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids that differ only in their length, in zero bytes, or far behind the front."""
    texts = ["a", "a\0", "a\0\0", "\0", "", "b" * 15, "b" * 16, "b" * 15 + "\0", "c" * 99 + "1"]
    texts += ["c" * 99 + "2", "1" + "c" * 99]
    table = IdTable(1 << 30)
    for offset in (0, 3):
        column = pa.array([*texts[:offset], *texts], pa.string()).slice(offset)
        codes = table.encode(column, column)
        assert codes.tolist() == [[i, i] for i in range(len(texts))]
    assert table.ids().to_pylist() == texts


def test_ids_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    names = [f"a name of more than a few letters {i}" for i in range(20_000)]
    pq.write_table(pa.table({"s": names, "t": names[::-1]}), tmp_path / "e.parquet")
    with pytest.raises(InputError, match="raise --memory-gib"):
        external(tmp_path / "e.parquet", tmp_path / "s", memory_gib=0.001)


def test_progress_only_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the bar is told never falls and every stage ends complete."""
    from graphham.cli.ingest import IngestProgress
    from graphham.system.console import Screen

    monkeypatch.setattr(sorting, "_CHUNK", 100)
    monkeypatch.setattr(sorting, "_RANGE", 200)
    monkeypatch.setattr("graphham.io.edge_streams._BATCH_ROWS", 300)
    monkeypatch.setattr("graphham.cli.ingest._LINE_SECONDS", 0.0)
    ends = np.random.default_rng(0).integers(0, 500, (2, 2000))
    pq.write_table(pa.table({"s": ends[0], "t": ends[1]}), tmp_path / "e.parquet")
    told: list[tuple[str, float]] = []
    lines = io.StringIO()
    with IngestProgress(Screen(file=lines)) as progress:

        def show(stage: str, share: float) -> None:
            told.append((stage, share))
            progress.show(stage, share)

        external(tmp_path / "e.parquet", tmp_path / "s", progress=show)
    stages = list(dict.fromkeys(stage for stage, _ in told))
    assert stages == ["Reading", "Counting", "Dealing", "Sorting"]
    for stage in stages:
        shares = [share for name, share in told if name == stage]
        assert len(shares) > 3
        assert shares == sorted(shares)
        assert shares[-1] == 1.0
    percent = [int(line.split()[1].rstrip("%")) for line in lines.getvalue().splitlines()]
    assert percent == sorted(percent)
    assert percent[-1] == 100


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sorting, "_put", full)
    (tmp_path / "e.csv").write_text("a,b\nb,c\n")
    with pytest.raises(InputError, match=r"No space left on device.*make room"):
        external(tmp_path / "e.csv", tmp_path / "s")


def test_a_killed_program_leaves_nothing_for_long(tmp_path: Path) -> None:
    """Kill -9 in the middle: no store under the name; the next run works and tidies up."""
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 400_000, (2, 500_000))
    path = tmp_path / "e.parquet"
    pq.write_table(pa.table({"s": ends[0], "t": ends[1]}), path)
    command = [sys.executable, "-m", "graphham", "ingest", str(path), "--out", "out/store"]
    for stage in ("pairs", "indices"):
        program = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while not any((tmp_path / "out").glob(f".store.part-*/{stage}")):
            assert time.monotonic() < deadline
            assert program.poll() is None
            time.sleep(0.001)
        os.kill(program.pid, signal.SIGKILL)
        program.wait()
        assert not (tmp_path / "out" / "store").exists()
        assert any((tmp_path / "out").iterdir())
    subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["store"]
    found = open_store(tmp_path / "out" / "store", verify=True)
    assert_same(found, read_graph(tmp_path / "e.parquet"))


@pytest.mark.parametrize("prefix", ["", "n"])
def test_the_command_adds_isolated_nodes(tmp_path: Path, prefix: str) -> None:
    """Labels and features of nodes without edges, by the command and by the whole reader."""
    from typer.testing import CliRunner

    from graphham.cli.main import app

    def ids(values: list[int]) -> list[str]:
        return [f"{prefix}{v}" for v in values]

    edges, nodes = tmp_path / "e.parquet", tmp_path / "n.csv"
    pq.write_table(pa.table({"s": ids([9, 2, 9]), "t": ids([2, 7, 9])}), edges)
    nodes.write_text("id,x,kind\n" + "".join(f"{i},{i[-1]},k\n" for i in ids([9, 8, 2, 7, 1])))
    pq.write_table(pa.table({"id": ids([7, 9, 1, 2, 8]), "x": [7, 9, 1, 2, 8]}), tmp_path / "x.pq")
    options = ["--labels", f"{nodes}:kind", "--features", str(tmp_path / "x.pq"), "--isolated"]
    done = CliRunner().invoke(app, ["ingest", str(edges), "--out", str(tmp_path / "s"), *options])
    assert done.exit_code == 0, done.output
    found = open_store(tmp_path / "s", verify=True)
    expected = read_graph(edges, features=tmp_path / "x.pq", labels=f"{nodes}:kind", isolated=True)
    assert_same(found, expected)
    assert found.fingerprint() == expected.fingerprint()
    assert found.num_nodes == 5
    assert found.features is not None
    assert [int(str(i)[-1]) for i in found.ids.tolist()] == found.features[:, 0].tolist()


def test_scratch_of_a_living_program_stays(tmp_path: Path) -> None:
    with scratch_beside(tmp_path / "s") as mine, scratch_beside(tmp_path / "s") as other:
        assert mine.is_dir()
        assert other.is_dir()
    assert not list(tmp_path.iterdir())


def test_a_store_moved_away_by_a_killed_program_comes_back(tmp_path: Path) -> None:
    graph = read_graph_of(tmp_path)
    write_store(graph, tmp_path / "s")
    left = tmp_path / ".s.part-dead"
    left.mkdir()
    (left / "lock").touch()
    (tmp_path / "s").rename(left / "replaced")
    with scratch_beside(tmp_path / "s"):
        assert is_store(tmp_path / "s")
    assert not left.exists()


def read_graph_of(folder: Path) -> Graph:
    (folder / "e.csv").write_text("a,b\nb,c\n")
    return read_graph(folder / "e.csv")


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (
            [("a", "b", 1.0), ("b", "c", 1e39)],
            {"csv": "line 3 .*1e39", "parquet": r"row 2 .*1e\+39"},
        ),
        ([("a", "b", 1e-60)], {"csv": "line 2 .*1e-60", "parquet": "row 1 .*1e-60"}),
        ([("x", "y", 1.0), ("a", "b", 3e38), ("a", "b", 2e38)], r"'a' - 'b' .*5e\+38"),
        ([(9, 8, 1.0), (70, 5, 3e38), (70, 5, 2e38)], r"70.*5e\+38"),
    ],
)
def test_weights_beyond_single_precision(
    tmp_path: Path, directed: bool, rows: list[Any], told: str | dict[str, str]
) -> None:
    s, t, w = (list(column) for column in zip(*rows, strict=True))
    pq.write_table(pa.table({"s": s, "t": t, "w": w}), tmp_path / "e.parquet")
    text = "".join(f"{a},{b},{x:.0e}\n".replace("e+", "e") for a, b, x in rows)
    (tmp_path / "e.csv").write_text("s,t,w\n" + text)
    for kind in ("csv", "parquet"):
        file, options = tmp_path / f"e.{kind}", {"directed": directed, "weight": "w"}
        both(file, tmp_path / f"scratch-{kind}", **options)
        match = told if isinstance(told, str) else told[kind]
        with pytest.raises(InputError, match=f"{match}.*scale the weights"):
            external(file, tmp_path / f"again-{kind}", **options)
