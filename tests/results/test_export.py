import csv
import io
import itertools
import shutil
import sys
import types
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.graph.ids import NodeIds
from graphham.results.export import export_run, to_pyg
from graphham.results.formats import FORMATS
from graphham.results.run_writer import Run, start_run
from tests.outputs import HOSTILE, make_graph, make_result

FILES = [name for name, form in FORMATS.items() if not form.is_folder]


def make_run(folder: Path, ids=HOSTILE, **parts) -> tuple[Run, Graph]:
    kind = parts.pop("labels", "text")
    result = make_result(len(ids), ids=ids, labels=kind, classify=kind != "none")
    graph = make_graph(result, **parts)
    return start_run(folder / "run", {"seed": 1}).finish(result, {}, graph, {}), graph


def test_parquet_carries_everything(tmp_path: Path) -> None:
    run, _ = make_run(tmp_path)
    made = export_run(run, tmp_path / "x.parquet", "parquet")
    assert made.notes == ()
    table = pq.read_table(made.path)
    assert table.column_names[:5] == ["id", "embedding", "group_1", "group_1_name", "strength_1"]
    assert table.column("id").to_pylist() == HOSTILE
    np.testing.assert_array_equal(np.array(table.column("embedding").to_pylist()), run.embedding)
    assert pl.read_parquet(made.path)["group_1"].to_list() == table.column("group_1").to_pylist()


def test_csv_can_be_read_by_other_tools(tmp_path: Path) -> None:
    run, _ = make_run(tmp_path)
    path = export_run(run, tmp_path / "x.csv", "csv").path
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0][:10] == ["id", *(f"dim_{i}" for i in range(8)), "group_1"]
    assert [r[0] for r in rows[1:]] == HOSTILE
    vectors = np.array([r[1:9] for r in rows[1:]], dtype=np.float32)
    np.testing.assert_array_equal(vectors, run.embedding)
    assert [int(r[9]) for r in rows[1:]] == run.nodes.column("group_1").to_pylist()
    assert pl.read_csv(path)["id"].fill_null("").to_list() == HOSTILE
    whole = pd.read_csv(path, keep_default_na=False, lineterminator="\n")
    assert len(whole) == len(HOSTILE)


def read_word2vec(path: Path) -> tuple[list[str], np.ndarray]:
    """Read it as gensim does: bytes, lines, blanks."""
    first, *lines = path.read_bytes().rstrip(b"\n").split(b"\n")
    count, dim = map(int, first.split())
    parts = [line.decode().rstrip().split(" ") for line in lines]
    assert len(parts) == count
    assert all(len(p) == dim + 1 for p in parts)
    return [p[0] for p in parts], np.array([p[1:] for p in parts], dtype=np.float32)


def test_word2vec_replaces_blanks_and_keeps_ids_apart(tmp_path: Path) -> None:
    run, _ = make_run(tmp_path)
    made = export_run(run, tmp_path / "x.txt", "word2vec")
    tokens, vectors = read_word2vec(made.path)
    np.testing.assert_array_equal(vectors, run.embedding)
    assert len(set(tokens)) == len(HOSTILE)
    by_id = dict(zip(HOSTILE, tokens, strict=True))
    assert by_id["plain"] == "plain"
    assert by_id["two_words"] == "two_words"  # an id that needs no change keeps its name
    assert {by_id["two words"], by_id["two\twords"]} == {"two_words_2", "two_words_3"}
    assert by_id[""] == "_"
    changed = sum(a != b for a, b in by_id.items())
    assert made.notes == (
        f"{changed} ids have blanks or control characters, written as underscores",
    )


@settings(max_examples=30)
@given(st.lists(st.text(alphabet="a_ 2\n", max_size=5), min_size=1, max_size=12, unique=True))
def test_word2vec_tokens_are_always_distinct(tmp_path_factory, ids: list[str]) -> None:
    folder = tmp_path_factory.mktemp("w")
    run, _ = make_run(folder, ids=NodeIds(ids).to_arrow())
    tokens, _ = read_word2vec(export_run(run, folder / "x.txt", "word2vec").path)
    assert len(set(tokens)) == len(ids)


@settings(max_examples=40)
@given(st.lists(st.text(max_size=12), min_size=2, max_size=12, unique=True), st.booleans())
def test_graphml_reads_back_any_ids(tmp_path_factory, ids: list[str], weighted: bool) -> None:
    folder = tmp_path_factory.mktemp("g")
    run, graph = make_run(folder, ids=NodeIds(ids).to_arrow())
    if weighted:
        graph = replace(graph, weights=(graph.indices + 1).astype(np.float32) * 0 + np.float32(2.5))
    back = nx.read_graphml(export_run(run, folder / "x.graphml", "graphml", graph).path)
    assert len(back) == len(ids)
    assert back.number_of_edges() == graph.num_edges
    forbidden = {chr(c) for c in range(32)} - set("\t\n\r") | {"\ufffe", "\uffff"}
    if not any(set(i) & forbidden for i in ids):
        assert list(back) == ids
        for a, b in graph.edge_list().tolist():
            assert back.has_edge(ids[a], ids[b])
    if weighted:
        assert all(w == 2.5 for *_, w in back.edges(data="weight"))


def test_graphml_attributes_and_hostile_text(tmp_path: Path) -> None:
    titles = [f"{h}\n<b>" for h in HOSTILE]
    run, graph = make_run(tmp_path, titles=titles)
    made = export_run(run, tmp_path / "x.graphml", "graphml", graph)
    back = nx.read_graphml(made.path)
    nodes = list(back)
    assert len(nodes) == len(HOSTILE)
    assert made.notes == ("4 ids have characters that XML forbids, written as \ufffd",)
    labels = run.nodes.column("label").to_pylist()
    for i, (node, original) in enumerate(zip(nodes, HOSTILE, strict=True)):
        about = back.nodes[node]
        if "\ufffd" not in node:
            assert node == original
            assert about["title"] == titles[i]
        group = run.nodes.column("group_2")[i].as_py()
        assert about["group_2"] == group
        assert about["group_2_name"] == run.hierarchy.names[1][group]
        assert about.get("label") == labels[i]
        assert about["prediction"] == run.nodes.column("prediction")[i].as_py()


@pytest.mark.parametrize("labels", ["integer", "multi", "none"])
def test_graphml_of_other_labels_and_directed_edges(tmp_path: Path, labels: str) -> None:
    run, graph = make_run(tmp_path, ids=np.array([5, 3, 99, 2**40]), labels=labels, directed=True)
    back = nx.read_graphml(export_run(run, tmp_path / "x", "graphml", graph).path, node_type=int)
    assert back.is_directed()
    ids = graph.ids.tolist()
    assert set(back.edges()) == {(ids[a], ids[b]) for a, b in graph.edge_list().tolist()}
    values = run.result().labels.values() if labels != "none" else [None] * 4
    for node, value in zip(ids, values, strict=True):
        expected = "; ".join(value) if isinstance(value, list) else value
        assert back.nodes[node].get("label") == expected


@pytest.mark.parametrize("labels", ["text", "multi"])
def test_the_pyg_file_needs_numpy_only(tmp_path: Path, labels: str) -> None:
    splits = {"train": np.array([0, 3])}
    run, graph = make_run(tmp_path, labels=labels, splits=splits)
    path = export_run(run, tmp_path / "x.npz", "pyg", graph).path
    with np.load(path, allow_pickle=False) as z:
        found = dict(z.items())
    adjacency = sp.coo_matrix(
        (np.ones(graph.num_stored), tuple(found["edge_index"])), shape=(graph.num_nodes,) * 2
    )
    assert (adjacency.tocsr() != (graph.adjacency() > 0)).nnz == 0
    np.testing.assert_array_equal(found["x"], graph.features.toarray())
    np.testing.assert_array_equal(found["embedding"], run.embedding)
    np.testing.assert_array_equal(found["group_1"], run.nodes.column("group_1").to_numpy())
    np.testing.assert_array_equal(found["membership_2"], run.result().memberships[1])
    assert np.flatnonzero(found["train_mask"]).tolist() == [0, 3]
    text, at = bytes(found["ids_utf8"]), found["ids_offsets"]
    assert [text[a:b].decode() for a, b in itertools.pairwise(at)] == HOSTILE
    if labels == "text":
        np.testing.assert_array_equal(found["y"], graph.labels.codes)
    else:
        np.testing.assert_array_equal(found["y"], graph.labels.matrix.toarray())


def test_large_sparse_features_stay_sparse(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("graphham.results.export._DENSE_BYTES", 10)
    run, graph = make_run(tmp_path, ids=np.arange(20))
    made = export_run(run, tmp_path / "x.npz", "pyg", graph)
    assert "CSR" in made.notes[0]
    with np.load(made.path) as z:
        x = sp.csr_matrix((z["x_data"], z["x_indices"], z["x_indptr"]), shape=z["x_shape"])
        assert z["ids"].tolist() == list(range(20))
    assert (x != graph.features).nnz == 0


def test_to_pyg_fills_a_data_object(tmp_path: Path, monkeypatch) -> None:
    run, graph = make_run(tmp_path)
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    monkeypatch.setitem(sys.modules, "torch_geometric.data", None)
    with pytest.raises(InputError, match="torch_geometric is not installed"):
        to_pyg(run, graph)
    stand_in = types.ModuleType("torch_geometric.data")
    stand_in.Data = types.SimpleNamespace
    monkeypatch.setitem(sys.modules, "torch_geometric.data", stand_in)
    data = to_pyg(run, graph)
    assert data.edge_index.shape == (2, graph.num_stored)
    assert data.node_ids == HOSTILE
    np.testing.assert_array_equal(data.embedding.numpy(), run.embedding)
    monkeypatch.setattr("graphham.results.export._DENSE_BYTES", 10)
    np.testing.assert_array_equal(to_pyg(run, graph).x.to_dense().numpy(), data.x.numpy())


@pytest.mark.parametrize("kind", FORMATS)
def test_no_file_is_ever_replaced(tmp_path: Path, kind: str) -> None:
    run, graph = make_run(tmp_path, ids=np.arange(10))
    out = tmp_path / "mine"
    out.write_text("precious")
    with pytest.raises(InputError, match="exists already"):
        export_run(run, out, kind, graph)
    assert out.read_text() == "precious"
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="exists already"):
        export_run(run, tmp_path / "folder", kind, graph)
    with pytest.raises(InputError, match="cannot write"):
        export_run(run, out / "below", kind, graph)
    export_run(run, tmp_path / "new" / "deep", kind, graph)
    assert {p.name for p in tmp_path.iterdir()} == {"run", "mine", "folder", "new"}
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["deep"]


def test_a_failed_export_leaves_nothing(tmp_path: Path, monkeypatch) -> None:
    run, _ = make_run(tmp_path, ids=np.arange(10))

    def broken(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.write_table", broken)
    with pytest.raises(InputError, match="No space"):
        export_run(run, tmp_path / "x.parquet", "parquet")
    assert {p.name for p in tmp_path.iterdir()} == {"run"}


@pytest.mark.parametrize("form", ["graphml", "pyg"])
def test_the_graph_that_a_run_holds_need_not_be_given(tmp_path: Path, form: str) -> None:
    run, graph = make_run(tmp_path, ids=np.arange(10))
    given = export_run(run, tmp_path / "given", form, graph).path.read_bytes()
    assert export_run(run, tmp_path / "held", form).path.read_bytes() == given


def test_what_cannot_be_exported_is_said(tmp_path: Path) -> None:
    run, graph = make_run(tmp_path, ids=np.arange(10))
    with pytest.raises(InputError, match=r"'graphlm' \(did you mean 'graphml'\?\)"):
        export_run(run, tmp_path / "x", "graphlm")
    other = replace(graph, ids=NodeIds([str(i) for i in range(10)]))
    with pytest.raises(InputError, match="not the one the run"):
        export_run(run, tmp_path / "x", "pyg", other)
    shutil.rmtree(run.path / "graph")
    for form in ("graphml", "pyg"):
        with pytest.raises(InputError, match="does not hold its graph; give the graph of the run"):
            export_run(run, tmp_path / "x", form)
    assert not (tmp_path / "x").exists()


def test_chunks_join_without_a_seam(tmp_path: Path, monkeypatch) -> None:
    run, graph = make_run(tmp_path, ids=np.arange(50) * 3)
    whole = {k: export_run(run, tmp_path / f"a.{k}", k, graph).path.read_bytes() for k in FILES}
    monkeypatch.setattr("graphham.results.export._CHUNK", 7)
    for kind in ("csv", "word2vec", "graphml"):
        assert export_run(run, tmp_path / f"b.{kind}", kind, graph).path.read_bytes() == whole[kind]
    assert io.BytesIO(whole["csv"]).readline().startswith(b'"id","dim_0"')


def test_the_two_lines_of_the_docs_load_a_pyg_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run the loader that the page shows, on a stand-in where PyG is not installed."""
    import torch

    page = Path(__file__).parents[2] / "docs" / "howto" / "export.md"
    code = page.read_text("utf-8").split("```python\n")[1].split("```")[0]
    assert len(code.strip().splitlines()) == 2
    run, graph = make_run(tmp_path, labels="numbers")
    export_run(run, tmp_path / "cora.npz", "pyg", graph)
    monkeypatch.chdir(tmp_path)
    stand_in = types.SimpleNamespace(data=types.SimpleNamespace(Data=types.SimpleNamespace))
    names = {"torch": torch, "numpy": np, "torch_geometric": stand_in}
    exec(code, names)
    data = names["data"]
    np.testing.assert_array_equal(data.embedding, run.embedding)
    assert data.edge_index.shape == (2, graph.num_stored)
    assert data.prediction.dtype == torch.int64
    assert not any(name.startswith("ids") for name in vars(data))
