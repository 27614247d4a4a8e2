"""The table of links: read back by another library and compared with what the network says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

import graphham as gh
from graphham.cli import main
from graphham.graph.planted import planted_hierarchy
from graphham.results import edge_export
from graphham.results.edge_export import link_spans
from graphham.results.encoder import Encoder, node_attention
from graphham.results.export import export_run
from graphham.results.formats import format_of
from graphham.results.run_writer import start_run
from tests.outputs import make_graph, make_result


def weighted(graph):
    rows = np.repeat(np.arange(graph.num_nodes), graph.degrees())
    return replace(graph, weights=(1 + (rows + graph.indices) % 5).astype(np.float32))


@pytest.fixture(scope="module", params=["plain", "weighted"])
def fitted(request, tmp_path_factory):
    graph = planted_hierarchy((2, 3), 150, words=60, word_on=0.4, seed=1).graph
    if request.param == "weighted":
        graph = weighted(graph)
    model = gh.GraphHAM(groups=(6, 2), dim=16, epochs=2, seed=0).fit(graph)
    return model.save(tmp_path_factory.mktemp("edges") / "run"), graph


def test_attentions_are_those_of_each_node(fitted, tmp_path: Path, monkeypatch) -> None:
    run, graph = fitted
    whole = pq.read_table(export_run(run, tmp_path / "a", "edges").path)
    monkeypatch.setattr(edge_export, "_CHUNK", 97)
    parts = pq.read_table(export_run(run, tmp_path / "b", "edges").path)
    names = [
        f"{kind}_{i}" for i in (1, 2) for kind in ("node_attention", "group_attention", "weight")
    ]
    assert parts.column_names == ["source", "target", *names, "surprise"]
    assert parts.num_rows == graph.num_stored
    for name in names:
        np.testing.assert_allclose(parts[name].to_numpy(), whole[name].to_numpy(), atol=1e-6)
    encoder = Encoder.from_run(run)
    inputs = encoder.inputs_of(graph, graph.ids)
    table = pl.from_arrow(parts)
    for row in (0, 7, 149):
        shown = table.filter(pl.col("source") == graph.ids[row])
        assert shown["target"].to_list() == [graph.ids[j] for j in graph.neighbors(row).tolist()]
        for i, one in enumerate(node_attention(encoder.model, inputs, graph, row), start=1):
            is_other = one.neighbor_rows != row
            np.testing.assert_allclose(
                shown[f"node_attention_{i}"], one.node_attention[is_other], atol=1e-6
            )
            np.testing.assert_allclose(
                shown[f"group_attention_{i}"], one.group_attention[is_other], atol=1e-6
            )
            np.testing.assert_allclose(shown[f"weight_{i}"], one.weight[is_other], atol=1e-6)


def test_links_between_groups_are_more_surprising(fitted, tmp_path: Path) -> None:
    run, graph = fitted
    table = pl.read_parquet(export_run(run, tmp_path / "x.parquet", "edges").path)
    label = dict(zip(graph.ids.tolist(), graph.labels.codes.tolist(), strict=True))
    same = table["source"].replace_strict(label) == table["target"].replace_strict(label)
    assert table.filter(same)["surprise"].mean() < 0 < table.filter(~same)["surprise"].mean()
    # Both ends of an undirected link are equally surprised.
    back = table.select(source="target", target="source", other="surprise")
    both = table.join(back, on=["source", "target"])
    assert len(both) == len(table)
    np.testing.assert_allclose(both["surprise"], both["other"], atol=1e-4)


def test_what_a_run_lacks_is_left_out_and_said(tmp_path: Path) -> None:
    result = make_result(12, ids=[f"n{i}" for i in range(12)])
    graph = make_graph(result)
    run = start_run(tmp_path / "run", {"seed": 1}).finish(result, {}, graph, {})
    made = export_run(run, tmp_path / "x", "edges")
    table = pq.read_table(made.path)
    assert table.column_names == ["source", "target", "surprise"]
    assert table.num_rows == graph.num_stored
    assert len(made.notes) == 1
    assert "no attentions" in made.notes[0]
    assert np.isfinite(table["surprise"].to_numpy()).all()


def test_only_the_format_by_name_asks_for_links(fitted, tmp_path: Path, capsys) -> None:
    run, graph = fitted
    assert format_of(Path("links.parquet")) == "parquet"
    out = tmp_path / "links.parquet"
    assert main(["export", str(run.path), "--format", "edges", "--out", str(out)]) == 0
    assert "links.parquet (edges)" in capsys.readouterr().out.replace("\n", "")
    assert pq.read_metadata(out).num_rows == graph.num_stored


def test_spans_hold_few_links_and_miss_no_row() -> None:
    graph = planted_hierarchy((2, 3), 150, seed=1).graph
    spans = list(link_spans(graph, 40))
    assert [s[0] for s in spans] == [0, *(s[1] for s in spans[:-1])]
    assert spans[-1][1] == 150
    for first, last in spans:
        assert last == first + 1 or graph.indptr[last] - graph.indptr[first] <= 40
    assert list(link_spans(graph)) == [(0, 150)]
