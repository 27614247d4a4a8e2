"""The tables of GraphRAG: its columns, and numbers that agree with the run."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graphham.errors import InputError
from graphham.results.export import export_run
from graphham.results.graphrag import graphrag_tables
from tests.results.test_export import make_run

IDS = [f"n{i}" for i in range(40)]
# The columns and their order as GraphRAG publishes them (its data model, and docs/index/outputs).
PLACES = ["id", "human_readable_id", "community", "level", "parent", "children", "title"]
SCHEMA = {
    "entities": [
        *("id", "human_readable_id", "title", "type", "description", "text_unit_ids"),
        *("frequency", "degree"),
    ],
    "relationships": [
        *("id", "human_readable_id", "source", "target", "description", "weight"),
        *("combined_degree", "text_unit_ids"),
    ],
    "communities": [
        *PLACES,
        *("entity_ids", "relationship_ids", "text_unit_ids", "period", "size"),
    ],
    "community_reports": [
        *PLACES,
        *("summary", "full_content", "rank", "rating_explanation", "findings"),
        *("full_content_json", "period", "size"),
    ],
}


def read(folder: Path) -> dict[str, pd.DataFrame]:
    return {name: pd.read_parquet(folder / f"{name}.parquet") for name in SCHEMA}


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, pd.DataFrame]:
    run, graph = make_run(tmp_path, ids=IDS)
    made = export_run(run, tmp_path / "rag", "graphrag", graph)
    assert sorted(p.stem for p in made.path.iterdir()) == sorted(SCHEMA)
    return read(made.path)


def test_the_columns_are_the_published_ones(tables: dict[str, pd.DataFrame]) -> None:
    for name, table in tables.items():
        assert list(table.columns) == SCHEMA[name]
        assert table["id"].is_unique
    assert tables["communities"]["community"].is_unique


def test_every_entity_is_in_one_community_of_each_level(tables: dict[str, pd.DataFrame]) -> None:
    entities = set(tables["entities"]["id"])
    for _, level in tables["communities"].groupby("level"):
        members = [e for ids in level["entity_ids"] for e in ids]
        assert sorted(members) == sorted(entities)
        assert (level["size"] == level["entity_ids"].map(len)).all()


def test_parents_hold_their_children(tables: dict[str, pd.DataFrame]) -> None:
    by_number = tables["communities"].set_index("community")
    for number, row in by_number.iterrows():
        assert (row["parent"] == -1) == (row["level"] == 0)
        for child in row["children"]:
            assert by_number.loc[child, "parent"] == number
            assert by_number.loc[child, "level"] == row["level"] + 1


def test_relationships_of_a_community_lie_inside_it(tables: dict[str, pd.DataFrame]) -> None:
    ends = tables["relationships"].set_index("id")
    title = tables["entities"].set_index("id")["title"]
    for _, row in tables["communities"].iterrows():
        members = set(title[list(row["entity_ids"])])
        inside = set(row["relationship_ids"])
        expected = {
            i for i, e in ends.iterrows() if e["source"] in members and e["target"] in members
        }
        assert inside == expected
    degree = tables["entities"].set_index("title")["degree"]
    sums = degree[ends["source"]].to_numpy() + degree[ends["target"]].to_numpy()
    np.testing.assert_array_equal(ends["combined_degree"], sums)


def test_reports_are_extracts_of_the_groups(tables: dict[str, pd.DataFrame]) -> None:
    reports = tables["community_reports"]
    assert list(reports["community"]) == list(tables["communities"]["community"])
    for _, row in reports.iterrows():
        whole = json.loads(row["full_content_json"])
        assert whole["title"] == row["title"]
        assert row["summary"] in row["full_content"]
        assert f"{row['size']:,} members" in row["summary"]
        assert {f["summary"] for f in row["findings"]} >= {"Its most typical members"}
    top = reports[reports["level"] == 0]
    assert top["rank"].sum() == pytest.approx(10, abs=0.01)


def test_ids_of_tables_that_graphrag_made_are_kept(tmp_path: Path) -> None:
    run, graph = make_run(tmp_path, ids=IDS)
    edges = graph.edge_list()
    own = tmp_path / "output"
    own.mkdir()
    pq.write_table(
        pa.table({"id": [f"E{i}" for i in IDS[:-1]], "title": IDS[:-1]}), own / "entities.parquet"
    )
    with pytest.raises(InputError, match=r"no relationships\.parquet"):
        graphrag_tables(run, graph, own)
    source, target = ([IDS[i] for i in edges[:, k]] for k in (1, 0))  # either way round
    links = {"id": [f"R{i}" for i in range(len(edges))], "source": source, "target": target}
    pq.write_table(pa.table(links), own / "relationships.parquet")
    tables, notes = graphrag_tables(run, graph, own)
    assert set(tables) == {"communities", "community_reports"}
    coarse = [r for r in tables["communities"].to_pylist() if r["level"] == 0]
    assert {e for r in coarse for e in r["entity_ids"]} == {f"E{i}" for i in IDS[:-1]}
    assert {r for c in coarse for r in c["relationship_ids"]} <= set(links["id"])
    assert any("1 nodes are not among" in note for note in notes)


def test_a_folder_that_exists_is_left_alone(tmp_path: Path) -> None:
    run, graph = make_run(tmp_path, ids=IDS)
    (tmp_path / "rag").mkdir()
    with pytest.raises(InputError, match="exists already"):
        export_run(run, tmp_path / "rag", "graphrag", graph)
    assert not list((tmp_path / "rag").iterdir())
