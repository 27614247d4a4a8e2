"""A format is one function in one table: everything else follows."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from graphham.io.edge_formats import FORMATS, Format, kind_of
from graphham.io.edge_streams import Batch, EdgeColumns, EdgeSource
from graphham.io.files import Raw
from tests.io.edge_files import pairs, put, read_both


@pytest.mark.parametrize(
    ("name", "start", "kind"),
    [
        ("e.csv", b"a,b", "text"),
        ("e.parquet", b"a,b", "parquet"),
        ("e.csv", b"PAR1", "parquet"),
        ("E.NPZ.GZ", b"", "npz"),
        ("e", b"\xef\xbb\xbf  <?xml", "graphml"),
        ("e.txt", b"\x93NUMPY", "npy"),
    ],
)
def test_the_first_bytes_decide_and_then_the_name(name: str, start: bytes, kind: str) -> None:
    assert kind_of(Path(name), start) == kind


def open_arrows(path: Path, raw: Raw, columns: EdgeColumns) -> EdgeSource:
    """Read lines such as ``a->b``."""
    lines = [line.split("->") for line in raw[:].decode().split()[1:]]
    source, target = (pa.array([line[i] for line in lines], pa.large_string()) for i in (0, 1))

    def batches(integers: bool) -> Iterator[Batch]:
        yield Batch(source, target)

    return EdgeSource(str(path), batches, has_integers=False, is_weighted=False)


def test_a_new_format_is_one_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMATS, "arrows", Format(open_arrows, (b"->",), (".arrows",)))
    graph = read_both(put(tmp_path, "e.unknown", "->\n2->1\n1->30\n"))
    assert pairs(graph) == {(1, 2), (1, 30)}
