"""Tables about nodes: the id column is found, in any order and of any width."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.io import attach_features, attach_labels, read_graph
from tests.io.edge_files import ABC, path_of, put


def test_id_column_by_name(tmp_path: Path) -> None:
    file = put(tmp_path, "f.csv", "size,key\n1,b\n2,a\n3,c\n")
    graph = attach_features(ABC, file, id_column="key")
    np.testing.assert_array_equal(graph.features, [[2], [1], [3]])
    with pytest.raises(InputError, match=r"no id column 'node'; it has the columns size, key"):
        attach_features(ABC, file, id_column="node")


def test_id_column_meant_for_the_features_only(tmp_path: Path) -> None:
    edges = put(tmp_path, "e.csv", "source,target\na,b\nb,c\n")
    features = put(tmp_path, "f.csv", "v,node\n1,a\n2,b\n3,c\n")
    labels = put(tmp_path, "l.csv", "paper,kind\na,x\n")
    graph = read_graph(edges, features=features, labels=f"{labels}:kind", id_column="node")
    assert graph.labels is not None
    assert graph.labels.values() == ["x", None, None]
    np.testing.assert_array_equal(graph.features, [[1], [2], [3]])


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
        min_size=2,
        max_size=8,
        unique=True,
    ),
    st.randoms(use_true_random=False),
)
def test_any_ids_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, ids: list[str], random: object
) -> None:
    graph = path_of(*ids)
    order = list(range(len(ids)))
    random.shuffle(order)  # type: ignore[attr-defined]
    folder = tmp_path_factory.mktemp("any")
    table = pl.DataFrame({"id": [ids[i] for i in order], "v": order, "y": [f"c{i}" for i in order]})
    table.write_csv(folder / "t.csv", quote_style="always")
    table.write_parquet(folder / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        read = attach_labels(graph, f"{folder / name}:y")
        assert read.labels is not None
        assert read.labels.values() == [f"c{i}" for i in range(len(ids))]
        read = attach_features(graph, table.select("id", "v"))
        np.testing.assert_array_equal(read.features, np.arange(len(ids))[:, None])


def test_very_wide_rows(tmp_path: Path) -> None:
    """A line may be longer than what Python's csv module allows for one field."""
    width = 70_000
    rows = "".join(f"{name}{',1' * width}\n" for name in "abc")
    graph = attach_features(ABC, put(tmp_path, "w.csv", rows))
    assert graph.num_features == width
    spaced = put(tmp_path, "w.txt", rows.replace(",", " "))
    assert attach_features(ABC, spaced).num_features == width
