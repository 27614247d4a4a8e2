"""Score pairs of nodes by the cosine of their vectors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from graphham.methods.fit_request import Rows

_PAIRS_AT_ONCE = 1 << 16


def cosines(vectors: npt.NDArray[np.float32], pairs: Rows) -> npt.NDArray[np.float64]:
    """Return the cosine of each pair of rows; 0 where a vector is zero."""
    norm = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    out = np.empty(len(pairs), dtype=np.float64)
    for start in range(0, len(pairs), _PAIRS_AT_ONCE):
        left, right = pairs[start : start + _PAIRS_AT_ONCE].T
        dots = np.einsum("ij,ij->i", vectors[left], vectors[right], dtype=np.float64)
        out[start : start + len(left)] = dots / np.maximum(norm[left] * norm[right], 1e-30)
    return out
