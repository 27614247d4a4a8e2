"""The objective part by part, and the same objective from the whole graph and from samples."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.graph.graph import Labels
from graphham.methods.prepared import prepare
from graphham.methods.starting import make_model
from graphham.model.losses import balance_loss, constraint_loss
from graphham.model.membership import one_hot_straight_through
from graphham.training.batches import Batches
from graphham.training.objective import EncodedStep, loss_parts, total_loss
from graphham.training.plan import plan_fit
from graphham.training.supervision import Truth
from graphham.training.teacher import teach
from tests.reference import model as slow
from tests.reference.graphs import (
    multi_labelled,
    planted,
    relinked,
    small_config,
    with_features,
    without_features,
)

GRAPH = planted().graph
QUIET = {
    "model.assignment": "mean",
    "train.feature_dropout": 0.0,
    "train.edge_dropout": 0.0,
    "train.dropout": 0.0,
    "train.fanouts": (1000, 1000),
    "train.batch_size": 1000,
    "train.anchors": 1000,
}


def start(graph, **settings):
    """Return everything one step needs: model, settings, tables, inputs, labels and teacher."""
    plan = plan_fit(graph, small_config(QUIET, settings))
    config = plan.config
    prepared = prepare(graph, config)
    model, tables = make_model(graph, config, prepared, plan.table)
    truth, said = None, None
    if config.task == "classify":
        truth = Truth.split(graph.labels, 0, 0.1)
        classes = len(graph.labels.classes)
        said = None if prepared.groups is None else teach(prepared.groups.fits, truth, classes)
    return model, config, tables, prepared.inputs, truth, said


def one_step(started, graph, how):
    """Return the parts and gradients of one step over all nodes."""
    model, config, tables, inputs, truth, said = copy.deepcopy(started)
    for level, table in enumerate(tables):
        model.decoder(level).table = table
    config = config.model_copy(
        update={"train": config.train.model_copy(update={"batch": how, "workers": 0})}
    )
    (step,) = Batches(graph, inputs, config, inductive=not tables).epoch(0)
    model.train()
    output = model(step.batch)
    generator = torch.Generator().manual_seed(0)
    parts = loss_parts(EncodedStep(model, config.loss, step, output, truth, generator, said))
    total_loss(parts).backward()
    grads = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    for table in tables:
        table.step(0.1)
    return {k: float(v.detach()) for k, v in parts.items()}, grads, tables, model


CASES = {
    "default": ({}, GRAPH),
    "groups of the layers": ({"model.membership_input": "state"}, GRAPH),
    "three levels": ({"groups": (9, 4, 2), "dim": 24, "train.fanouts": (999,)}, GRAPH),
    "one level": ({"groups": (5,)}, GRAPH),
    "weighted": (
        {},
        relinked(GRAPH, weights=np.random.default_rng(0).uniform(0.5, 2, GRAPH.num_edges)),
    ),
    "directed": ({}, relinked(GRAPH, directed=True)),
    "isolated": ({}, relinked(GRAPH, extra=6)),
    "dense": ({}, with_features(GRAPH, GRAPH.features.toarray())),
    "no features": ({}, without_features(GRAPH)),
    "classify": ({"task": "classify"}, GRAPH),
    "teacher": ({"task": "classify", "loss.teacher_weight": 0.7}, GRAPH),
    "multi-label": (
        {"task": "classify", "loss.teacher_weight": 0.7},
        multi_labelled(GRAPH),
    ),
    "no self edge": ({"model.self_edge": False}, GRAPH),
    "heads": ({"model.heads": 3, "model.residual": True}, GRAPH),
    "literal": ({"model.product": "literal", "loss.violation": "pairs"}, GRAPH),
    "paper": ({"preset": "paper", "loss.walks": 4}, GRAPH),
}
for form in ("inductive", "factored", "full"):
    for mix in ("vector", "loss"):
        CASES[f"skip-gram, {form} table, mixed {mix}"] = (
            {
                "loss.context": "skipgram",
                "loss.context_table": form,
                "loss.mix": mix,
                "loss.walks": 3,
                "model.straight_through": mix == "vector",
                "model.membership_input": "state" if form == "factored" else "block",
            },
            GRAPH,
        )


@pytest.mark.parametrize("case", CASES)
def test_a_sample_of_everything_is_the_whole(case):
    """With all neighbours drawn, one batch of all nodes is the full-graph step, to the gradient."""
    settings, graph = CASES[case]
    started = start(graph, **settings)
    full, full_grads, full_tables, full_model = one_step(started, graph, "full")
    part, part_grads, part_tables, part_model = one_step(started, graph, "sampled")
    assert full.keys() == part.keys()
    assert all(np.isfinite(value) for value in full.values())
    for name, value in full.items():
        assert part[name] == pytest.approx(value, abs=1e-5, rel=1e-5), name
    assert full_grads.keys() == part_grads.keys()
    for name, grad in full_grads.items():
        size = float(grad.abs().max())
        torch.testing.assert_close(part_grads[name], grad, rtol=1e-3, atol=1e-4 * size + 1e-6)
    for one, other in zip(full_tables, part_tables, strict=True):
        torch.testing.assert_close(one.squares, other.squares, rtol=1e-3, atol=1e-9)
    for one, other in zip(full_model.buffers(), part_model.buffers(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("source", ["block", "state"])
@pytest.mark.parametrize("labels", ["one", "many"])
def test_parts_are_what_they_are_called(hard, source, labels):
    weights = {
        "loss.must_link_weight": 0.7,
        "loss.cannot_link_weight": 0.4,
        "loss.balance_weight": 0.3,
        "loss.class_weight": 1.7,
        "loss.teacher_weight": 0.6,
        "loss.context_weight": 2.0,
    }
    switches = {"model.straight_through": hard, "model.membership_input": source}
    graph = GRAPH if labels == "one" else multi_labelled(GRAPH)
    model, config, _, inputs, truth, said = start(graph, task="classify", **weights, **switches)
    (step,) = Batches(graph, inputs, config, inductive=True).epoch(0)
    with torch.no_grad():
        output = model(step.batch)
        parts = loss_parts(EncodedStep(model, config.loss, step, output, truth, None, said))
        is_block = source == "block"
        wanted = {"context", "class"} | ({"teacher"} if is_block else {"nesting_loss", "balance"})
        assert set(parts) == wanted
        if not is_block:
            held = output.memberships
            if hard:
                held = [one_hot_straight_through(z) for z in output.assignments]
            assert float(parts["nesting_loss"]) == pytest.approx(
                float(constraint_loss(held[0], held[1], 0.7, 0.4)), abs=1e-6
            )
            priors = [torch.full((6,), 1 / 6), torch.full((2,), 1 / 2)]
            balance = sum(
                float(balance_loss(m, p)) for m, p in zip(output.memberships, priors, strict=True)
            )
            assert float(parts["balance"]) == pytest.approx(0.3 * balance, abs=1e-6)
        logits = model.class_logits(output.states, inputs.memberships)
        losses = {True: [], False: []}
        for i, row in enumerate(logits.tolist()):
            own = bool(truth.training[i])
            expected = truth.targets[i] if own or said is None else said[i]
            losses[own].append(slow_class_loss(row, expected, labels == "many"))
        assert float(parts["class"]) == pytest.approx(1.7 * np.mean(losses[True]), rel=1e-4)
        if is_block:
            others = 0.6 * np.mean(losses[False])
            assert float(parts["teacher"]) == pytest.approx(others, rel=1e-4)
        context = 0.0
        for level in range(2):
            nodes = step.positives[level][:, 0]
            z = (
                one_hot_straight_through(output.assignments[level])
                if hard
                else output.assignments[level]
            )
            seen = nodes >= 0
            context += float(
                model.decoder(level).contrast(
                    output.states[level], z, step.anchors[seen], nodes[seen]
                )
            )
        assert float(parts["context"]) == pytest.approx(2.0 * context, rel=1e-5)
        assert float(total_loss(parts)) == pytest.approx(sum(map(float, parts.values())), rel=1e-6)


def slow_class_loss(logits, expected, is_multi):
    """Cross-entropy of one node to a class, to probabilities, or of every label by itself."""
    if is_multi:
        return -sum(
            float(q) * slow.log_sigmoid(v) + (1 - float(q)) * slow.log_sigmoid(-v)
            for v, q in zip(logits, expected, strict=True)
        )
    p = slow.softmax(logits)
    if expected.dim() == 0:
        return -np.log(p[int(expected)])
    return -sum(float(q) * np.log(p[c]) for c, q in enumerate(expected))


def test_labels_are_never_read_while_embedding():
    """Shuffling the labels of an embed run changes nothing."""
    order = np.random.default_rng(0).permutation(180)
    other = replace(GRAPH, labels=GRAPH.labels.take(order))
    parts = [one_step(start(graph), graph, "full")[0] for graph in (GRAPH, other)]
    assert parts[0] == parts[1]
    assert "class" not in parts[0]


def test_labels_outside_the_training_rows_do_not_matter():
    chosen = np.arange(0, 180, 3)
    codes = GRAPH.labels.codes.copy()
    codes[np.setdiff1d(np.arange(180), chosen)] = 0
    losses = []
    for labels in (GRAPH.labels, Labels(GRAPH.labels.classes, codes=codes)):
        graph = replace(GRAPH, labels=labels)
        # What all labels would decide about the settings is given.
        decided = {"model.residual": False, "model.class_groups": False}
        decided |= {"loss.context_weight": 0.2, "loss.teacher_weight": 0.0}
        started = list(start(graph, task="classify", **decided))
        started[4] = Truth.split(labels, 0, 0.2, train_rows=chosen)
        losses.append(one_step(tuple(started), graph, "full")[0])
    assert losses[0] == losses[1]


def labels_of(codes):
    return Labels(tuple(range(max(codes) + 1)), codes=np.array(codes, dtype=np.int32))


@given(
    st.lists(st.integers(-1, 3), min_size=1, max_size=40).filter(lambda c: max(c) >= 0),
    st.floats(0, 0.9),
    st.integers(0, 100),
)
def test_a_split_uses_every_known_label_once(codes, share, seed):
    truth = Truth.split(labels_of(codes), seed, share)
    known = np.flatnonzero(np.array(codes) >= 0)
    training = np.flatnonzero(truth.training.numpy())
    both = np.concatenate([training, truth.validation.numpy()])
    assert sorted(both) == known.tolist()
    assert len(truth.validation) == int(share * len(known))
    again = Truth.split(labels_of(codes), seed, share)
    assert torch.equal(again.validation, truth.validation)


@pytest.mark.parametrize("form", [list, np.array, torch.tensor, tuple])
def test_rows_come_in_any_form(form):
    labels = labels_of([0, 1, 0, -1, 1, 0])
    truth = Truth.split(labels, 0, 0.5, form([0, 1, 3]), form([4, 3, 1]))
    assert truth.training.tolist() == [True, False, False, False, False, False]
    assert truth.validation.tolist() == [4, 1]
    train = [True, True, False, True, False, False]
    validation = [False, True, False, True, True, False]
    masked = Truth.split(labels, 0, 0.5, form(train), form(validation))
    assert torch.equal(masked.training, truth.training)
    assert masked.validation.tolist() == [1, 4]


def test_rows_of_a_store_may_be_read_only():
    rows = np.array([0, 1, 2])
    rows.setflags(write=False)
    assert len(Truth.split(labels_of([0, 1, 0, 1]), 0, 0.0, rows, rows[:0]).validation) == 0


@pytest.mark.parametrize(
    ("train", "validation", "words"),
    [
        ([0, 9], None, "row 9 of train_rows lies outside"),
        ([-1], None, "row -1 of train_rows lies outside"),
        ([0.5], None, "whole numbers"),
        ([[0, 1]], None, "whole numbers"),
        ([True, False], None, "mask of 4"),
        (None, [7], "row 7 of validation_rows lies outside"),
        ([], None, "no label is left to train on"),
        ([3], None, "no label is left to train on"),
        (None, [0, 1, 2], "no label is left to train on"),
    ],
)
def test_rows_that_cannot_be_used_are_one_sentence(train, validation, words):
    with pytest.raises(InputError, match=words):
        Truth.split(labels_of([0, 1, 0, -1]), 0, 0.0, train, validation)


def test_many_labels_become_a_matrix():
    truth = Truth.split(multi_labelled(GRAPH).labels, 0, 0.1)
    assert truth.is_multi
    assert truth.targets.shape == (180, 6)
    assert (truth.targets.sum(1) == 2).all()
