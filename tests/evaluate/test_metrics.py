"""Metrics against scikit-learn, and their own invariants."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

from graphham.evaluate.metrics import class_metrics, label_metrics, link_metrics
from graphham.training.multilabel import take_as_many

codes = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=60)


@given(pairs=codes)
def test_class_metrics_agree_with_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    truth, said = np.array(pairs).T
    found = class_metrics(truth, said)
    assert found["accuracy"] == pytest.approx(accuracy_score(truth, said))
    assert found["macro_f1"] == pytest.approx(f1_score(truth, said, average="macro"))


@given(seed=st.integers(0, 200))
def test_label_metrics_agree_with_scikit_learn(seed: int) -> None:
    draw = np.random.default_rng(seed)
    truth, said = draw.random((2, 30, 6)) < 0.3
    truth[0], said[0] = True, True  # every label occurs, as macro averages differ on absent ones
    found = label_metrics(sp.csr_matrix(truth), sp.csr_matrix(said))
    assert found["accuracy"] == pytest.approx(accuracy_score(truth, said))
    for name in ("micro", "macro"):
        assert found[f"{name}_f1"] == pytest.approx(f1_score(truth, said, average=name))
    assert found["label_accuracy"] == pytest.approx((truth == said).mean())


def test_as_many_labels_as_the_node_has() -> None:
    truth = sp.csr_matrix(np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]], dtype=bool))
    scores = np.array([[0.1, 0.9, 0.8], [0.9, 0.9, 0.9], [0.2, 0.3, 0.1]])
    said = take_as_many(scores, truth).toarray()
    assert said.tolist() == [[False, True, True], [False] * 3, [False, True, False]]


@settings(max_examples=20)
@given(seed=st.integers(0, 100), steps=st.integers(2, 9))
def test_link_metrics_agree_with_slow_definitions(seed: int, steps: int) -> None:
    draw = np.random.default_rng(seed)
    scores = draw.integers(steps, size=(25, 8)).astype(float)  # many ties
    found = link_metrics(scores, scale=3)
    truth = np.zeros(scores.shape)
    truth[:, 0] = 1
    assert found["auc"] == pytest.approx(roc_auc_score(truth.ravel(), scores.ravel()))
    per_query = [roc_auc_score(t, s) for t, s in zip(truth, scores, strict=True)]
    assert found["auc_query"] == pytest.approx(np.mean(per_query))
    ranks = []
    for first, *others in scores.tolist():
        above, level = sum(o > first for o in others), sum(o == first for o in others)
        ranks.append((1 + above + 1 + above + level) / 2)
    assert found["mrr"] == pytest.approx(np.mean([1 / r for r in ranks]))
    assert found["scaled_mrr"] == pytest.approx(np.mean([1 / -(-r // 3) for r in ranks]))
    again = link_metrics(np.exp(scores / 3) - 5, scale=3)
    assert again == pytest.approx(found)


def test_constant_scores_are_worth_nothing() -> None:
    found = link_metrics(np.zeros((10, 21)))
    assert found["auc"] == found["auc_query"] == 0.5
    assert found["mrr"] == pytest.approx(1 / 11)
    broken = link_metrics(np.tile([np.nan, 0.0, 0.0], (4, 1)))
    assert broken["auc"] == 0
