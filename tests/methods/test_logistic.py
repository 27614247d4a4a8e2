"""Logistic regression on operators, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression as SkLogistic

from graphham.graph.graph import Labels
from graphham.methods.logistic import STRENGTHS, Operator, fit_logistic


@pytest.mark.parametrize("strength", [0.1, 10.0])
def test_logistic_regression_equals_scikit_learn(strength: float) -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(150, 6))
    codes = (x[:, :3] + draw.normal(size=(150, 3))).argmax(1).astype(np.int32)
    labels = Labels(("a", "b", "c"), codes=codes)
    train = np.arange(100)
    ours = fit_logistic(Operator.of(x), labels, train, np.empty(0, np.int64), [strength])
    theirs = SkLogistic(C=strength, tol=1e-8, max_iter=1000).fit(x[:100], codes[:100])
    np.testing.assert_allclose(
        ours.scores(Operator.of(x), False), theirs.predict_proba(x), atol=2e-3
    )


def test_several_labels_are_one_regression_each() -> None:
    draw = np.random.default_rng(1)
    x = draw.normal(size=(120, 5))
    held = (x[:, :3] + draw.normal(size=(120, 3))) > 0.3
    labels = Labels(("a", "b", "c"), matrix=sp.csr_matrix(held))
    ours = fit_logistic(Operator.of(x), labels, np.arange(120), np.empty(0, np.int64), [2.0])
    scores = ours.scores(Operator.of(x), True)
    for column in range(3):
        alone = SkLogistic(C=2.0, tol=1e-8, max_iter=1000).fit(x, held[:, column])
        np.testing.assert_allclose(scores[:, column], alone.predict_proba(x)[:, 1], atol=2e-3)


def planted_inputs() -> tuple[np.ndarray, Labels]:
    draw = np.random.default_rng(2)
    codes = draw.integers(0, 3, 90).astype(np.int32)
    return np.eye(3)[codes] + draw.normal(scale=0.6, size=(90, 3)), Labels(
        tuple("abc"), codes=codes
    )


@pytest.mark.parametrize("form", ["sparse", "product"])
def test_any_operator_gives_what_its_matrix_gives(form: str) -> None:
    x, labels = planted_inputs()
    rows = np.arange(50)
    # A product of two matrices that is never formed, and cannot be cut into rows.
    product = Operator(lambda w: x @ (x.T @ (x @ w)), lambda g: x.T @ (x @ (x.T @ g)), 3)
    matrix = x if form == "sparse" else x @ x.T @ x
    operator = Operator.of(sp.csr_matrix(x)) if form == "sparse" else product
    one, other = (
        fit_logistic(o, labels, rows, np.arange(50, 70)) for o in (Operator.of(matrix), operator)
    )
    assert one.strength == other.strength
    np.testing.assert_allclose(
        one.scores(Operator.of(matrix), False), other.scores(operator, False), atol=1e-3
    )


def test_the_validation_rows_choose_the_strength_and_the_weaker_one_of_equals() -> None:
    x, labels = planted_inputs()
    inputs, train, validation = Operator.of(x), np.arange(40), np.arange(40, 90)
    chosen = fit_logistic(inputs, labels, train, validation, STRENGTHS)
    scores = [
        fit_logistic(inputs, labels, train, validation, [strength]).validation
        for strength in STRENGTHS
    ]
    assert chosen.validation == max(scores)
    assert chosen.strength == STRENGTHS[scores.index(max(scores))]
    middle = fit_logistic(inputs, labels, train, np.empty(0, np.int64), STRENGTHS)
    assert (middle.strength, middle.validation) == (10.0, None)


def test_only_the_labels_of_the_given_rows_are_read() -> None:
    x, labels = planted_inputs()
    hidden = labels.codes.copy()
    hidden[60:] = -1
    one, other = (
        fit_logistic(
            Operator.of(x), Labels(tuple("abc"), codes=codes), np.arange(40), np.arange(40, 60)
        )
        for codes in (labels.codes, hidden)
    )
    np.testing.assert_array_equal(one.weight, other.weight)
