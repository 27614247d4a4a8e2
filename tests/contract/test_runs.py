"""A run of any method is a run: every command serves it and leaves out what the method lacks."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import graphham as gh
from graphham.cli import main
from graphham.errors import InputError
from graphham.graph.store import write_store
from graphham.methods.registry import method_names, method_rows
from graphham.results.formats import FORMATS
from tests.contract.test_methods import fitted, planted

_TASK = {name: "embed" if "links" in tasks else "classify" for name, _, tasks in method_rows()}
_PLACES = {
    "graphsage",
    "gat",
    "gcn",
    "appnp",
    "mlp",
    "graphstone",
    "deepmincut-features",
    *(name for name in method_names() if name.startswith("graphham")),
}


@pytest.mark.parametrize("name", method_names())
def test_every_command_serves_a_run_of_every_method(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    method = fitted(name, _TASK[name])
    run = method.save(tmp_path / "run")
    place = str(run.path)

    def command(*words: str) -> str:
        capsys.readouterr()
        code = main([*words])
        seen = capsys.readouterr()
        assert code == 0, seen.err
        return seen.out

    assert run.method == name
    assert run.has_groups == bool(method.groups_)
    shown = command("info", place)
    assert f"method {name}," in shown
    assert ("Tree" in shown) == run.has_groups
    for form in FORMATS:
        if form == "graphrag" and not run.has_groups:
            continue  # communities are groups
        command("export", place, "--format", form, "--out", str(tmp_path / f"out.{form}"))
    table = pq.read_table(tmp_path / "out.parquet")
    np.testing.assert_array_equal(
        np.array(table["embedding"].to_pylist(), dtype=np.float32), method.embedding_
    )
    assert ("concentration" in table.column_names) == bool(method.memberships_)
    assert sum(n.startswith("group_") and n[6:].isdigit() for n in table.column_names) == len(
        method.groups_
    )
    count, dim = method.embedding_.shape
    assert (tmp_path / "out.word2vec").read_text().startswith(f"{count} {dim}\n")
    command("report", place)
    page = (run.path / "report.html").read_text()
    assert ('id="groups"' in page) == run.has_groups
    assert ('id="boundary"' in page) == bool(method.memberships_)
    assert 'id="map"' in page
    assert 'id="details"' in page

    loaded = gh.load(run.path)
    store = write_store(planted(), tmp_path / "store")
    if name in _PLACES:
        command("embed", place, str(store), "--out", str(tmp_path / "again.parquet"))
        placed = pq.read_table(tmp_path / "again.parquet")
        vectors = np.array(placed["embedding"].to_pylist(), dtype=np.float32)
        np.testing.assert_array_equal(vectors, method.embedding_)
        np.testing.assert_array_equal(loaded.transform(planted()), method.embedding_)
    else:
        with pytest.raises(InputError, match="cannot place"):
            loaded.transform(planted())
    about = json.loads((run.path / "summary.json").read_text())
    assert set(about["files"]) | {"summary.json"} <= {p.name for p in run.path.iterdir()}


@pytest.mark.parametrize("name", ["deepwalk", "gne", "graphham"])
def test_the_explorer_leaves_out_what_a_method_lacks(name: str, tmp_path: Path) -> None:
    from graphham.explore.static_copy import export_static

    method = fitted(name, "embed")
    run = method.save(tmp_path / "run")
    folder = export_static(run, tmp_path / "page")
    text = (folder / "data.js").read_text().removeprefix("window.GRAPHHAM = ").rstrip(";\n")
    overview = json.loads(text)["overview"]
    assert overview["method"] == name
    assert [len(level) for level in overview["levels"]] == list(method.result_.group_counts)
    assert (overview["firm"] is None) == (not method.memberships_)
    assert (overview["attentionNote"] is None) == (name == "graphham")


def test_two_methods_can_be_compared_by_their_groups(tmp_path: Path) -> None:
    for name in ("gne", "graphham", "deepwalk"):
        fitted(name, "embed").save(tmp_path / name)
    places = {name: str(tmp_path / name) for name in ("gne", "graphham", "deepwalk")}
    out = str(tmp_path / "moved.csv")
    assert main(["compare", places["gne"], places["graphham"], "--out", out]) == 0
    assert Path(out).is_file()
    # A run without groups is compared by who is near whom; with itself nothing has changed.
    for other, least in (("deepwalk", 0.0), ("gne", 1.0)):
        table = tmp_path / f"{other}.parquet"
        pair = [places["deepwalk"], places["deepwalk" if other == "gne" else "gne"]]
        assert main(["compare", *pair, "--out", str(table)]) == 0
        kept = pq.read_table(table)["neighbors_kept"].to_numpy()
        assert least <= kept.min() <= kept.max() <= 1
        assert (kept < 1).any() == (least == 0)
    assert main(["compare", *pair, "--out", str(tmp_path / "none.html")]) == 0
    assert not (tmp_path / "none.html").exists()
