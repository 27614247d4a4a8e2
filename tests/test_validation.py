"""Scores for early stopping against scikit-learn's."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, log_loss, roc_auc_score

from graphham.graph import build_graph
from graphham.objective import Truth
from graphham.validation import LabelValidator, LinkValidator, ranking_auc


class Fixed(torch.nn.Module):
    """A network that says what it is told."""

    def __init__(self, output):
        super().__init__()
        self.output = torch.as_tensor(output)

    def encode(self, batch):
        return [SimpleNamespace(output=self.output)]

    def class_logits(self, states):
        return states[0]

    def spread(self, logits, block):
        return logits


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
    accuracy, tie = LabelValidator(truth).score(Fixed(logits), SimpleNamespace(blocks=[None]))
    rows = validation.numpy()
    assert accuracy == pytest.approx(accuracy_score(codes[rows], logits[rows].argmax(1)))
    probability = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    assert -tie == pytest.approx(log_loss(codes[rows], probability[rows], labels=range(4)))


def test_many_labels_are_scored_by_micro_f1():
    rng = np.random.default_rng(1)
    logits, wanted = rng.normal(size=(30, 4)), rng.random((30, 4)) < 0.4
    validation = torch.arange(5, 30)
    targets = torch.from_numpy(wanted.astype(np.float64))
    truth = Truth(targets, torch.zeros(30, dtype=torch.bool), validation)
    score, _ = LabelValidator(truth).score(Fixed(logits), SimpleNamespace(blocks=[None]))
    assert score == pytest.approx(f1_score(wanted[5:], logits[5:] > 0, average="micro"))


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
