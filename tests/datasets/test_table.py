"""The tables about the datasets, measured beside what was published."""

from pathlib import Path

import pytest

from graphham.datasets import (
    dataset_names,
    info_rows,
    list_rows,
    table1_rows,
)


def test_table_reproduces_the_papers_columns(data: Path) -> None:
    rows = {row["name"]: row for row in table1_rows()}
    for name in ("cora", "citeseer", "pubmed", "facebook"):
        row = rows[name]
        assert row["nodes"] == row["paper_nodes"]
        assert row["raw_edges"] == row["paper_edges"]
        assert row["classes"] == row["paper_classes"]
        assert row["clustering"] == pytest.approx(row["paper_clustering"], abs=5.1e-4)
    assert rows["youtube"]["nodes"] is None
    assert rows["youtube"]["paper_edges"] == 2_990_443
    assert rows["debian"]["paper_nodes"] is None


def test_tables_describe_every_dataset(cache: Path) -> None:
    assert [row["name"] for row in list_rows()] == dataset_names()
    status = {row["name"]: row["status"] for row in list_rows()}
    assert status["cora"] == "in the package"
    assert status["citeseer"] == "to download"
    assert status["wordnet"] == "to be put there by hand"
    for name in dataset_names():
        rows = info_rows(name)
        assert ("name", name) in rows
        assert all(value for _, value in rows)
    assert ("checksum", "none known; verified by counts") in info_rows("amazon")
