"""Sorting range by range on disk equals sorting in memory."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graphham.io import external_sort as sorting
from tests.io.edge_files import read_both


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
                read_both(tmp_path / "e.parquet", directed=directed, weight=weight)
