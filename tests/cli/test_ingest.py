"""Ingest shows how far it is, adds what tables hold, and survives being killed."""

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graphham.graph.store import open_store
from graphham.io import external_sort as sorting
from graphham.io import read_graph
from tests.io.edge_files import assert_same, on_disk


def test_progress_only_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the bar is told never falls and every stage ends complete."""
    from graphham.cli.ingest import IngestProgress
    from graphham.system.console import Screen

    monkeypatch.setattr(sorting, "_CHUNK", 100)
    monkeypatch.setattr(sorting, "_RANGE", 200)
    monkeypatch.setattr("graphham.io.files._BATCH_ROWS", 300)
    monkeypatch.setattr("graphham.cli.ingest._LINE_SECONDS", 0.0)
    ends = np.random.default_rng(0).integers(0, 500, (2, 2000))
    pq.write_table(pa.table({"s": ends[0], "t": ends[1]}), tmp_path / "e.parquet")
    told: list[tuple[str, float]] = []
    lines = io.StringIO()
    with IngestProgress(Screen(file=lines)) as progress:

        def show(stage: str, share: float) -> None:
            told.append((stage, share))
            progress.show(stage, share)

        on_disk(tmp_path / "e.parquet", tmp_path / "s", progress=show)
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


def test_a_killed_program_leaves_nothing_for_long(tmp_path: Path) -> None:
    """Kill -9 in the middle: no store under the name; the next run works and tidies up.

    The edges are just too many to stay in memory.
    """
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 400_000, (2, 2_200_000))
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


def test_a_store_does_not_hand_the_label_to_the_model(tmp_path: Path) -> None:
    """Ingest with a table, fit with a label column of it: random labels stay unpredictable."""
    from graphham.cli.main import main
    from graphham.results.run_folder import Run

    rng = np.random.default_rng(0)
    ends = rng.integers(0, 60, (2, 200))
    (tmp_path / "e.csv").write_text("".join(f"{a},{b}\n" for a, b in ends.T if a != b))
    ids = np.unique(ends[:, ends[0] != ends[1]])
    table = pa.table(
        {"id": ids, "x": rng.normal(size=len(ids)), "topic": rng.integers(0, 2, len(ids))}
    )
    nodes = tmp_path / "n.parquet"
    pq.write_table(table, nodes)
    store, run = str(tmp_path / "store"), str(tmp_path / "run")
    assert main(["ingest", str(tmp_path / "e.csv"), "--features", str(nodes), "--out", store]) == 0
    fit = ["fit", store, "--labels", f"{nodes}:topic", "--method", "logreg"]
    assert main([*fit, "--task", "classify", "--out", run]) == 0
    opened = Run.open(run)
    assert opened.summary["graph"]["features"] == 1
    assert opened.summary["training"]["validation"] < 0.95
