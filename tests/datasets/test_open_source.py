"""Whatever a user calls a graph is opened in one place."""

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from graphham.datasets.open_source import as_graph
from graphham.errors import InputError
from graphham.graph.graph import Graph, build_graph
from graphham.graph.store import write_store


def pairs(graph: Graph) -> set[tuple[object, object]]:
    return {(graph.ids[a], graph.ids[b]) for a, b in graph.edge_list().tolist()}


def test_a_graph_is_returned_as_it_is() -> None:
    graph = build_graph(np.array([0]), np.array([1]), 2)
    assert as_graph(graph) is graph
    with pytest.raises(InputError, match="undirected already"):
        as_graph(graph, directed=True)


def test_paths_stores_and_dataset_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "e.csv").write_text("a,b\nb,c\n")
    graph = as_graph(tmp_path / "e.csv")
    assert pairs(graph) == pairs(as_graph(str(tmp_path / "e.csv"))) == {("a", "b"), ("b", "c")}
    write_store(graph, tmp_path / "store")
    assert pairs(as_graph(str(tmp_path / "store"))) == pairs(graph)
    with pytest.raises(InputError, match="did you mean 'cora'"):
        as_graph("coraa")
    with pytest.raises(InputError, match=r"missing\.csv does not exist"):
        as_graph("missing.csv")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cora").write_text("a,b\n")
    assert as_graph("cora").num_nodes == 2708
    assert as_graph("./cora").num_nodes == 2


def test_frames_agree() -> None:
    columns = {"from": ["b", "a"], "to": ["a", "c"], "note": [1, 2]}
    expected = {("b", "a"), ("a", "c")}
    frames = [
        pa.table(columns),
        pa.record_batch(columns),
        pl.DataFrame(columns),
        pl.DataFrame(columns).with_columns(pl.col("from").cast(pl.Categorical)),
        pd.DataFrame(columns, index=[7, 9]),
        pd.DataFrame(columns).astype({"from": "category"}),
    ]
    for frame in frames:
        graph = as_graph(frame)
        assert pairs(graph) == expected, type(frame)
        assert graph.ids.tolist() == ["b", "a", "c"]
    numbers = pd.DataFrame({"s": [5, 6], "t": [6, 7]})
    assert as_graph(numbers).ids.tolist() == [5, 6, 7]
    with pytest.raises(InputError, match=r"row 2 .*'s'"):
        as_graph(pd.DataFrame({"s": ["a", None], "t": ["b", "c"]}))
    with pytest.raises(InputError, match="needs two"):
        as_graph(pl.DataFrame({"s": [1]}))


def test_parts_given_beside_are_attached() -> None:
    frame = pl.DataFrame({"s": ["a", "b"], "t": ["b", "c"]})
    looks = pl.DataFrame({"id": ["c", "a", "b"], "size": [3, 1, 2]})
    graph = as_graph(frame, features=looks, labels={"b": "x", "a": None})
    np.testing.assert_array_equal(graph.features, [[1], [2], [3]])
    assert graph.labels is not None
    assert graph.labels.values() == [None, "x", None]
    graph = as_graph(frame, features=np.eye(3), labels=[1, 2, None])
    assert graph.labels is not None
    assert graph.labels.values() == [1, 2, None]
    with pytest.raises(InputError, match="2 labels for 3 nodes"):
        as_graph(frame, labels=[1, 2])


def test_unknown_objects_are_named() -> None:
    with pytest.raises(InputError, match="a dict is not a graph"):
        as_graph({"a": ["b"]})
