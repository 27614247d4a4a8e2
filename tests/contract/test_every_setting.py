"""Every value of every choice trains, whole and sampled, and does what it is there for."""

import typing
from typing import Literal, get_args, get_origin

import numpy as np
import pytest

from graphham.config.settings import InputConfig, LossConfig, ModelConfig, make_config
from graphham.methods.fitting import fit_graph
from tests.reference.graphs import SMALL, planted, with_features

GRAPH = planted().graph
SKIPGRAM = {"loss.context": "skipgram", "loss.walks": 2}
# What a choice needs besides itself.
NEEDS = {
    "model.membership_input=state": {"model.nesting": "none"},
    "model.group_score=additive": {
        "model.membership_input": "state",
        "model.nesting": "none",
    },
    "loss.context_table=factored": SKIPGRAM,
    "loss.context_table=full": SKIPGRAM,
    "loss.mix=loss": SKIPGRAM,
    "inputs.scaling=standard": "dense",
}


def choices():
    """Every choice of the settings, read from their own types, so that no new one is forgotten."""
    for name, section in (("inputs", InputConfig), ("model", ModelConfig), ("loss", LossConfig)):
        for field, kind in typing.get_type_hints(section).items():
            parts = get_args(kind) if get_origin(kind) is not Literal else (kind,)
            for part in parts or (kind,):
                if get_origin(part) is Literal:
                    yield from (f"{name}.{field}={value}" for value in get_args(part))
                elif part is bool:
                    yield from (f"{name}.{field}={value}" for value in ("true", "false"))


EXTRA = {
    "four heads": {"model.heads": 4, "model.product": "literal"},
    "own attention for groups": {
        "model.separate_attention": True,
        "model.group_score": "additive",
        "model.membership_input": "state",
        "model.nesting": "none",
    },
    "literal noise on a Dirichlet": {"model.assignment": "literal", "model.dirichlet": True},
    "no context loss": {"loss.context_weight": 0.0},
    "only the context loss": {
        "loss.must_link_weight": 0.0,
        "loss.cannot_link_weight": 0.0,
        "loss.balance_weight": 0.0,
        "loss.self_training_weight": 0.0,
    },
    "entropy": {"loss.entropy_weight": 0.5},
    "paper": {"preset": "paper", "loss.walks": 3},
    "paper, classes": {"preset": "paper", "loss.walks": 3, "task": "classify"},
    "paper, full table, soft, mixed losses": {
        "preset": "paper",
        "loss.walks": 2,
        "model.straight_through": False,
        "loss.mix": "loss",
    },
    "held-out links": {"train.validation_edges": 0.1},
    "averaged weights": {"train.average": 0.9},
    "one epoch": {"train.epochs": 1},
    "structural width of two": {"inputs.structural_dim": 2},
}


@pytest.mark.parametrize("batch", ["full", "sampled"])
@pytest.mark.parametrize("choice", [*choices(), *EXTRA])
def test_every_choice_trains(choice, batch):
    graph = GRAPH
    if choice in EXTRA:
        settings = EXTRA[choice]
    else:
        name, value = choice.split("=")
        needs = NEEDS.get(choice, {})
        if needs == "dense":
            graph, needs = with_features(GRAPH, GRAPH.features.toarray()), {}
        settings = {**needs, name: {"true": True, "false": False}.get(value, value)}
    config = make_config(
        SMALL,
        {"train.epochs": 3, "train.batch": batch, "train.batch_size": 100, "train.workers": 0},
        settings,
    )
    fitted = fit_graph(graph, config)
    fitted.result.validate()
    assert np.isfinite(fitted.result.embedding).all()
    for record in fitted.history:
        assert all(np.isfinite(v) for v in record.values()), record


@pytest.mark.parametrize(
    "settings",
    [
        {"model.product": "literal"},
        {"model.group_score": "none"},
        {"model.assignment": "literal"},
        {"model.dirichlet": True},
        {"model.straight_through": True},
        {"model.affinity": "dot"},
        {"model.residual": True},
        {"model.self_edge": False},
        {"model.activation": "relu"},
        {"model.init": "glorot"},
        {"model.group_init": "random"},
        {"model.neighbor_evidence": False},
        {"model.slope": 0.9},
        {"loss.group_context": False},
        {"loss.violation": "pairs"},
        {"loss.scope": "exact"},
        {"loss.temperature": 0.5},
        {"inputs.scaling": "row"},
        {"inputs.diffusion_steps": 1},
        {"inputs.diffusion_dim": 5},
        {"train.dropout": 0.0},
        {"train.edge_dropout": 0.0},
        {"train.feature_dropout": 0.0},
        {"train.graft_at": 0.9},
        {"train.clip": 1e-3},
        {"train.average": 0.5},
    ],
    ids=str,
)
def test_a_setting_changes_the_result(settings):
    """A setting nobody reads would be worse than none."""
    one, other = (
        fit_graph(GRAPH, make_config(SMALL, {"train.epochs": 5}, extra)).result
        for extra in ({}, settings)
    )
    same = np.array_equal(one.embedding, other.embedding) and all(
        np.array_equal(a, b) for a, b in zip(one.memberships, other.memberships, strict=True)
    )
    assert not same
