"""Features are the columns the user means, and never the label under another roof."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.graph.store import open_store, write_store
from graphham.io import attach_features, attach_labels, read_graph

TABLE = "id,age,topic,town,weight\na,1,7,rome,2\nb,3,9,oslo,4\nc,5,7,rome,6\nd,8,9,,1\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "e.csv").write_text("a,b\nb,c\nc,d\n")
    (tmp_path / "n.csv").write_text(TABLE)
    return tmp_path / "e.csv", tmp_path / "n.csv"


def notes(graph: Graph) -> str:
    assert graph.report is not None
    return " | ".join(graph.report.notes)


def test_a_label_column_of_an_earlier_reading_is_no_feature(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    """Features first, as a store keeps them, then a label column of the very same table."""
    edges, nodes = files
    write_store(read_graph(edges, features=nodes), tmp_path / "store")
    stored = open_store(tmp_path / "store")
    assert stored.feature_names is not None
    assert "topic" in list(stored.feature_names)
    graph = attach_labels(stored, f"{nodes}:topic")
    assert graph.feature_names == ["age", "weight"]
    assert graph.features is not None
    np.testing.assert_array_equal(graph.features, [[1, 2], [3, 4], [5, 6], [8, 1]])
    assert "the feature topic is the label column, so it was left out" in notes(graph)


def test_a_feature_that_only_has_the_name_of_the_label_stays(files: tuple[Path, Path]) -> None:
    edges, nodes = files
    graph = attach_labels(
        read_graph(edges, features=nodes), (pa.table({"id": ["a", "b"], "age": [2, 3]}), "age")
    )
    assert graph.feature_names == ["age", "topic", "weight"]


def test_the_values_of_a_text_label_are_no_features_either(files: tuple[Path, Path]) -> None:
    edges, nodes = files
    graph = read_graph(edges, features=f"{nodes}:town,age")
    assert graph.feature_names == ["town=oslo", "town=rome", "age"]
    assert attach_labels(graph, f"{nodes}:town").feature_names == ["age"]


def test_a_graph_whose_only_feature_is_the_label_is_refused(files: tuple[Path, Path]) -> None:
    edges, nodes = files
    graph = read_graph(edges, features=f"{nodes}:topic")
    with pytest.raises(InputError, match=r"only feature of the graph is 'topic'.*--drop topic"):
        attach_labels(graph, f"{nodes}:topic")


def test_named_columns_come_in_the_order_given_and_text_as_zeros_and_ones(
    files: tuple[Path, Path],
) -> None:
    edges, nodes = files
    graph = read_graph(edges, features=f"{nodes}:weight,town")
    assert graph.feature_names == ["weight", "town=oslo", "town=rome"]
    assert graph.features is not None
    np.testing.assert_array_equal(graph.features, [[2, 0, 1], [4, 1, 0], [6, 0, 1], [1, 0, 0]])


def test_dropped_columns_are_left_out(files: tuple[Path, Path]) -> None:
    edges, nodes = files
    graph = attach_features(read_graph(edges), nodes, drop=("topic", "town"))
    assert graph.feature_names == ["age", "weight"]


def test_columns_of_arrays_are_chosen_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("0,1\n1,2\n")
    x = np.arange(9.0).reshape(3, 3)
    np.savez(tmp_path / "x.npz", x=x, names=np.array(["p", "q", "r"]))
    graph = read_graph(tmp_path / "e.csv", features=f"{tmp_path / 'x.npz'}:r,p")
    assert graph.feature_names == ["r", "p"]
    assert graph.features is not None
    np.testing.assert_array_equal(graph.features, x[:, [2, 0]])
    with pytest.raises(InputError, match="has no feature 's'; it has the columns p, q, r"):
        read_graph(tmp_path / "e.csv", features=f"{tmp_path / 'x.npz'}:s")


@pytest.mark.parametrize(
    ("columns", "labels", "drop", "told"),
    [
        ("age,topic", ":topic", (), "'topic' of .*n.csv is the label column"),
        ("id,age", None, (), "'id' of .*n.csv is the id column"),
        ("agee", None, (), "has no feature column 'agee'"),
        ("age,age", None, (), "names 'age' twice"),
        (None, None, ("agee",), "has no feature column 'agee'"),
        ("age", None, ("age",), "no column of .*n.csv is left"),
    ],
)
def test_columns_that_cannot_be_meant(
    files: tuple[Path, Path],
    columns: str | None,
    labels: str | None,
    drop: tuple[str, ...],
    told: str,
) -> None:
    edges, nodes = files
    source = str(nodes) if columns is None else f"{nodes}:{columns}"
    with pytest.raises(InputError, match=told):
        attach_features(
            read_graph(edges),
            source,
            labels=None if labels is None else f"{nodes}{labels}",
            drop=drop,
        )


def test_a_text_column_of_many_values_is_refused(files: tuple[Path, Path]) -> None:
    edges, _ = files
    count = 300
    frame = pa.table(
        {"id": [f"n{i}" for i in range(count)], "who": [f"w{i}" for i in range(count)]}
    )
    with pytest.raises(InputError, match="'who' of feature frame has 300 different texts"):
        attach_features(read_graph(edges), (frame, "who"), isolated=True)
