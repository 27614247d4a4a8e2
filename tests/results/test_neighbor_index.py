"""The nearest nodes of many at once: as one question answers, and nearly so by cells."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import graphham as gh
from graphham.cli.main import main
from graphham.errors import InputError
from graphham.graph.ids import NodeIds
from graphham.readout.neighbors import nearest_to
from graphham.results import neighbor_index
from graphham.results.neighbor_index import NeighborIndex
from graphham.results.result import FitResult
from graphham.results.similar import similar_nodes
from tests.outputs import make_result
from tests.results.test_export import make_run

FOUND = make_result(60, ids=[f"n{i}" for i in range(60)])


def test_many_questions_are_answered_as_one_is() -> None:
    index = NeighborIndex(FOUND)
    assert len(index) == 60
    table = index.query(["n7", "n3"], 4)
    assert table.column_names == ["id", "rank", "neighbor", "similarity"]
    for part, node in enumerate(("n7", "n3")):
        mine = table.slice(4 * part, 4)
        one = similar_nodes(FOUND, None, node, 4)
        assert mine["id"].to_pylist() == [node] * 4
        assert mine["rank"].to_pylist() == [1, 2, 3, 4]
        assert mine["neighbor"].to_pylist() == one["id"].to_pylist()
        np.testing.assert_allclose(mine["similarity"], one["similarity"], atol=1e-5)
    assert index.query(count=100).num_rows == 60 * 59


def test_equal_vectors_are_neighbors_and_nobody_is_its_own() -> None:
    same = FitResult(NodeIds.range(30), np.ones((30, 4), np.float32), (4,), [], [])
    table = NeighborIndex(same).query(count=3)
    assert table.num_rows == 90
    assert all(a != b for a, b in zip(table["id"], table["neighbor"], strict=True))
    np.testing.assert_allclose(table["similarity"], 1, atol=1e-6)


def test_cells_find_nearly_all_of_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbor_index, "_FEW_NODES", 100)
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(20, 16))
    vectors = (centers[rng.integers(20, size=4000)] + 0.3 * rng.normal(size=(4000, 16))).astype(
        "f4"
    )
    found = FitResult(NodeIds.range(4000), vectors, (16,), [], [])
    asked = list(range(0, 4000, 40))
    table = NeighborIndex(found).query(asked)
    near = table["neighbor"].to_numpy().reshape(-1, 10)
    hits = [
        len(np.intersect1d(nearest_to(vectors, row, 10)[0], mine))
        for row, mine in zip(asked, near, strict=True)
    ]
    assert np.mean(hits) > 9.5


def test_what_cannot_be_asked() -> None:
    with pytest.raises(InputError, match="not of str"):
        NeighborIndex("runs/cora")
    with pytest.raises(InputError, match="'n99' is not an id"):
        NeighborIndex(FOUND).query(["n99"])
    with pytest.raises(InputError, match="at least one"):
        NeighborIndex(FOUND).query(count=0)
    assert gh.NeighborIndex is NeighborIndex


def test_the_command_writes_those_of_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, _ = make_run(tmp_path / "run", ids=[f"n{i}" for i in range(9)])
    out = tmp_path / "near.parquet"
    assert main(["neighbors", str(run.path), "--all", "--count", "3", "--out", str(out)]) == 0
    assert "3 nearest of 9 nodes" in capsys.readouterr().out
    assert pq.read_table(out).num_rows == 27
    for wrong in (["--all"], [], ["n0", "--all", "--out", "x.csv"]):
        assert main(["neighbors", str(run.path), *wrong]) == 2
        assert "--all with --out" in capsys.readouterr().err
