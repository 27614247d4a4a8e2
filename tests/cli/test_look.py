"""``explore --export``, ``compare``, ``embed --map`` and ``model.explore()``."""

import json
import urllib.request
from pathlib import Path

import numpy as np
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

import graphham as gh
from graphham.graph.planted import PlantedGraph

from .conftest import Graphham, contents


@pytest.fixture(scope="module")
def runs(planted: PlantedGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("look")
    for seed in (0, 1):
        model = gh.GraphHAM(groups=(6, 2), dim=16, epochs=8, seed=seed).fit(planted.graph)
        model.save(folder / f"run{seed}")
    return folder


def test_new_nodes_get_a_place_on_the_map(
    graphham: Graphham, runs: Path, planted: PlantedGraph, tmp_path: Path
) -> None:
    from graphham.graph.store import write_store
    from graphham.results.projection import run_map

    write_store(planted.graph, tmp_path / "store")
    for name in ("a.parquet", "a.csv"):
        seen = graphham("embed", str(runs / "run0"), "store", "--map", "--out", name)
        assert (seen.code, seen.err) == (0, "")
        table = (pq.read_table if name.endswith("parquet") else csv.read_csv)(tmp_path / name)
        places = np.stack([table["map_x"].to_numpy(), table["map_y"].to_numpy()], axis=1)
        # The nodes of the run itself land where they are.
        away = np.linalg.norm(places - run_map(gh.open_run(runs / "run0")).xy, axis=1)
        assert np.median(away) < 0.1


def test_compare_writes_a_page_or_a_table(graphham: Graphham, runs: Path, tmp_path: Path) -> None:
    pair = (str(runs / "run0"), str(runs / "run1"))
    seen = graphham("compare", *pair, "--out", "page.html")
    assert (seen.code, seen.err) == (0, "")
    assert "240 nodes in both runs" in seen.out
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "adjusted Rand index" in page
    for level in (1, 2):  # all levels that both have, each with its own flow
        assert f"level {level}: " in seen.out
        assert f'data-figure="flow{level}"' in page
    before = contents(tmp_path)
    seen = graphham("compare", *pair)
    assert seen.code == 0
    assert "level 2: " in seen.out
    assert contents(tmp_path) == before  # nothing is written unless asked for
    assert graphham("compare", *pair, "--out", "all.csv").code == 0
    assert set(csv.read_csv(tmp_path / "all.csv")["level"].to_pylist()) <= {1, 2}
    seen = graphham("compare", *pair, "--level", "2", "--out", "moved.parquet")
    assert seen.code == 0
    moved = pq.read_table(tmp_path / "moved.parquet")
    assert f"{moved.num_rows:,} nodes" in seen.out
    before = contents(tmp_path)
    for wrong in (["page.html"], ["x.docx"], ["x.html", "--level", "9"]):
        seen = graphham("compare", *pair, "--out", *wrong)
        assert seen.code == 2
        assert len(seen.err.strip().splitlines()) == 1
    assert contents(tmp_path) == before


def test_explore_exports_a_folder(graphham: Graphham, runs: Path, tmp_path: Path) -> None:
    seen = graphham("explore", str(runs / "run0"), "--export", "copy")
    assert (seen.code, seen.err) == (0, "")
    assert (tmp_path / "copy" / "index.html").is_file()
    seen = graphham("explore", str(runs / "run0"), "--export", "copy")
    assert seen.code == 2
    assert "exists already" in seen.err
    seen = graphham("explore", str(tmp_path))
    assert seen.code == 2


def test_a_model_opens_itself_in_the_browser(
    planted: PlantedGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    import webbrowser

    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    model = gh.GraphHAM(groups=(6, 2), dim=16, epochs=3).fit(planted.graph)
    with model.explore() as running:
        assert opened == [running.address]
        with urllib.request.urlopen(running.address.replace("?", "api/overview?")) as response:
            overview = json.load(response)
        running.explorer.select({"group": "2-0"})
        picked = model.selection()
    assert picked.num_rows == int((model.groups_[1] == 0).sum()) > 0
    assert overview["numNodes"] == 240
    assert [len(level) for level in overview["levels"]] == [6, 2]
    assert "Explore the run" in running._repr_html_()
    with pytest.raises(gh.InputError, match="not fitted"):
        gh.GraphHAM().explore()
    with pytest.raises(gh.InputError, match="no explorer"):
        gh.GraphHAM().selection()


def test_a_loaded_model_opens_its_own_run(runs: Path) -> None:
    model = gh.load(runs / "run0")
    with model.explore(open_browser=False) as running:
        running.explorer.rename(2, 0, "mine")
    assert gh.open_run(runs / "run0").hierarchy.names[1][0] == "mine"


def test_explain_gives_parts_that_add_up(graphham: Graphham, runs: Path) -> None:
    node = str(gh.open_run(runs / "run0").nodes["id"][3].as_py())
    said = graphham("explain", str(runs / "run0"), node)
    assert (said.code, said.err) == (0, "")
    assert "why not" in said.out
    told = json.loads(graphham("explain", str(runs / "run0"), node, "--json").out)
    assert str(told["id"]) == node
    for level in told["levels"]:
        why = level["why"]
        parts = why["features"] + why["links"] + why["levels_above"] + why["spread"]
        assert parts == pytest.approx(why["log_odds"], abs=1e-4)
    missing = graphham("explain", str(runs / "run0"), "nobody")
    assert missing.code == 2
    assert "nobody" in missing.err


def test_every_command_that_looks_takes_a_zip(
    graphham: Graphham, runs: Path, tmp_path: Path
) -> None:
    """``docs/howto/share.md`` says so."""
    packed = str(tmp_path / "run.zip")
    assert graphham("export", str(runs / "run0"), "--format", "zip", "--out", packed).code == 0
    node = str(gh.open_run(runs / "run0").nodes["id"][3].as_py())
    shown = graphham("info", packed)
    assert (shown.code, shown.err) == (0, "")
    assert "run.zip (complete)" in shown.out
    assert "2-0" in shown.out
    for line in (["doctor", packed], ["explain", packed, node], ["neighbors", packed, node]):
        said = graphham(*line)
        assert (said.code, said.err) == (0, ""), line
    refused = graphham("info", packed, "--directed")
    assert refused.code == 2
    assert "leave out --directed" in refused.err
