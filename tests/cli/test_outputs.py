"""Vectors of new nodes, and a run in the formats of other tools."""

from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq

from graphham.results.run_writer import Run

from .conftest import Graphham, contents, graph_options


def test_embed_gives_new_nodes_what_fit_gave_the_old(
    graphham: Graphham, tmp_path: Path, planted_files: Path
) -> None:
    options = graph_options(planted_files)
    fitted = graphham("fit", *options, "--groups", "6,2", "--dim", "16", "--epochs", "4")
    assert fitted.code == 0
    assert graphham("embed", "runs/edges", *options, "--out", "v.parquet").code == 0
    run = Run.open(tmp_path / "runs" / "edges")
    table = pq.read_table(tmp_path / "v.parquet")
    assert table.column("id").to_pylist() == run.nodes.column("id").to_pylist()
    np.testing.assert_array_equal(
        np.array(table.column("embedding").to_pylist(), "f4"), run.embedding
    )
    for name in ("group_1", "group_2", "membership_1", "membership_2", "concentration"):
        assert table.column(name).to_pylist() == run.nodes.column(name).to_pylist()
    # A subgraph the model never saw as such: its own ids, its own neighbours.
    lines = (planted_files / "edges.csv").read_text().splitlines()
    (tmp_path / "part.csv").write_text("\n".join(lines[:200]))
    kept = {end for line in lines[1:200] for end in line.split(",")}
    rows = (planted_files / "features.csv").read_text().splitlines()
    inside = [row for row in rows[1:] if row.split(",")[0] in kept]
    (tmp_path / "part_nodes.csv").write_text("\n".join([rows[0], *inside]))
    part = ["part.csv", "--features", "part_nodes.csv"]
    assert graphham("embed", "runs/edges", *part, "--out", "part_v.csv").code == 0
    flat = pyarrow.csv.read_csv(tmp_path / "part_v.csv")
    assert set(flat.column("id").to_pylist()) == kept
    assert {"dim_0", "dim_15", "membership_1_5", "membership_2_1"} <= set(flat.column_names)
    before = contents(tmp_path)
    assert graphham("embed", "runs/edges", *part, "--out", "part_v.csv").code == 2
    assert contents(tmp_path) == before


def test_export_follows_the_name_of_the_file(graphham: Graphham, tmp_path: Path, run: Run) -> None:
    assert graphham("export", "run", "--out", "v.parquet").code == 0
    assert pq.read_table(tmp_path / "v.parquet").num_rows == 30
    assert graphham("export", "run", "--out", "v.txt").code == 0
    assert (tmp_path / "v.txt").read_text().splitlines()[0] == f"30 {run.embedding.shape[1]}"
    assert graphham("export", "run", "--out", "v.graphml").code == 0  # the run holds the graph
    assert graphham("export", "run", "--out", "v.npz").code == 0
    assert graphham("export", "run", "--out", "v.data").code == 2
    assert graphham("export", "run", "--format", "csv", "--out", "v.data").code == 0
    assert (tmp_path / "v.data").read_text().startswith('"id","dim_0"')
