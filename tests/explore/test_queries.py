"""What the explorer answers, compared with the run and with slow reference code."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from graphham.errors import InputError
from graphham.explore.binary_columns import pack, unpack
from graphham.explore.guard import static_files
from graphham.explore.queries import Explorer
from graphham.explore.selection import inside_polygon
from graphham.explore.static_copy import MODULES, bundle, export_static
from graphham.results.run_folder import Run

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(
    arrays(np.float32, st.integers(0, 7), elements=st.floats(width=32, allow_nan=False)),
    arrays(np.uint16, st.integers(0, 7)),
    st.lists(texts, max_size=6),
    texts,
)
def test_columns_come_back_as_they_were_sent(numbers, codes, words, note) -> None:
    data = pack({"a": numbers, "w": words, "c": codes}, {"note": note})
    columns, header = unpack(data)
    assert header["note"] == note
    np.testing.assert_array_equal(columns["a"], numbers)
    np.testing.assert_array_equal(columns["c"], codes)
    assert columns["w"] == words
    start = 4 + int.from_bytes(data[:4], "little")
    assert start % 8 == 0  # a browser cannot read a float at an odd place
    assert all(c["offset"] % 8 == 0 for c in header["columns"])


@given(
    arrays(np.float32, st.tuples(st.integers(0, 30), st.just(2)), elements=st.integers(-9, 9)),
    st.lists(st.tuples(st.integers(-40, 40), st.integers(-40, 40)), min_size=3, max_size=9),
)
def test_a_lasso_holds_what_plain_counting_says(xy, corners) -> None:
    polygon = np.asarray(corners, dtype=float) / 4 + 0.0625  # no point lies on a side's height
    expected = []
    for row, (x, y) in enumerate(xy.tolist()):
        crossings = 0
        for (ax, ay), (bx, by) in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
            if min(ay, by) <= y < max(ay, by):
                crossings += x < ax + (bx - ax) * (y - ay) / (by - ay)
        if crossings % 2:
            expected.append(row)
    assert inside_polygon(xy, polygon).tolist() == expected


def test_what_is_chosen_comes_back_as_a_table(small_run: Path) -> None:
    explorer, run = Explorer(small_run, whole=100, sample=60), Run.open(small_run)
    assert explorer.selection().num_rows == 0
    codes = run.nodes["group_2"].to_numpy()
    assert explorer.choose({"group": "2-1"}) == int((codes == 1).sum())
    ids = np.asarray(run.nodes["id"].to_pylist())
    assert explorer.selection()["id"].to_pylist() == ids[codes == 1].tolist()
    # Of a large run every node counts, not only those that are drawn.
    assert explorer.choose({"lasso": "-99,-99;99,-99;99,99;-99,99"}) == 240
    kind = run.nodes["label"].to_pylist()
    assert explorer.choose({"attribute": "label:1"}) == kind.count("kind 1") > 0
    assert explorer.choose({}) == 0
    assert explorer.selection().num_rows == 0


def test_attentions_of_a_large_graph_wait_for_a_question(
    small_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from graphham.explore import attention_columns as attention

    quick = Explorer(small_run).node(3)["layers"]
    monkeypatch.setattr(attention, "QUICK", 100)
    explorer = Explorer(small_run)
    explorer.prepare()
    assert not explorer.attention.is_ready
    assert explorer.node(3, waits=False)["pending"]
    assert explorer.attention.join(timeout=60)
    assert explorer.node(3, waits=False)["layers"] == quick
    monkeypatch.setattr(attention, "_SHARE", 0.0)
    why = Explorer(small_run).overview()["attentionNote"]
    assert "240 nodes" in why
    assert "GiB" in why


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
    expected = node_attention(encoder.model, encoder.features.apply(graph), graph, row)
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


def test_an_unready_attention_does_not_hold_the_answer_up(small_run: Path) -> None:
    explorer = Explorer(small_run)
    first = explorer.node(3, waits=False)
    assert first["pending"]
    assert first["layers"] == []
    explorer.prepare()
    assert not explorer.node(3, waits=False)["pending"]


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


def test_a_group_is_exported_whole_even_if_a_sample_is_drawn(small_run: Path) -> None:
    explorer, run = Explorer(small_run, whole=100, sample=60), Run.open(small_run)
    table = explorer.table(explorer.group_rows("1-3"))
    assert table.num_rows == run.hierarchy.sizes[0][3]
    assert set(table["group_1"].to_pylist()) == {3}
    assert set(table["group_name_1"].to_pylist()) == {run.hierarchy.names[0][3]}


def test_rows_outside_the_run_are_refused(small_run: Path) -> None:
    explorer = Explorer(small_run)
    for row in (-1, 240):
        with pytest.raises(InputError, match="there is no row"):
            explorer.node(row)
    with pytest.raises(InputError, match="there is no feature number 60"):
        explorer.attribute_rows("feature", 60)
    with pytest.raises(InputError, match="there is no secret number 0"):
        explorer.attribute_rows("secret", 0)


def test_the_static_copy_is_written_whole_and_never_over_something(
    small_run: Path, tmp_path: Path
) -> None:
    folder = export_static(small_run, tmp_path / "copy")
    names = {p.name for p in folder.iterdir()}
    assert names == {"index.html", "app.css", "app.js", "data.js", "plotly.min.js"}
    page = (folder / "index.html").read_text()
    assert 'type="module"' not in page
    assert "://" not in page
    with pytest.raises(InputError, match="exists already"):
        export_static(small_run, folder)
    assert not [p for p in tmp_path.iterdir() if p.name != "copy"]


def test_modules_share_no_names_so_that_one_script_can_hold_them() -> None:
    import re

    pages = static_files()
    modules = {name: pages[name][0].decode() for name in MODULES}
    assert set(modules) == {n for n in pages if n.endswith(".js")} - {"plotly.min.js"}
    named = [
        name
        for text in modules.values()
        for name in re.findall(
            r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", text, re.M
        )
    ]
    assert len(named) == len(set(named))
    assert "import " not in re.sub(r"//.*", "", bundle(modules))
