"""The routes refuse what is wrong and export what is there."""

import io
from pathlib import Path
from typing import Any

import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

from graphham.explore.queries import Explorer
from graphham.results.run_folder import Run
from tests.explore.client import Client


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/rename", {"level": 9, "group": 0, "name": "x"}),
        ("/api/rename", {"level": "1", "group": 0, "name": "x"}),
        ("/api/rename", {"level": 1, "group": 0, "name": "x" * 10_000}),
        ("/api/rename", []),
        ("/api/export", {"rows": [1, 2, 99_999], "format": "csv"}),
        ("/api/export", {"rows": [-1], "format": "csv"}),
        ("/api/export", {"rows": ["../x"], "format": "csv"}),
        ("/api/export", {"rows": [1], "format": "../../x"}),
        ("/api/export", {"group": "2-99", "format": "csv"}),
        ("/api/export", {"group": "../x", "format": "csv"}),
        ("/api/export", {"lasso": "1,2;nan,3;4,5", "format": "csv"}),
        ("/api/selection", {"lasso": "1,2;3"}),
        ("/api/selection", {"lasso": 5}),
        ("/api/selection", {"attribute": "feature:-1"}),
        ("/api/selection", {"attribute": "label:" + "9" * 30_000}),
    ],
)
def test_a_wrong_request_gets_one_sentence(
    client: Client, own_run: Path, path: str, body: object
) -> None:
    seen = client.post(path, body, headers=client.home)
    assert seen.status_code == 400
    assert "\n" not in seen.json()["error"]
    assert not (own_run / "names.json").exists()


def test_an_export_is_the_runs_own_table(client: Client, own_run: Path) -> None:
    rows = [5, 3, 200]
    sent = {"rows": rows, "format": "parquet"}
    seen = client.post("/api/export", sent, headers=client.home)
    table = pq.read_table(io.BytesIO(seen.content))
    whole = Run.open(own_run).nodes
    assert table.select(whole.column_names).to_pylist() == whole.take(rows).to_pylist()


def test_a_csv_export_has_lists_as_words(client: Client, own_run: Path) -> None:
    sent = {"group": "2-1", "format": "csv"}
    response = client.post("/api/export", sent, headers=client.home)
    assert response.headers["content-disposition"] == 'attachment; filename="selection.csv"'
    records = csv.read_csv(io.BytesIO(response.content)).to_pylist()
    nodes = [r for r in Run.open(own_run).nodes.to_pylist() if r["group_2"] == 1]
    assert [r["id"] for r in records] == [r["id"] for r in nodes]
    for record, node in zip(records, nodes, strict=True):
        members = [float(v) for v in record["membership_1"].split(" ")]
        assert members == pytest.approx(node["membership_1"], rel=1e-5)


def test_ids_are_found_and_others_are_not(client: Client, own_run: Path) -> None:
    ids = Run.open(own_run).nodes["id"].to_pylist()
    assert client.get(f"/api/find?id={ids[7]}").json() == {"row": 7}
    assert client.get("/api/find?id=nobody").json() == {"row": -1}
    assert client.get("/api/map").json()["isFinal"] is True


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/selection", "[" * 100_000 + "]" * 100_000),
        ("/api/selection", '{"x":' * 100_000 + "1" + "}" * 100_000),
        ("/api/selection", '{"group": "1-' + "9" * 5000 + '"}'),
        ("/api/selection", '{"group": "' + "9" * 5000 + '-1"}'),
        ("/api/selection", '{"group": "1-\u0661"}'),
        ("/api/selection", '{"attribute": "label:' + "9" * 5000 + '"}'),
        ("/api/selection", '{"attribute": "' + "x" * 15_000 + ':1"}'),
        ("/api/export", f'{{"rows": [{2**70}], "format": "csv"}}'),
        ("/api/export", f'{{"rows": [{-(2**70)}], "format": "csv"}}'),
        ("/api/export", '{"rows": [true], "format": "csv"}'),
        ("/api/rename", f'{{"level": {2**70}, "group": 0, "name": "x"}}'),
    ],
)
def test_monstrous_requests_get_one_sentence(client: Client, path: str, body: str) -> None:
    headers = {"Content-Type": "application/json", **client.home}
    seen = client.send("POST", path, headers, body)
    assert seen.status_code == 400, seen.text[:300]
    assert len(seen.json()["error"]) < 2000
    assert client.get(f"/api/node/{2**70}").status_code == 400


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_an_export_is_made_piece_by_piece(
    client: Client, own_run: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = list(range(239, -1, -1))
    whole = client.post("/api/export", {"rows": rows, "format": form}, headers=client.home)
    made: list[int] = []
    real = Explorer.table

    def table(explorer: Explorer, picked: Any) -> Any:
        made.append(len(picked))
        return real(explorer, picked)

    monkeypatch.setattr(Explorer, "table", table)
    monkeypatch.setattr("graphham.explore.server._PIECE_ROWS", 50)
    seen = client.post("/api/export", {"rows": rows, "format": form}, headers=client.home)
    assert made == [50, 50, 50, 50, 40]
    read = csv.read_csv if form == "csv" else pq.read_table
    found = read(io.BytesIO(seen.content))
    assert found.to_pylist() == read(io.BytesIO(whole.content)).to_pylist()
    assert found["id"].to_pylist() == Run.open(own_run).nodes.take(rows)["id"].to_pylist()
    nothing = client.post("/api/export", {"rows": [], "format": form}, headers=client.home)
    assert read(io.BytesIO(nothing.content)).num_rows == 0
