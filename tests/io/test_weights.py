"""Weights that single precision cannot hold are refused where they stand."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graphham.errors import InputError
from tests.io.edge_files import put, read_both


def test_weights_at_the_ends_of_single_precision_are_kept(tmp_path: Path) -> None:
    ends = np.finfo(np.float32)
    file = put(tmp_path, "e.csv", f"a,b,w\nc,d,{ends.max}\nd,e,{ends.tiny}\n")
    graph = read_both(file, weight="w", directed=True)
    assert graph.weights is not None
    assert graph.weights.tolist() == [float(ends.max), float(ends.tiny)]


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
        match = told if isinstance(told, str) else told[kind]
        with pytest.raises(InputError, match=f"{match}.*scale the weights"):
            read_both(file, **options)
