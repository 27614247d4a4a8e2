"""A comparison as a page and as a table."""

import importlib.util
from pathlib import Path

import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

from graphham.errors import InputError
from graphham.report.run_comparison import write_comparison
from graphham.results.compare import compare_runs
from tests.results.test_compare import runs_with_moves


def test_moved_nodes_are_listed_with_both_groups(tmp_path: Path) -> None:
    runs, moved = runs_with_moves(tmp_path)
    comparison = compare_runs(*runs, level=1)
    ids = [runs[0].nodes["id"][row].as_py() for row in moved]
    for name, read in (("moved.csv", csv.read_csv), ("moved.parquet", pq.read_table)):
        table = read(write_comparison(comparison, tmp_path / name))
        assert table["id"].to_pylist() == ids
        assert table["group_b"].to_pylist() == [4, 4, 4]
    page = write_comparison(comparison, tmp_path / "page.html").read_text("utf-8")
    assert "3 nodes (4%) moved" in page
    assert all(f"<b>{node}</b>" in page for node in ids)


def test_nothing_is_written_over_or_under_another_name(tmp_path: Path) -> None:
    runs, _ = runs_with_moves(tmp_path)
    comparison = compare_runs(*runs, level=1)
    for name in ("page.html", "moved.csv"):
        (tmp_path / name).write_text("mine")
        with pytest.raises(InputError, match="exists already"):
            write_comparison(comparison, tmp_path / name)
        assert (tmp_path / name).read_text() == "mine"
    with pytest.raises(InputError, match=r"none of \.html, \.csv and \.parquet"):
        write_comparison(comparison, tmp_path / "moved.txt")


@pytest.mark.parametrize("package", ["plotly", "jinja2"])
def test_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    runs, _ = runs_with_moves(tmp_path)
    comparison = compare_runs(*runs, level=1)
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n, *a: None if n == package else find_spec(n, *a)
    )
    with pytest.raises(InputError, match=rf"{package}.*pip install 'graphham\[view\]'"):
        write_comparison(comparison, tmp_path / "page.html")
