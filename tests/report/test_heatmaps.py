"""Heat maps count every node once."""

import numpy as np

from graphham.report import RunView, figures


def test_levels_and_labels_add_up(view: RunView) -> None:
    assert np.sum(figures.level_heatmap(view).data[0].customdata) == 80
    labels = figures.label_heatmap(view).data[0]
    assert np.sum(labels.customdata) == (view.label_codes >= 0).sum()
    np.testing.assert_allclose(np.sum(labels.z, axis=1), 1)
