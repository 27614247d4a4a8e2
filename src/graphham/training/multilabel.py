"""How several labels per node are predicted and scored: one rule for validation and for tests.

A validation that counts labels by a threshold while the test does not prefers networks that are
well calibrated over ones that rank well, and so nearly untrained ones over trained ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp


def take_as_many(scores: npt.NDArray[Any], truth: sp.csr_matrix) -> sp.csr_matrix:
    """Predict for each node as many labels as it has, the best-scored ones (A7).

    Args:
        scores: ``(nodes, labels)``; only their order within a row counts.
        truth: ``(nodes, labels)`` boolean.
    """
    counts = np.diff(truth.indptr)
    order = np.argsort(-scores, axis=1, kind="stable")
    rows = np.repeat(np.arange(len(scores)), counts)
    place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    columns = order[rows, place]
    return sp.csr_matrix((np.ones(len(rows), dtype=bool), (rows, columns)), shape=scores.shape)


def micro_f1(truth: sp.csr_matrix, predicted: sp.csr_matrix) -> float:
    """Return the F1 of all labels of all nodes pooled; 0 when there are none.

    Args:
        truth: ``(nodes, labels)`` boolean.
        predicted: ``(nodes, labels)`` boolean.
    """
    hits = truth.astype(np.int64).multiply(predicted.astype(np.int64)).sum()
    total = truth.astype(np.int64).sum() + predicted.astype(np.int64).sum()
    return float(2 * hits / total) if total else 0.0


def ranked_micro_f1(scores: npt.NDArray[Any], truth: sp.csr_matrix) -> float:
    """Return the micro-F1 of :func:`take_as_many`; 0 when no node has a label.

    Args:
        scores: ``(nodes, labels)``.
        truth: ``(nodes, labels)`` boolean.
    """
    return micro_f1(truth, take_as_many(scores, truth))
