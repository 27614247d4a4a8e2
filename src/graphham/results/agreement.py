"""How predicted labels agree with the known ones: one number, and which are taken for which."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from graphham.graph.graph import Labels


def accuracy(labels: Labels, prediction: Labels) -> float | None:
    """Return the share of known labels predicted right, or micro-F1 where a node has several.

    ``None`` if no label is known. Both must share their classes.
    """
    known = labels.known
    if not known.any():
        return None
    if labels.codes is not None and prediction.codes is not None:
        return float(np.mean(labels.codes[known] == prediction.codes[known]))
    assert labels.matrix is not None
    assert prediction.matrix is not None
    rows = np.flatnonzero(known)
    truth, said = labels.matrix[rows], prediction.matrix[rows]
    both = truth.multiply(said).nnz
    return float(2 * both / max(1, truth.nnz + said.nnz))


def confusion(labels: Labels, prediction: Labels) -> npt.NDArray[np.int64]:
    """Return ``(num_classes, num_classes)`` known nodes by their label and what it was taken for.

    Of nodes with several labels, every label counts once for every label predicted.
    """
    count = len(labels.classes)
    if labels.codes is not None and prediction.codes is not None:
        known = labels.known & prediction.known
        counts = np.zeros((count, count), dtype=np.int64)
        np.add.at(counts, (labels.codes[known], prediction.codes[known]), 1)
        return counts
    assert labels.matrix is not None
    assert prediction.matrix is not None
    crossed = labels.matrix.T.astype(np.int64) @ prediction.matrix.astype(np.int64)
    return np.asarray(crossed.toarray(), dtype=np.int64)
