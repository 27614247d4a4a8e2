"""Heat maps count every node once."""

from pathlib import Path

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.report import RunView, figures
from graphham.report.html import report_page
from tests.report.conftest import write_run


def test_levels_and_labels_add_up(view: RunView) -> None:
    assert np.sum(figures.level_heatmap(view).data[0].customdata) == 80
    labels = figures.label_heatmap(view).data[0]
    assert np.sum(labels.customdata) == (view.label_codes >= 0).sum()
    np.testing.assert_allclose(np.sum(labels.z, axis=1), 1)


def test_a_confusion_matrix_is_a_square_with_what_is_right_on_its_diagonal(
    tmp_path: Path,
) -> None:
    view = RunView.of(write_run(tmp_path / "run", classify=True))
    trace = figures.confusion_heatmap(view).data[0]
    counts = np.asarray(trace.customdata)
    labels, said = view.result.labels, view.result.prediction
    assert labels is not None
    assert said is not None
    assert counts.shape == (len(labels.classes),) * 2
    assert counts.sum() == labels.known.sum()
    right = np.mean(labels.codes[labels.known] == said.codes[labels.known])
    assert np.trace(counts) / counts.sum() == right
    page = report_page(view)
    assert 'data-figure="confusion"' in page
    assert f"The diagonal is right: {right:.1%}" in page


def test_a_run_without_predictions_has_no_confusion_matrix(view: RunView) -> None:
    with pytest.raises(InputError, match="predicts no labels"):
        figures.confusion_heatmap(view)
    assert 'data-figure="confusion"' not in report_page(view)
