"""Ranks on graphs nobody tuned on are those of the cells, whoever has which of them."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.unseen import Unseen, is_unseen, read_unseen, standard_error
from graphham.evaluate.cells import Cell, Record
from graphham.methods.registry import method_class


def cell_record(
    method: str,
    score: float,
    draw: int = 0,
    *,
    graph: str = "amazon-photo",
    protocol: str = "folds",
    validation: float = 0.5,
    **more: Any,
) -> Record:
    kind = "links" if protocol == "links" else "classify"
    cell = Cell(kind, graph, protocol, method, seed=draw // 5, fold=draw % 5, **more)
    metric = "auc" if protocol == "links" else "accuracy"
    found = {"cell": cell.to_dict(), "status": "done", "metrics": {metric: score}}
    return {**found, "validation": validation}


def draws(method: str, scores: list[float], **more: Any) -> list[Record]:
    return [cell_record(method, score, draw, **more) for draw, score in enumerate(scores)]


def ranks(unseen: Unseen, graph: str = "amazon-photo", protocol: str = "folds") -> dict[str, float]:
    return {name: standing.rank for name, standing in unseen.places[graph, protocol].items()}


def test_which_graphs_count() -> None:
    def counts(graph: str, protocol: str = "folds", seed: int = 0) -> bool:
        return is_unseen({"graph": graph, "protocol": protocol, "seed": seed})

    assert counts("amazon-photo")
    assert counts("wordnet", "links")
    for graph in ("homophilous-bare", "interests", "partners", "copied-directed", "tree-unequal"):
        assert counts(graph, seed=20)
        assert not counts(graph, seed=19)  # seeds that were looked at
    for graph in ("cora", "citeseer", "amazon-photo+50"):
        assert not counts(graph, seed=20)
    assert counts("amazon-photo", "few5")
    assert not counts("amazon-photo", "public_split")
    assert counts("pubmed")
    assert not counts("pubmed", "few5")  # decided on


def test_mean_ranks_count_the_cases_a_method_has() -> None:
    records = draws("graphham", [0.8, 0.8]) + draws("gcn", [0.9, 0.9]) + draws("gat", [0.7, 0.7])
    records += draws("link", [0.7, 0.7])
    records += draws("graphham", [0.9], protocol="links") + draws("gat", [0.6], protocol="links")
    records += draws("gcn", [0.9], graph="pubmed")  # without ours it is no case
    unseen = read_unseen(records)
    assert list(unseen.places) == [("amazon-photo", "folds"), ("amazon-photo", "links")]
    assert ranks(unseen) == {"graphham": 2, "gcn": 1, "gat": 3.5, "link": 3.5}
    assert ranks(unseen, protocol="links") == {"graphham": 1, "gat": 2}
    assert unseen.mean_ranks() == {
        "graphham": (1.5, 2), "gcn": (1, 1), "gat": (2.75, 2), "link": (3.5, 1),
    }  # fmt: skip
    # Half of the cases are enough to be named; ours is nobody's rival.
    assert unseen.rivals() == {"gcn": 1, "gat": 2.75, "link": 3.5}
    assert unseen.methods == ["graphham", "gcn", "gat", "link"]


def test_a_rival_is_its_best_settings_on_validation_data_and_ours_its_defaults() -> None:
    published = dict(method_class("gat").published)
    records = [
        cell_record("graphham", 0.8),
        cell_record("graphham", 0.99, validation=0.99, budget=4),
        cell_record("graphham", 0.99, validation=0.99, settings={"dim": 8}),
        cell_record("graphham-no-q", 0.99),
        cell_record("gat", 0.9, validation=0.4),
        cell_record("gat", 0.7, validation=0.6, settings=published),
        cell_record("gat", 0.95, validation=0.9, settings={"dim": 3}),
        {**cell_record("gcn", 0.9), "status": "refused"},
    ]
    place = read_unseen(records).places["amazon-photo", "folds"]
    assert {name: standing.mean for name, standing in place.items()} == {
        "graphham": 0.8, "gat": pytest.approx(0.7),
    }  # fmt: skip


def test_fewer_draws_are_placed_by_the_difference_to_ours() -> None:
    """The second draw is harder; who lacks it must not win by that."""
    records = draws("graphham", [0.9, 0.5]) + draws("gcn", [0.8]) + draws("link", [0.95, 0.55])
    place = read_unseen(records).places["amazon-photo", "folds"]
    assert place["gcn"].mean == pytest.approx(0.6)
    assert {name: standing.rank for name, standing in place.items()} == {
        "graphham": 2, "gcn": 3, "link": 1,
    }  # fmt: skip


def test_losses_are_leads_beyond_the_error_or_on_few_draws() -> None:
    ours = [0.80, 0.82, 0.78]
    records = draws("graphham", ours)
    records += draws("gcn", [0.83, 0.85, 0.82])  # ahead by 0.033, error 0.003
    records += draws("gat", [0.90, 0.72, 0.79])  # ahead by 0.003, error 0.05
    records += draws("link", [0.801])  # one draw
    lost = read_unseen(records).losses()["amazon-photo", "folds"]
    assert list(lost) == ["gcn", "link"]
    assert lost["gcn"].difference == pytest.approx(1 / 30)
    assert standard_error(lost["gcn"]) == pytest.approx(1 / 300)
    assert lost["link"].count == 1
    assert read_unseen(draws("graphham", ours) + draws("gcn", [0.7] * 3)).losses() == {}
