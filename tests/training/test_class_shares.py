"""How frequent classes are: told by validation labels where training labels do not say it."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from graphham.training.class_shares import class_weights
from graphham.training.supervision import Truth


def truth_of(learned, held):
    codes = np.concatenate([np.repeat(np.arange(len(c)), c) for c in (learned, held)])
    training = torch.zeros(len(codes), dtype=torch.bool)
    training[: sum(learned)] = True
    return Truth(torch.from_numpy(codes), training, torch.arange(sum(learned), len(codes)))


def test_labels_drawn_class_by_class_count_as_their_classes_are_frequent():
    weights = class_weights(truth_of([5, 5, 5], [120, 60, 20]), 3)
    assert weights is not None
    # 0.6, 0.3 and 0.1 of the nodes, a third of the labels each; leaning on the third a little.
    np.testing.assert_allclose(weights, [1.8, 0.9, 0.3], atol=0.15)
    np.testing.assert_allclose((weights * 5).sum(), 15)


def test_labels_drawn_as_nodes_are_count_the_same():
    """Random samples of the same shares: hardly ever anything is changed, and never by much."""
    rng = np.random.default_rng(0)
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    changed = []
    for _ in range(200):
        learned, held = rng.multinomial(400, shares), rng.multinomial(45, shares)
        weights = class_weights(truth_of(learned, held), 4)
        changed.append(0.0 if weights is None else float(np.abs(weights - 1).max()))
    assert np.mean(changed) < 0.05
    assert np.mean(np.array(changed) > 0.2) < 0.05


def test_the_weights_come_nearer_to_the_true_shares_than_the_labels_are():
    rng = np.random.default_rng(1)
    shares = np.array([0.3, 0.16, 0.15, 0.13, 0.11, 0.08, 0.07])
    better = 0
    for _ in range(50):
        weights = class_weights(truth_of([5] * 7, rng.multinomial(200, shares)), 7)
        found = np.full(7, 1 / 7) if weights is None else weights / 7
        better += np.abs(found - shares).sum() < np.abs(1 / 7 - shares).sum()
    assert better >= 48


def test_a_class_without_labels_is_left_out():
    weights = class_weights(truth_of([5, 0, 5], [150, 30, 20]), 3)
    assert weights is not None
    assert weights[1] == 1
    np.testing.assert_allclose(weights[0] * 0.5 + weights[2] * 0.5, 1)


@pytest.mark.parametrize("held", [[0, 0], [1, 1]])
def test_few_or_no_validation_labels_change_nothing(held):
    assert class_weights(truth_of([5, 5], held), 2) is None


def test_several_labels_a_node_are_left_alone():
    training = torch.arange(80) < 40
    targets = F.one_hot(torch.arange(80) // 39 % 2, 2).float()
    truth = Truth(targets, training, torch.arange(40, 80))
    assert class_weights(truth, 2) is None
    single = Truth(targets.argmax(1), training, torch.arange(40, 80))
    assert class_weights(single, 2) is not None
