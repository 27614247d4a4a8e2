"""Every id has a code of its own, however alike two ids are."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graphham.errors import InputError
from graphham.io.id_table import IdTable
from tests.io.edge_files import on_disk


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
        on_disk(tmp_path / "e.parquet", tmp_path / "s", memory_bytes=1 << 20)
