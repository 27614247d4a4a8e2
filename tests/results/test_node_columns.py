"""One set of columns: what CSV, Parquet, GraphML and embed say of a node is the same."""

import re
from pathlib import Path

import networkx as nx
import numpy as np
import polars as pl
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from graphham.cli.main import main
from graphham.results.export import export_run
from graphham.results.node_columns import node_columns
from graphham.results.run_writer import Run
from tests.outputs import make_result
from tests.results.test_export import make_run

IDS = [f"n{i}" for i in range(7)]


def plain(names: list[str]) -> list[str]:
    """Return column names with the numbered parts of vectors and memberships taken together."""
    return list(
        dict.fromkeys(
            "embedding" if n.startswith("dim_") else re.sub(r"^(membership_\d+)_\d+$", r"\1", n)
            for n in names
        )
    )


@pytest.mark.parametrize("labels", ["text", "multi", "none"])
def test_csv_and_parquet_have_the_same_columns_and_values(tmp_path: Path, labels: str) -> None:
    run, _ = make_run(tmp_path, ids=IDS, labels=labels)
    table = pq.read_table(export_run(run, tmp_path / "x.parquet", "parquet").path)
    flat = pacsv.read_csv(export_run(run, tmp_path / "x.csv", "csv").path)
    assert plain(flat.column_names) == table.column_names
    wanted = {"id", "embedding", "group_1", "group_1_name", "strength_1", "membership_1"}
    wanted |= {"group_2", "group_2_name", "strength_2", "membership_2", "concentration"}
    if labels != "none":
        wanted |= {"label", "prediction", "confidence"}
    assert wanted <= set(table.column_names)
    for name in table.column_names:
        values = table[name].to_pylist()
        if name in flat.column_names and labels != "multi":
            told = flat[name].to_pylist()
            if isinstance(values[0], float):
                np.testing.assert_allclose(told, values, rtol=1e-6)
            elif "name" not in name:
                assert [t or None for t in told] == [v or None for v in values] or told == values
    shown = zip(table["membership_1"].to_pylist(), table["group_1"].to_pylist(), strict=True)
    np.testing.assert_allclose(table["strength_1"].to_pylist(), [m[g] for m, g in shown])


def test_graphml_says_the_same_of_every_node(tmp_path: Path) -> None:
    run, graph = make_run(tmp_path, ids=IDS)
    table = pq.read_table(export_run(run, tmp_path / "x.parquet", "parquet").path)
    drawn = nx.read_graphml(export_run(run, tmp_path / "x.graphml", "graphml", graph).path)
    for row in table.to_pylist():
        node = drawn.nodes[row["id"]]
        for name in ("group_1", "group_2_name", "prediction"):
            assert node[name] == row[name]
        for name in ("strength_2", "concentration", "confidence"):
            assert node[name] == pytest.approx(row[name], rel=1e-6)


def test_several_labels_are_joined_only_where_a_cell_holds_one_value() -> None:
    found = make_result(5, labels="multi", classify=True)
    listed = node_columns(found)["prediction"].to_pylist()
    joined = node_columns(found, is_flat=True)["prediction"].to_pylist()
    assert joined == [None if v is None else ";".join(map(str, v)) for v in listed]


def test_embed_writes_the_columns_of_an_export(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    fit = ["fit", "cora", "--epochs", "1", "--dim", "8", "--groups", "4,2", "--quiet"]
    assert main([*fit, "--out", run]) == 0
    assert main(["embed", run, "cora", "--out", str(tmp_path / "e.parquet")]) == 0
    export_run(Run.open(run), tmp_path / "x.parquet", "parquet")
    one, other = pl.read_parquet(tmp_path / "e.parquet"), pl.read_parquet(tmp_path / "x.parquet")
    assert one.columns == [n for n in other.columns if n != "title"]
    assert one.equals(other.drop("title", strict=False))
