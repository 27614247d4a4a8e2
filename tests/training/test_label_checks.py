"""Whether neighbours agree is counted, and decides what few labels are worth."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from experiments.planted_cases import planted_graph
from graphham.config.settings import make_config
from graphham.datasets.open_source import as_graph
from graphham.graph.graph import Graph, Labels
from graphham.training.label_checks import link_agreement
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
