"""Edges as people have them in a notebook: arrays, lists of tuples, lazy frames."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from graphham import as_graph
from graphham.errors import InputError
from graphham.graph.graph import Graph


def pairs(graph: Graph) -> set[frozenset[Any]]:
    return {frozenset((graph.ids[a], graph.ids[b])) for a, b in graph.edge_list().tolist()}


PATH = {frozenset((10, 20)), frozenset((20, 35)), frozenset((35, 40)), frozenset((40, 50))}
ENDS = [(10, 20), (20, 35), (35, 40), (40, 50)]


@pytest.mark.parametrize(
    "edges",
    [ENDS, np.array(ENDS), np.array(ENDS).T, np.array(ENDS, dtype=float), set(ENDS), tuple(ENDS)],
    ids=["list", "rows", "edge_index", "floats", "set", "tuple"],
)
def test_the_same_path_in_any_form(edges: Any) -> None:
    graph = as_graph(edges)
    assert pairs(graph) == PATH
    assert graph.ids.tolist() == [10, 20, 35, 40, 50]


def test_text_and_mixed_ids_are_text() -> None:
    assert as_graph([("a", "b"), ("b", 3)]).ids.tolist() == ["a", "b", "3"]
    assert pairs(as_graph(np.array([["x", "y"], ["y", "z"]]))) == {
        frozenset("xy"),
        frozenset("yz"),
    }


def test_a_third_column_is_the_weight() -> None:
    for edges in ([(1, 2, 0.5), (2, 3, 4)], np.array([[1, 2, 0.5], [2, 3, 4]])):
        graph = as_graph(edges)
        assert graph.weights is not None
        assert graph.weights.tolist() == [0.5, 0.5, 4, 4]
        assert graph.ids.tolist() == [1, 2, 3]


def test_a_lazy_frame_is_collected_and_unread_columns_are_named() -> None:
    lazy = pl.LazyFrame({"s": ["a", "b"], "t": ["b", "c"], "year": [1, 2]})
    graph = as_graph(lazy)
    assert graph.num_edges == 2
    assert graph.report is not None
    assert "columns of the edge frame were not read: year" in graph.report.notes
    x = pl.LazyFrame({"id": ["a", "b", "c"], "v": [1, 2, 3]})
    assert as_graph(lazy, features=x).feature_names == ["v"]


@pytest.mark.parametrize(
    ("edges", "told"),
    [
        (np.eye(5), r"adjacency matrix goes through scipy\.sparse"),
        (np.zeros((3, 4, 2)), "shape"),
        ([], "empty"),
        ([(1, 2), (3,)], r"item 1 of the list of edges is \(3,\)"),
        ([(1, 2), 7], "item 1 of the list of edges is 7"),
        ([(1, None)], "edge 0 has no id"),
        ([(1, 2, "heavy")], "third column"),
        (np.array([[True, False]]), "not bool"),
        ([(1, 2, -1.0)], "above 0"),
    ],
)
def test_what_is_no_list_of_edges(edges: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        as_graph(edges)
