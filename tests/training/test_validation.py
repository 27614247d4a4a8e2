"""Scores for early stopping against scikit-learn's."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

from graphham.evaluate.metrics import label_metrics
from graphham.graph.graph import Labels, build_graph
from graphham.methods.logistic import label_score
from graphham.methods.network_training import NodeNet, Schedule, _NetworkLoop, _Steps
from graphham.methods.scaled_features import fit_features
from graphham.training.multilabel import take_as_many
from graphham.training.supervision import Truth
from graphham.training.validation import LabelValidator, LinkValidator, ranking_auc


class Fixed(torch.nn.Module):
    """A network that says what it is told."""

    def __init__(self, output):
        super().__init__()
        self.output = torch.as_tensor(output)

    def encode(self, batch):
        return [SimpleNamespace(output=self.output)]

    def class_logits(self, states, memberships):
        return states[0]

    def spread(self, logits, block, memberships):
        return logits


BATCH = SimpleNamespace(blocks=[None], memberships=torch.zeros(0, 0), num_targets=0)
NUMBERS = st.lists(st.integers(-3, 3), min_size=1, max_size=8)


@given(NUMBERS, NUMBERS)
def test_auc_is_scikit_learns_with_ties_counting_half(positive, negative):
    found = ranking_auc(torch.tensor(positive), torch.tensor(negative))
    truth = [1] * len(positive) + [0] * len(negative)
    assert found == pytest.approx(roc_auc_score(truth, positive + negative))


def test_single_labels_are_scored_by_accuracy_then_loss():
    rng = np.random.default_rng(0)
    logits, codes = rng.normal(size=(30, 4)), rng.integers(0, 4, 30)
    validation = torch.arange(0, 30, 2)
    truth = Truth(torch.from_numpy(codes), torch.zeros(30, dtype=torch.bool), validation)
    accuracy, tie = LabelValidator(truth).score(Fixed(logits), BATCH)
    rows = validation.numpy()
    assert accuracy == pytest.approx(accuracy_score(codes[rows], logits[rows].argmax(1)))
    probability = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    assert -tie == pytest.approx(log_loss(codes[rows], probability[rows], labels=range(4)))


def test_many_labels_are_scored_by_micro_f1_as_a_test_scores_them():
    rng = np.random.default_rng(1)
    logits, targets = rng.normal(size=(30, 4)), rng.random((30, 4)) < 0.4
    truth = many_labels(targets, first=5)
    score, _ = LabelValidator(truth).score(Fixed(logits), BATCH)
    labels = sp.csr_matrix(targets[5:])
    tested = label_metrics(labels, take_as_many(logits[5:], labels))
    assert score == pytest.approx(tested["micro_f1"])
    everything = Labels(tuple("abcd"), matrix=sp.csr_matrix(targets))
    assert label_score(logits, everything, np.arange(5, 30)) == pytest.approx(score)


def many_labels(targets, first=0):
    """Labels whose rows from ``first`` on are for validation."""
    nobody = torch.zeros(len(targets), dtype=torch.bool)
    rows = torch.arange(first, len(targets))
    return Truth(torch.from_numpy(targets.astype(np.float32)), nobody, rows)


def test_validation_prefers_the_better_order_of_labels_to_logits_around_zero():
    """A trained network is sure that each of many labels is rare, and still orders them rightly.

    One that knows nothing has logits around zero, claims half of all labels and hits by chance.
    """
    rng = np.random.default_rng(2)
    targets = np.zeros((200, 20), dtype=bool)
    targets[np.arange(200), rng.integers(0, 20, 200)] = True
    chance = rng.normal(size=targets.shape).astype(np.float32)
    trained = (3.0 * targets + 0.5 * chance - 6.0).astype(np.float32)
    truth = many_labels(targets)
    everything = Labels(tuple(range(20)), matrix=sp.csr_matrix(targets))
    batch = BATCH
    for score in (
        lambda logits: LabelValidator(truth).score(Fixed(logits), batch)[0],
        lambda logits: label_score(1 / (1 + np.exp(-logits)), everything, np.arange(200)),
    ):
        assert score(trained) > 0.9
        assert score(chance) < 0.2


class Planted(NodeNet):
    """A network without neighbourhoods that knows its logits, for each node by its row."""

    def __init__(self, logits):
        super().__init__(1, 0, 0, False)
        self.logits = torch.from_numpy(logits)

    def encode(self, features, blocks, generator):
        return self.logits

    def classify(self, vectors, generator):
        return vectors


def test_baselines_are_validated_by_the_same_rule():
    rng = np.random.default_rng(3)
    targets = rng.random((40, 6)) < 0.3
    targets[:, 0] |= ~targets.any(1)
    logits = (rng.normal(size=targets.shape) - 2).astype(np.float32)
    graph = build_graph(np.arange(39), np.arange(1, 40), 40, features=np.eye(40, dtype=np.float32))
    _, inputs = fit_features(graph, "none", 4, 0)
    truth = many_labels(targets, first=10)
    net = Planted(logits)
    steps = _Steps(net, graph, inputs, Schedule(), 0, truth)
    assert _NetworkLoop(net, steps, None).score() == LabelValidator(truth).score(
        Fixed(logits), BATCH
    )


def test_links_are_scored_by_cosine_whatever_the_lengths():
    rng = np.random.default_rng(2)
    states = rng.normal(size=(40, 5)) * rng.uniform(0.1, 10, (40, 1))
    edges = rng.integers(0, 40, (12, 2))
    validator = LinkValidator(edges, build_graph(edges[:, 0], edges[:, 1], 40), seed=3)
    assert len(validator.negative) == 20 * len(edges)
    assert (validator.negative[:, 0] != validator.negative[:, 1]).all()
    assert set(validator.negative[:, 1].tolist()) == set(range(40))
    score, _ = validator.score(Fixed(states), None)
    unit = states / np.linalg.norm(states, axis=1, keepdims=True)

    def cosines(pairs):
        return (unit[pairs[:, 0]] * unit[pairs[:, 1]]).sum(1)

    values = np.concatenate([cosines(edges), cosines(validator.negative.numpy())])
    truth = np.repeat([1, 0], [len(edges), len(validator.negative)])
    assert score == pytest.approx(roc_auc_score(truth, values), abs=1e-6)
    again = LinkValidator(edges, build_graph(edges[:, 0], edges[:, 1], 40), seed=3)
    assert torch.equal(again.negative, validator.negative)
