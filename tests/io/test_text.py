"""Comments, quotes and line ends mean the same at once and block by block."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.io.text import TextTable, lines_are_exact
from tests.io.edge_files import put, read_both


def test_comment_sign_inside_quotes_is_data(tmp_path: Path) -> None:
    file = put(tmp_path, "e.csv", '# note "odd\n"a\n#b","c"\n"#d","c"\n')
    assert set(read_both(file).ids.tolist()) == {"a\n#b", "c", "#d"}


def test_long_text_file_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks far smaller than the file; a quoted line break and a late comment across them."""
    monkeypatch.setattr("graphham.io.text._BLOCK_BYTES", 501)
    rng = np.random.default_rng(1)
    rows = [f'"n {a}",b{b},{a + 1}' for a, b in rng.integers(0, 200, (4000, 2))]
    rows[2000] = '"two\n# lines",b1,5'
    rows.insert(1500, '# it is 5" wide')
    for name, lines in (("q", rows), ("p", [r.replace('"', "") for r in rows if "\n" not in r])):
        text = "from,to,w\r\n" + "\r\n".join(lines)
        (tmp_path / f"{name}.csv").write_bytes(text.encode())
        read_both(tmp_path / f"{name}.csv", weight="w")
        (tmp_path / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
        read_both(tmp_path / f"{name}.csv.gz")


def test_rare_kinds_of_text(tmp_path: Path) -> None:
    """Old line ends, quotes between runs of blanks, comments beyond the sample, long ids."""
    long = "x" * 100_000
    remarks = "# a remark\n" * 40_000
    for content, ids in (
        ("a,b\rb,c\r", ["a", "b", "c"]),
        ('"a  b"   c\nc "d"\n', ["a  b", "c", "d"]),
        (f"{remarks}a;b\nb;c\n", ["a", "b", "c"]),
        (f"\ufeff{remarks}a,b\nb,c\n", ["a", "b", "c"]),
        (f"a,{long}\n{long},b\n", ["a", long, "b"]),
        ("\n\n\nsource,target\n\n\na,b\n\n", ["a", "b"]),
    ):
        assert read_both(put(tmp_path, "e.csv", content)).ids.tolist() == ids


@pytest.mark.parametrize("zero", ["00", "0x1", "-0", "1,01", "1\n007"])
def test_zeros_at_the_front_are_seen_anywhere(zero: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphham.io.text._SCAN_BYTES", 4)
    for before in range(9):
        assert not lines_are_exact(("1" * before + "," + zero).encode())
        assert lines_are_exact(("1" * before + ",10,0,100\n").encode())
    assert not lines_are_exact(b"01")


def test_a_minus_zero_at_the_very_end_stays_text(tmp_path: Path) -> None:
    assert read_both(put(tmp_path, "e.csv", "5,6\n6,-0")).ids.tolist() == ["5", "6", "-0"]


def test_a_field_beyond_reason_is_not_repeated_in_full(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one field") as refusal:
        read_both(put(tmp_path, "e.csv", "a," + "x" * 1_000_000))
    assert len(str(refusal.value)) < 400


def test_the_line_of_a_row_is_the_editors(tmp_path: Path) -> None:
    text = b'# note\n\na,b\n"c\nd",e\n\nf,g\n'
    table = TextTable(tmp_path / "e.csv", text, "edges")
    assert [table.line_of(row, False) for row in range(3)] == [3, 5, 7]
    assert table.line_of(1, True) == 7


def test_bytes_that_are_no_text_are_named_by_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphham.io.text._BLOCK_BYTES", 16)
    file = put(tmp_path, "e.csv", b"\xef\xbb\xbf" + b"u1,v1\n" * 10 + b"u2,v\xe9\n")
    with pytest.raises(InputError, match=r"byte 67, line 11"):
        read_both(file)
