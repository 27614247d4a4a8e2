"""Graphs from other libraries arrive whole, and go back."""

import re
import sys
from dataclasses import replace
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch

from graphham.datasets.open_source import as_graph
from graphham.errors import InputError
from graphham.graph.graph import Graph, Labels, build_graph
from graphham.graph.ids import NodeIds
from graphham.io import edge_table
from graphham.io.adapters import to_networkx, to_pyg


def pairs(graph: Graph) -> set[tuple[object, object]]:
    return {(graph.ids[a], graph.ids[b]) for a, b in graph.edge_list().tolist()}


def test_networkx() -> None:
    theirs = nx.Graph(name="friends")
    theirs.add_edge("ann", ("bob", 1), weight=2.5)
    theirs.add_edge("ann", "cid")
    theirs.add_edge("ann", "ann")
    theirs.add_node("lonely")
    graph = as_graph(theirs)
    assert graph.name == "friends"
    assert graph.ids.tolist() == ["ann", "('bob', 1)", "cid", "lonely"]
    assert graph.weights is not None
    assert graph.weights.tolist() == [2.5, 1.0, 2.5, 1.0]
    assert graph.report is not None
    assert (graph.report.isolated, graph.report.self_loops_dropped) == (1, 1)


def test_networkx_direction_and_integers() -> None:
    theirs = nx.DiGraph([(30, 10), (10, 20), (10, 30)])
    graph = as_graph(theirs)
    assert graph.directed
    assert graph.ids.tolist() == [30, 10, 20]
    assert pairs(graph) == {(30, 10), (10, 20), (10, 30)}
    assert as_graph(theirs, directed=False).num_edges == 2
    multi = nx.MultiGraph([(1, 2), (1, 2)])
    assert as_graph(multi).num_edges == 1
    with pytest.raises(InputError, match="'1'"):
        as_graph(nx.Graph([(1, "1")]))
    with pytest.raises(InputError, match=r"0 - 1 .*weight -1"):
        as_graph(nx.Graph([(0, 1, {"weight": -1})]))
    with pytest.raises(InputError, match=r"0 - 1 .*weight 1e\+39; .*scale"):
        as_graph(nx.Graph([(0, 1, {"weight": 10**39})]))
    with pytest.raises(InputError, match="NetworkX graph is not a number"):
        as_graph(nx.Graph([(0, 1, {"weight": 10**400})]))


def test_networkx_and_back() -> None:
    rng = np.random.default_rng(0)
    for directed in (False, True):
        graph = build_graph(
            rng.integers(0, 20, 50),
            rng.integers(0, 20, 50),
            20,
            ids=NodeIds([f"n{i}" for i in range(20)]),
            weights=rng.integers(1, 9, 50),
            directed=directed,
            labels=Labels(("x", "y"), codes=np.tile([0, 1, -1, 1], 5).astype(np.int32)),
        )
        made = to_networkx(graph)
        assert as_graph(made).fingerprint() == graph.fingerprint()
        assert made.nodes["n0"] == {"label": "x"}
        assert made.nodes["n2"] == {}


def test_scipy_matrices() -> None:
    dense = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 1]])
    for make in (sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.csr_array):
        graph = as_graph(make(dense))
        assert pairs(graph) == {(0, 1), (1, 2)}
        assert graph.weights is None
    one_way = sp.csr_matrix(np.array([[0, 3.0], [0, 0]]))
    assert as_graph(one_way, directed=True).indptr.tolist() == [0, 1, 1]
    both = as_graph(one_way)
    assert both.weights is not None
    assert both.weights.tolist() == [3, 3]
    with pytest.raises(InputError, match=r"\(2, 3\)"):
        as_graph(sp.csr_matrix((2, 3)))
    with pytest.raises(InputError, match="weight -1"):
        as_graph(sp.csr_matrix(np.array([[0, -1.0], [0, 0]])))
    with pytest.raises(InputError, match="no edges"):
        as_graph(sp.csr_matrix((4, 4)))


def pyg_like(**changes: object) -> SimpleNamespace:
    parts: dict[str, object] = {
        "edge_index": torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]),
        "x": torch.eye(4, requires_grad=True),
        "y": torch.tensor([2, -1, 0, 2]),
        "num_nodes": 4,
        "train_mask": torch.tensor([True, False, False, True]),
        "test_mask": torch.tensor([[False, True], [False, True], [True, True], [False, True]]),
    }
    return SimpleNamespace(**{**parts, **changes})


def test_pyg_data_by_attribute() -> None:
    graph = as_graph(pyg_like())
    assert "torch_geometric" not in sys.modules
    assert pairs(graph) == {(0, 1), (1, 2)}
    assert graph.num_nodes == 4
    assert graph.report is not None
    assert (graph.report.duplicates_merged, graph.report.isolated) == (0, 1)
    np.testing.assert_array_equal(graph.features, np.eye(4))
    assert graph.labels is not None
    assert graph.labels.values() == [2, None, 0, 2]
    assert {k: v.tolist() for k, v in graph.splits.items()} == {"train": [0, 3], "test": [2]}


def test_weights_beyond_single_precision_are_refused() -> None:
    for weight in (1e39, 1e-60):
        shown = re.escape(str(weight))
        with pytest.raises(InputError, match=f"weight {shown}; .*scale"):
            as_graph(sp.csr_matrix(np.array([[0, weight], [weight, 0]])))
        values = torch.full((4,), weight, dtype=torch.float64)
        with pytest.raises(InputError, match=f"weight {shown}; .*scale"):
            as_graph(pyg_like(edge_weight=values))


def test_pyg_weights_are_not_doubled() -> None:
    graph = as_graph(pyg_like(edge_weight=torch.tensor([0.5, 0.5, 2.0, 2.0])))
    assert graph.weights is not None
    assert graph.weights.tolist() == [0.5, 0.5, 2.0, 2.0]


def test_pyg_multi_label_and_bad_parts() -> None:
    many = as_graph(pyg_like(y=torch.tensor([[1, 1], [0, 0], [0, 1], [1, 0]])))
    assert many.labels is not None
    assert many.labels.values() == [[0, 1], None, [1], [0]]
    with pytest.raises(InputError, match="node 2, but there are 2 nodes"):
        as_graph(pyg_like(num_nodes=2))
    with pytest.raises(InputError, match=r"shape \(4, 2\)"):
        as_graph(pyg_like(edge_index=torch.zeros(4, 2, dtype=torch.long)))
    with pytest.raises(InputError, match="3 rows but the graph has 4 nodes"):
        as_graph(pyg_like(x=torch.eye(3)))


def test_edge_table_and_back() -> None:
    graph = build_graph(np.array([0, 2]), np.array([1, 1]), 3, ids=NodeIds(["x", "y", "z"]))
    assert pairs(as_graph(edge_table(graph))) == pairs(graph)


def test_to_pyg_without_pyg_says_what_is_needed() -> None:
    graph = build_graph(np.array([0]), np.array([1]), 2)
    try:
        import torch_geometric  # noqa: F401
    except ImportError:
        with pytest.raises(InputError, match="torch_geometric"):
            to_pyg(graph)


def test_to_pyg_carries_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for PyG's Data is enough to see what is handed over, and to read it back."""

    class Data(SimpleNamespace):
        def __setitem__(self, name: str, value: object) -> None:
            setattr(self, name, value)

    module = SimpleNamespace(Data=Data, __spec__=True)
    monkeypatch.setitem(sys.modules, "torch_geometric", SimpleNamespace(__spec__=True))
    monkeypatch.setitem(sys.modules, "torch_geometric.data", module)
    graph = as_graph(pyg_like(y=torch.tensor([1, -1, 0, 1])))
    data = to_pyg(graph)
    back = replace(as_graph(data), report=None)
    assert back.fingerprint() == graph.fingerprint()
    assert back.labels is not None
    assert graph.labels is not None
    assert back.labels.values() == graph.labels.values()
    assert {k: v.tolist() for k, v in back.splits.items()} == {"train": [0, 3], "test": [2]}
    assert data.node_id == [0, 1, 2, 3]


class _Elements(dict[str, list[object]]):
    """Vertices or edges of igraph: attributes by name."""

    def attributes(self) -> list[str]:
        return list(self)


class IgraphLike:
    """What the converter uses of igraph's Graph; the library is GPL and no dependency."""

    def __init__(self, edges: list[tuple[int, int]], count: int, directed: bool = False) -> None:
        self._edges, self._count, self._directed = edges, count, directed
        self.vs, self.es = _Elements(), _Elements()

    def vcount(self) -> int:
        return self._count

    def get_edgelist(self) -> list[tuple[int, int]]:
        return self._edges

    def is_directed(self) -> bool:
        return self._directed


def test_igraph_with_names_weights_and_what_is_not_read() -> None:
    given = IgraphLike([(0, 1), (2, 1)], 4)
    assert as_graph(given).ids.tolist() == [0, 1, 2, 3]
    given.vs["name"] = ["ann", "bob", "cy", "dee"]
    given.vs["age"] = [1, 2, 3, 4]
    given.es["weight"] = [2.0, None]
    given.es["since"] = [1, 2]
    graph = as_graph(given)
    assert pairs(graph) == {("ann", "bob"), ("bob", "cy")}
    assert graph.num_nodes == 4
    assert graph.weights is not None
    assert graph.weights.tolist() == [2, 2, 1, 1]
    assert graph.report is not None
    told = " ".join(graph.report.notes)
    assert "igraph graph's nodes were not read: age" in told
    assert "igraph graph's edges were not read: since" in told
    assert as_graph(IgraphLike([(1, 0)], 2, directed=True)).directed


def test_attributes_of_networkx_and_pyg_that_are_dropped_are_said() -> None:
    made = nx.Graph()
    made.add_node("a", colour="red")
    made.add_edge("a", "b", weight=2.0, kind="x")
    report = as_graph(made).report
    assert report is not None
    told = " ".join(report.notes)
    assert "nodes were not read: colour" in told
    assert "edges were not read: kind" in told
    report = as_graph(pyg_like(edge_attr=np.zeros((2, 3)), pos=np.zeros((3, 2)))).report
    assert report is not None
    told = " ".join(report.notes)
    assert "PyG data were not read" in told
    assert "edge_attr" in told
    assert "pos" in told
    assert as_graph(nx.path_graph(3)).report.notes == ()  # type: ignore[union-attr]


class HeteroLike(dict[object, SimpleNamespace]):
    """What the converter uses of PyG's HeteroData."""

    @property
    def edge_types(self) -> list[object]:
        return [key for key in self if isinstance(key, tuple)]

    @property
    def node_types(self) -> list[object]:
        return [key for key in self if not isinstance(key, tuple)]


def test_one_edge_type_of_hetero_data_is_chosen() -> None:
    cites, writes = ("paper", "cites", "paper"), ("author", "writes", "paper")
    data = HeteroLike(
        {
            "paper": SimpleNamespace(x=np.eye(3), y=np.array([0, 1, 0]), num_nodes=3),
            "author": SimpleNamespace(num_nodes=2),
            cites: SimpleNamespace(edge_index=np.array([[0, 1], [1, 2]])),
            writes: SimpleNamespace(edge_index=np.array([[0, 1, 1], [2, 0, 2]])),
        }
    )
    with pytest.raises(InputError, match=r"'cites'.*'writes'.*edge_type="):
        as_graph(data)
    papers = as_graph(data, edge_type=cites)
    assert pairs(papers) == {(0, 1), (1, 2)}
    assert papers.num_features == 3
    assert papers.labels is not None
    both = as_graph(data, edge_type="writes")
    assert both.ids.tolist() == ["author/0", "author/1", "paper/0", "paper/1", "paper/2"]
    assert pairs(both) == {
        ("author/0", "paper/2"),
        ("author/1", "paper/0"),
        ("author/1", "paper/2"),
    }
    assert both.report is not None
    assert "features were not read" in " ".join(both.report.notes)
    data["author"].x = np.ones((2, 3))
    assert as_graph(data, edge_type="writes").num_features == 3
