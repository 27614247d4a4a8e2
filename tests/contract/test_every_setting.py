"""Every value of every choice trains, whole and sampled, and does what it is there for."""

import re
import typing
from pathlib import Path
from typing import Literal, get_args, get_origin

import numpy as np
import pytest

from graphham.config.readings import READINGS
from graphham.config.settings import (
    InputConfig,
    LossConfig,
    ModelConfig,
    make_config,
    setting_names,
)
from graphham.methods.fitting import fit_graph
from tests.reference.graphs import SMALL, planted, with_features, without_features

GRAPH = planted().graph
SKIPGRAM = {"loss.context": "skipgram", "loss.walks": 2}
# What a choice needs besides itself.
NEEDS = {
    "model.group_score=additive": {"model.membership_input": "state"},
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
    },
    "literal noise on a Dirichlet": {
        "model.membership_input": "state",
        "model.assignment": "literal",
        "model.dirichlet": True,
    },
    "no context loss": {"loss.context_weight": 0.0},
    "dim that does not divide": {"dim": 17},
    "only the context loss": {
        "model.membership_input": "state",
        "loss.must_link_weight": 0.0,
        "loss.cannot_link_weight": 0.0,
        "loss.balance_weight": 0.0,
    },
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


PAPER = {"preset": "paper", "loss.walks": 2}
CLASSIFY = {"task": "classify", "train.patience": 1, "train.evaluate_every": 1}
# Settings of groups that the layers make themselves, as the paper does.
STATE = {"model.membership_input": "state"}
ADDITIVE = {"model.group_score": "additive", **STATE}
# Another value of a setting, and what has to be set on both sides for it to matter.
CHANGES = [
    ({"groups": (7, 2)}, {}),
    ({"model.heads": 2}, {}),
    ({"model.product": "literal"}, {}),
    ({"model.group_score": "none"}, {}),
    ({"model.separate_attention": True}, ADDITIVE),
    ({"model.assignment": "literal"}, STATE),
    ({"model.dirichlet": True}, STATE),
    ({"model.straight_through": True}, {}),
    ({"model.tau": 2.0}, STATE),
    ({"model.tau_end": 0.1}, STATE),
    (STATE, {}),
    ({"model.group_links": False}, {}),
    ({"model.affinity": "dot"}, STATE),
    ({"model.affinity_scale": 2.0}, STATE),
    ({"model.residual": True}, {}),
    ({"model.self_edge": False}, {}),
    ({"model.activation": "relu"}, {}),
    ({"model.init": "glorot"}, {}),
    ({"model.group_init": "random"}, STATE),
    ({"loss.context": "skipgram"}, {}),
    ({"loss.context_table": "factored"}, PAPER),
    ({"loss.group_context": False}, {}),
    ({"loss.mix": "loss"}, {**PAPER, "model.straight_through": False}),
    ({"loss.walks": 3}, {}),
    ({"loss.violation": "pairs"}, STATE),
    ({"loss.must_link_weight": 0.0}, STATE),
    ({"loss.cannot_link_weight": 0.0}, STATE),
    ({"loss.must_link_weight": 0.0, "loss.cannot_link_weight": 0.0}, {}),
    ({"loss.balance_weight": 2.0}, STATE),
    ({"loss.scope": "exact"}, {}),
    ({"loss.class_weight": 0.1}, CLASSIFY),
    ({"loss.teacher_weight": 1.0}, CLASSIFY),
    (
        {"loss.doubt_teacher": True},
        {**CLASSIFY, "loss.context_weight": 1e5, "loss.teacher_weight": 0.0},
    ),
    ({"inputs.scaling": "row"}, {}),
    ({"inputs.group_dim": 5}, {}),
    ({"inputs.structural_dim": 8}, {}),
    ({"train.lr": 0.1}, {}),
    ({"train.table_lr": 0.5}, PAPER),
    ({"train.dropout": 0.0}, {}),
    ({"train.edge_dropout": 0.0}, {}),
    ({"train.feature_dropout": 0.0}, {}),
    ({"train.average": 0.5}, {}),
    ({"train.validation_share": 0.4}, CLASSIFY),
    ({"train.validation_edges": 0.2}, {}),
]


@pytest.mark.parametrize(("settings", "base"), CHANGES, ids=str)
def test_a_setting_changes_the_result(settings, base):
    """A setting nobody reads would be worse than none."""
    graph = without_features(GRAPH) if "inputs.structural_dim" in settings else GRAPH
    one, other = (
        fit_graph(graph, make_config(SMALL, {"train.epochs": 5}, base, extra)).result
        for extra in ({}, settings)
    )
    same = np.array_equal(one.embedding, other.embedding) and all(
        np.array_equal(a, b) for a, b in zip(one.memberships, other.memberships, strict=True)
    )
    assert not same


def test_every_reading_of_the_paper_is_tried_and_documented():
    named = [name for names in READINGS.values() for name in names]
    assert len(named) == len(set(named))
    assert set(named) <= set(setting_names())
    assert set(named) <= {name for settings, _ in CHANGES for name in settings}
    page = (Path(__file__).parents[2] / "docs" / "ambiguities.md").read_text("utf-8")
    entries = re.split(r"^## (A\d+)\. ", page, flags=re.MULTILINE)
    texts = dict(zip(entries[1::2], entries[2::2], strict=True))
    for entry, names in READINGS.items():
        for name in names:
            assert f"`{name}" in texts[entry], (entry, name)
