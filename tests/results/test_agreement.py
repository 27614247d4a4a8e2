"""Accuracy and confusion against scikit-learn's own."""

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score

from graphham.graph.graph import Labels
from graphham.results.agreement import accuracy, confusion

RNG = np.random.default_rng(0)


def test_one_label_per_node() -> None:
    truth = RNG.integers(-1, 4, 200).astype("i4")
    said = RNG.integers(0, 4, 200).astype("i4")
    labels, prediction = (Labels(tuple("abcd"), codes=c) for c in (truth, said))
    known = truth >= 0
    assert accuracy(labels, prediction) == accuracy_score(truth[known], said[known])
    expected = confusion_matrix(truth[known], said[known])
    np.testing.assert_array_equal(confusion(labels, prediction), expected)
    unknown = Labels(("a", "b"), codes=np.full(3, -1, dtype="i4"))
    assert accuracy(unknown, unknown) is None


def test_several_labels_per_node() -> None:
    truth, said = RNG.random((2, 60, 5)) < 0.4
    truth[3] = False
    labels, prediction = (Labels(tuple("abcde"), matrix=sp.csr_matrix(m)) for m in (truth, said))
    known = truth.any(1)
    expected = f1_score(truth[known], said[known], average="micro")
    found = accuracy(labels, prediction)
    assert found is not None
    np.testing.assert_allclose(found, expected)
    np.testing.assert_array_equal(
        confusion(labels, prediction), truth.T.astype(int) @ said.astype(int)
    )
