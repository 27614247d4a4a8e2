"""Logistic regression on operators, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression as SkLogistic

from graphham.graph.graph import Labels
from graphham.methods.logistic import Operator, fit_logistic


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
