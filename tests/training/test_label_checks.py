"""Whether neighbours agree is counted, and decides what few labels are worth."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from experiments.planted_cases import planted_graph
from graphham.config.settings import InputConfig, make_config
from graphham.datasets.open_source import as_graph
from graphham.graph.graph import Graph, Labels
from graphham.training.label_checks import link_agreement, link_information, links_tell
from graphham.training.plan import plan_fit
from graphham.training.supervision import Truth


def ring(same: bool, nodes: int = 300) -> Graph:
    """Make a ring whose labels come in long runs, or alternate."""
    at = np.arange(nodes)
    codes = (at * 4 // nodes if same else at % 4).astype(np.int32)
    links = sp.coo_matrix((np.ones(nodes, "f4"), (at, (at + 1) % nodes)), (nodes, nodes)).tocsr()
    x = np.random.default_rng(0).standard_normal((nodes, 8)).astype(np.float32)
    graph = as_graph(links + links.T)
    return replace(graph, features=x, labels=Labels((0, 1, 2, 3), codes=codes))


@pytest.mark.parametrize(("same", "share"), [(True, 1 - 4 / 300), (False, 0.0)])
def test_the_share_is_that_of_plain_counting(same: bool, share: float) -> None:
    graph = ring(same)
    found = link_agreement(graph, Truth.split(graph.labels, 0, 0.3))
    assert found is not None
    assert found[0] == pytest.approx(share)
    assert found[1] == pytest.approx((share * (1 - share) / 300) ** 0.5)


def test_labels_nobody_may_see_are_not_counted() -> None:
    graph = ring(True)
    train, held = np.arange(0, 40), np.arange(40, 60)
    truth = Truth.split(graph.labels, 0, 0.1, train, held)
    found = link_agreement(graph, truth)
    assert found is not None
    assert found[0] == 1.0  # the first sixty nodes are one run
    codes = np.asarray(graph.labels.codes).copy()
    codes[60:] = np.arange(len(codes) - 60) % 4
    other = replace(graph, labels=Labels((0, 1, 2, 3), codes=codes))
    assert link_agreement(other, Truth.split(other.labels, 0, 0.1, train, held)) == found


def test_too_few_links_say_nothing() -> None:
    graph = ring(True)
    truth = Truth.split(graph.labels, 0, 0.1, np.arange(0, 300, 7), np.arange(3, 300, 7))
    assert link_agreement(graph, truth) is None


def test_several_labels_agree_with_one_in_common() -> None:
    graph = ring(True)
    both = np.ones((300, 2), dtype=np.int8)
    both[::2, 0] = 0
    labels = Labels(("a", "b"), matrix=sp.csr_matrix(both))
    found = link_agreement(replace(graph, labels=labels), Truth.split(labels, 0, 0.3))
    assert found is not None
    assert found[0] == 1.0


@pytest.mark.parametrize("directed", [False, True])
def test_a_link_tells_what_the_labels_of_its_ends_share(directed: bool) -> None:
    """Two classes in alternation share all of an end's label, drawn ones nothing but chance."""
    draw = np.random.default_rng(3)
    nodes, links = 2000, 8000
    ends = draw.integers(nodes // 2, size=(2, links)) * 2 + [[0], [1]]
    matrix = sp.coo_matrix((np.ones(links, "f4"), tuple(ends)), (nodes, nodes)).tocsr()
    graph = as_graph(matrix if directed else matrix + matrix.T, directed=directed)
    if directed:  # both directions, else the label of a source is known beforehand
        graph = as_graph(matrix[:, draw.permutation(nodes)], directed=True)
    drawn = Labels((0, 1, 2), codes=draw.integers(3, size=nodes).astype(np.int32))
    chance = link_information(graph, Truth.split(drawn, 0, 0.3))
    assert abs(chance) < 3 * 4 / links
    if not directed:
        turns = Labels((0, 1), codes=(np.arange(nodes) % 2).astype(np.int32))
        found = link_information(graph, Truth.split(turns, 0, 0.3))
        assert found == pytest.approx(np.log(2), abs=1e-3)


def test_links_fewer_than_kinds_of_links_leave_it_open() -> None:
    draw = np.random.default_rng(0)
    ends = draw.integers(400, size=(2, 150))
    matrix = sp.coo_matrix((np.ones(150, "f4"), tuple(ends)), (400, 400)).tocsr()
    graph = as_graph(matrix + matrix.T)
    labels = Labels(tuple(range(40)), codes=draw.integers(40, size=400).astype(np.int32))
    assert link_information(graph, Truth.split(labels, 0, 0.3)) == float("inf")


@pytest.mark.parametrize(
    ("shuffled", "rewired", "tells"),
    [(False, False, True), (False, True, False), (True, True, False), (True, False, False)],
)
def test_links_tell_where_classes_depend_on_each_other(
    shuffled: bool, rewired: bool, tells: bool
) -> None:
    """Labels dealt out anew, or links, leave nothing; features still know the classes of half."""
    graph, _ = planted_graph("partners", 4)
    assert graph.labels is not None
    draw = np.random.default_rng(0)
    n = graph.num_nodes
    if rewired:
        edges = draw.integers(n, size=(2, graph.num_stored // 2))
        matrix = sp.coo_matrix((np.ones(edges.shape[1], "f4"), tuple(edges)), (n, n)).tocsr()
        made = as_graph(matrix + matrix.T)
        graph = replace(graph, indptr=made.indptr, indices=made.indices, weights=None)
    if shuffled:
        codes = draw.permutation(graph.labels.codes).astype(np.int32)
        graph = replace(graph, labels=Labels(graph.labels.classes, codes=codes))
    truth = Truth.split(graph.labels, 0, 0.2)
    assert links_tell(graph, InputConfig(scaling="standard"), truth, 0) is tells
    plan = plan_fit(graph, make_config({"task": "classify"}))
    assert any("links say nothing" in note for note in plan.notes) is not tells
    # A handful of labels cannot say so.
    few = Truth.split(graph.labels, 0, 0.5, np.arange(0, n, 100))
    assert links_tell(graph, InputConfig(scaling="standard"), few, 0)


@pytest.mark.parametrize("case", ["heterophilous", "homophilous"])
def test_scores_are_not_spread_where_neighbours_differ(case: str) -> None:
    graph, _ = planted_graph(case, 0)
    rows = np.arange(0, graph.num_nodes, 12)
    config = make_config({"task": "classify", "groups": (12, 3)})
    plan = plan_fit(graph, config, rows, np.arange(1, graph.num_nodes, 5))
    assert plan.config.model.class_steps == 0
    assert any("join equal ones" in note for note in plan.notes)
    asked = make_config({"task": "classify", "groups": (12, 3), "model.class_steps": 4})
    given = plan_fit(graph, asked, rows, np.arange(1, graph.num_nodes, 5))
    assert given.config.model.class_steps == 4


@pytest.mark.parametrize(
    ("name", "tells"), [("copied", True), ("copied-directed", True), ("homophilous", False)]
)
def test_who_the_neighbours_are_is_asked_where_nodes_copy(name: str, tells: bool) -> None:
    graph, _ = planted_graph(name, 11)
    plan = plan_fit(graph, make_config({"task": "classify"}))
    assert plan.config.inputs.link_rows is tells
    assert any("who the neighbours are" in note for note in plan.notes) is tells
    if tells:
        assert plan.config.model.residual


def test_labels_that_links_know_nothing_of_do_not_make_inputs_of_them() -> None:
    graph, _ = planted_graph("copied", 11)
    assert graph.labels is not None
    codes = np.random.default_rng(0).permutation(graph.labels.codes).astype(np.int32)
    mixed = replace(graph, labels=Labels(graph.labels.classes, codes=codes))
    assert not plan_fit(mixed, make_config({"task": "classify"})).config.inputs.link_rows


def test_a_table_left_on_disk_gets_no_columns_of_links(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, _ = planted_graph("copied", 11)
    monkeypatch.setattr("graphham.model.inputs.KEPT_BYTES", 1000)
    assert not plan_fit(graph, make_config({"task": "classify"})).config.inputs.link_rows
