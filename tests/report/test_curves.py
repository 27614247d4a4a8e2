"""Histogram and curves hold the run's own numbers."""

import numpy as np
import pytest

from graphham.report import RunView, figures


def test_curves_are_the_training_log(view: RunView) -> None:
    histogram = figures.attention_histogram(view)
    assert [float(np.sum(t.y)) for t in histogram.data] == pytest.approx([1, 1])
    curves = {t.name: list(t.y) for t in figures.training_curves(view).data}
    assert curves == {"loss": [3.0, 1.5, 1.0], "context": [2.0, 1.0, 2 / 3]}
