"""What the explorer returns, compared with the run and with slow reference code."""

from pathlib import Path

import numpy as np
import pytest

import graphham as gh
from graphham.cli import demo
from graphham.errors import InputError
from graphham.explore.binary_columns import unpack
from graphham.explore.queries import Explorer
from graphham.explore.selection import attribute_rows
from graphham.report import RunView, contents
from graphham.results.run_folder import Run
from graphham.system.console import Screen


def test_points_are_the_runs_nodes(small_run: Path) -> None:
    explorer, run = Explorer(small_run), Run.open(small_run)
    columns, header = unpack(explorer.points())
    assert columns["id"] == run.nodes["id"].to_pylist()
    np.testing.assert_array_equal(columns["group1"], run.nodes["group_1"].to_numpy())
    np.testing.assert_array_equal(columns["firm"], run.nodes["concentration"].to_numpy())
    assert header["total"] == 240


def test_a_large_run_sends_a_sample_and_whole_windows(small_run: Path) -> None:
    explorer = Explorer(small_run, whole=100, sample=60)
    assert explorer.is_large
    columns, header = unpack(explorer.points())
    assert len(columns["row"]) == 60
    assert header["total"] == 240
    xy = explorer.layout.xy
    x0, x1 = np.quantile(xy[:, 0], [0.4, 0.6])
    inside = np.flatnonzero((xy[:, 0] >= x0) & (xy[:, 0] <= x1) & (np.abs(xy[:, 1]) < 9))
    assert 0 < len(inside) <= 60
    columns, header = unpack(explorer.window(float(x0), float(x1), -9, 9))
    np.testing.assert_array_equal(columns["row"], inside)
    assert header["total"] == len(inside)
    columns, header = unpack(explorer.window(-99, 99, -99, 99))
    assert (len(columns["row"]), header["total"]) == (60, 240)
    grid, header = unpack(explorer.density())
    assert grid["counts"].sum() == 240
    # Row r of the grid is the r-th band of y: a transposed grid would mirror the map.
    bands = np.histogram(xy[:, 1], header["size"], range=header["y"])[0]
    np.testing.assert_array_equal(grid["counts"].reshape(header["size"], -1).sum(1), bands)


def test_a_node_is_explained_as_the_model_explains_it(small_run: Path) -> None:
    from graphham.results.encoder import Encoder, node_attention

    explorer, run = Explorer(small_run), Run.open(small_run)
    graph, row = run.graph(), 17
    encoder = Encoder.from_run(run)
    expected = node_attention(encoder.model, encoder.inputs_of(graph, graph.ids), graph, row)
    seen = explorer.node(row)
    for layer, want in zip(seen["layers"], expected, strict=True):
        order = np.argsort(-want.weight, kind="stable")
        assert layer["rows"] == want.neighbor_rows[order].tolist()
        np.testing.assert_allclose(layer["node"], want.node_attention[order], rtol=1e-5)
        np.testing.assert_allclose(layer["group"], want.group_attention[order], rtol=1e-5)
    neighbors = set(graph.neighbors(row).tolist())
    assert seen["degree"] == len(neighbors)
    ego = seen["ego"]["rows"]
    assert ego[0] == row
    assert set(ego[1:]) <= neighbors
    adjacency = graph.adjacency()
    linked = {(ego[a], ego[b]) for a, b in seen["ego"]["edges"]}
    every = {(a, b) for i, a in enumerate(ego) for b in ego[i + 1 :] if adjacency[a, b]}
    assert linked == every


def test_nearest_nodes_are_the_nearest(small_run: Path) -> None:
    run = Run.open(small_run)
    unit = run.embedding / np.linalg.norm(run.embedding, axis=1, keepdims=True)
    order = np.argsort(-(unit @ unit[9]), kind="stable")
    near = Explorer(small_run).node(9)["near"]
    assert near["rows"] == [int(r) for r in order if r != 9][:8]


@pytest.mark.parametrize("wanted", ["n219", "N219", "title of 17", "kind 1", "TOPIC7"])
def test_search_finds_ids_titles_labels_and_features(small_run: Path, wanted: str) -> None:
    found = Explorer(small_run).search(wanted)
    low = wanted.lower()
    texts = (
        found["nodes"]["id"] + found["nodes"]["title"] + [a["name"] for a in found["attributes"]]
    )
    assert any(low in t.lower() for t in texts)
    if low == "n219":
        assert found["nodes"]["id"][0] == "n219"


@pytest.mark.parametrize("wanted", ["", "   ", "%", "(", "\x00", "*" * 1000, "нет"])
def test_odd_searches_find_nothing_and_break_nothing(small_run: Path, wanted: str) -> None:
    assert Explorer(small_run).search(wanted)["nodes"]["id"] == []


def test_rows_outside_the_run_are_refused(small_run: Path) -> None:
    explorer = Explorer(small_run)
    for row in (-1, 240):
        with pytest.raises(InputError, match="there is no row"):
            explorer.node(row)
    with pytest.raises(InputError, match="there is no feature number 60"):
        attribute_rows(explorer.view, "feature", 60)
    with pytest.raises(InputError, match="there is no secret number 0"):
        attribute_rows(explorer.view, "secret", 0)


def test_report_demo_and_model_list_the_same_nodes_between_groups(
    small_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    view = RunView.of(small_run)
    listed = [str(i) for i in gh.load(small_run).boundary_nodes(20)["id"].to_pylist()]
    assert [row["id"] for row in contents.boundary_rows(view)] == listed[: contents._TOP_BOUNDARY]
    by_page = np.argsort(-view.result.between, kind="stable")  # how the explorer's table sorts
    assert [str(view.result.ids[int(r)]) for r in by_page[:20]] == listed
    graph = view.graph
    assert graph is not None
    demo._show(Screen(), view.run, graph)
    shown = capsys.readouterr().out.partition("Between groups")[2].splitlines()[1:6]
    assert [line.split()[0] for line in shown] == listed[:5]
    marked = {str(view.result.ids[int(r)]) for r in np.flatnonzero(view.is_boundary)}
    assert marked == set(listed[: len(marked)]) or len(marked) > 20
