"""Draw the features of planted graphs: binary words or Gaussian vectors around group means."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

# Draws are made for this many nodes at a time, so that memory follows the result and not the draws.
_CHUNK = 1 << 20


def shown_memberships(
    memberships: sp.csr_matrix, noise: float, num_leaves: int, rng: np.random.Generator
) -> sp.csr_matrix:
    """Return the memberships the features describe: the true ones but for a share of noise."""
    if noise == 0:
        return memberships
    num_nodes = memberships.shape[0]
    leaf = np.asarray(memberships.indices[memberships.indptr[:-1]], dtype=np.int64)
    random = rng.integers(0, num_leaves, size=num_nodes)
    is_noisy = rng.random(num_nodes) < noise
    keep = sp.diags(np.where(is_noisy, 0.0, 1.0), format="csr") @ memberships
    noisy = sp.csr_matrix(
        (is_noisy.astype(np.float64), (np.arange(num_nodes), np.where(is_noisy, random, leaf))),
        shape=memberships.shape,
    )
    mixed = (keep + noisy).astype(np.float32).tocsr()
    mixed.eliminate_zeros()
    return mixed


def word_features(
    shown: sp.csr_matrix, words: int, on: float, off: float, rng: np.random.Generator
) -> sp.csr_matrix:
    """Draw binary words: a background over all words, and a boost on the words of each leaf.

    A word is on if either draw hits it, so the boost is chosen to bring the sum to the asked rate.
    """
    num_nodes, num_leaves = shown.shape
    bounds = np.arange(num_leaves + 1, dtype=np.int64) * words // num_leaves
    indptr = np.zeros(num_nodes + 1, dtype=np.int64)
    pieces = []
    for start in range(0, num_nodes, _CHUNK):
        stop = min(start + _CHUNK, num_nodes)
        low, high = shown.indptr[start], shown.indptr[stop]
        leaf = shown.indices[low:high]
        target = off + (on - off) * shown.data[low:high].astype(np.float64)
        boost = (target - off) / (1 - off) if off < 1 else np.zeros_like(target)
        background = rng.binomial(words, off, size=stop - start)
        own = rng.binomial(np.diff(bounds)[leaf], boost)
        columns = np.empty(int(background.sum() + own.sum()), dtype=np.int32)
        filled = _pick_words(
            rng.random(len(columns)),
            background,
            own,
            shown.indptr[start : stop + 1] - low,
            leaf,
            bounds,
            columns,
            indptr[start : stop + 1],
        )
        pieces.append(columns[:filled].copy())
    columns = np.concatenate(pieces)
    data = np.ones(len(columns), dtype=np.float32)
    return sp.csr_matrix((data, columns, indptr), shape=(num_nodes, words))


@numba.njit(cache=True)
def _pick_words(
    uniform: Any,
    background: Any,
    own: Any,
    parts: Any,
    leaf: Any,
    bounds: Any,
    columns: Any,
    indptr: Any,
) -> int:
    """Place the drawn numbers of words without replacement; rows come out sorted and distinct."""
    words = bounds[-1]
    # Which draw took a word last: the background, each leaf's boost and the merge all count as one.
    taken = np.full(words, -1, dtype=np.int64)
    used, filled, draw = 0, 0, 0
    base = indptr[0]
    for row in range(len(background)):
        first = filled
        for part in range(parts[row] - 1, parts[row + 1]):
            if part < parts[row]:
                low, size, count = 0, words, background[row]
            else:
                low = bounds[leaf[part]]
                size, count = bounds[leaf[part] + 1] - low, own[part]
            for last in range(size - count, size):
                word = low + min(int(uniform[used] * (last + 1)), last)
                used += 1
                # Floyd: a word this draw already holds is replaced by the newest one, surely free.
                if taken[word] == draw:
                    word = low + last
                taken[word] = draw
                columns[filled] = word
                filled += 1
            draw += 1
        distinct = first
        for at in range(first, filled):
            if taken[columns[at]] != draw:
                taken[columns[at]] = draw
                columns[distinct] = columns[at]
                distinct += 1
        draw += 1
        filled = distinct
        columns[first:filled].sort()
        indptr[row + 1] = base + filled
    return filled


def gaussian_features(
    shown: sp.csr_matrix,
    tree: tuple[int, ...],
    dim: int,
    strength: float,
    rng: np.random.Generator,
) -> npt.NDArray[np.float32]:
    """Draw dense features around leaf means that share a part with every level above them."""
    num_leaves = math.prod(tree)
    means = np.zeros((num_leaves, dim), dtype=np.float32)
    for depth in range(1, len(tree) + 1):
        parts = rng.standard_normal((math.prod(tree[:depth]), dim))
        means += np.repeat(parts, num_leaves // len(parts), axis=0)
    means *= strength / math.sqrt(dim * len(tree))
    values = rng.standard_normal((shown.shape[0], dim), dtype=np.float32)
    for start in range(0, len(values), _CHUNK):
        values[start : start + _CHUNK] += shown[start : start + _CHUNK] @ means
    return values
