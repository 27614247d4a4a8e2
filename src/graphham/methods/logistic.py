"""Multinomial logistic regression by L-BFGS, on anything that can be multiplied.

The inputs may be a matrix or a product of matrices that is never formed: smoothed features, for
instance, are applied as "features times weights, then smooth", which costs the edges and not the
filled-in table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import expit, softmax

from graphham.graph.graph import Labels
from graphham.methods.fit_request import Rows
from graphham.training.multilabel import ranked_micro_f1

Array = npt.NDArray[Any]
# Strengths C of the fit against the penalty, weak to strong; each starts from the one before.
STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1000.0)
_ITERATIONS = 300


@dataclass(frozen=True)
class Operator:
    """A ``(num_nodes, width)`` input matrix known by its products.

    Args:
        times: Return the matrix times ``(width, classes)``.
        transposed: Return its transpose times ``(num_nodes, classes)``.
        width: Number of columns.
        taken: Return some rows as an operator of their own, where that saves work.
    """

    times: Callable[[Array], Array]
    transposed: Callable[[Array], Array]
    width: int
    taken: Callable[[Rows], Operator] | None = None

    @classmethod
    def of(cls, matrix: Any) -> Operator:
        """Wrap a NumPy or SciPy matrix."""
        # In the solver's own precision: SciPy would otherwise convert the matrix at every product.
        matrix = matrix.astype(np.float64)
        columns = matrix.T.tocsr() if hasattr(matrix, "tocsr") else matrix.T
        return cls(
            lambda w: matrix @ w,
            lambda g: columns @ g,
            int(matrix.shape[1]),
            lambda rows: cls.of(matrix[rows]),
        )


@dataclass(frozen=True, eq=False)
class Classifier:
    """A fitted classifier.

    Args:
        weight: ``(width, num_classes)``.
        bias: ``(num_classes,)``.
        strength: The chosen C.
        validation: Accuracy or micro-F1 on the validation rows, ``None`` without any.
    """

    weight: Array
    bias: Array
    strength: float
    validation: float | None

    def scores(self, inputs: Operator, is_multi: bool) -> npt.NDArray[np.float32]:
        """Return the ``(num_nodes, num_classes)`` probabilities of every node."""
        logits = inputs.times(self.weight) + self.bias
        found = expit(logits) if is_multi else softmax(logits, axis=1)
        return np.asarray(found, dtype=np.float32)


def fit_logistic(
    inputs: Operator,
    labels: Labels,
    train_rows: Rows,
    validation_rows: Rows,
    strengths: Sequence[float] = STRENGTHS,
) -> Classifier:
    """Minimise C * sum of cross-entropies + |W|^2 / 2, C chosen on the validation rows.

    Args:
        inputs: Inputs of all nodes.
        labels: Labels; only those of the given rows are read.
        train_rows: Rows to learn from.
        validation_rows: Rows that choose C; without any, C is the middle of ``strengths``.
        strengths: Values of C to try, ascending.
    """
    if not len(validation_rows):
        strengths = [strengths[len(strengths) // 2]]
    target = label_targets(labels, train_rows)
    is_multi = labels.is_multi
    count = target.shape[1]
    start = np.zeros((inputs.width + 1) * count)
    inner = inputs if inputs.taken is None else inputs.taken(train_rows)
    place = train_rows if inputs.taken is None else None
    best: Classifier | None = None
    for strength in strengths:
        start = _solve(inner, target, place, strength, is_multi, start)
        weight, bias = _parts(start, inputs.width, count)
        found = Classifier(weight, bias, float(strength), None)
        if not len(validation_rows):
            return found
        score = label_score(found.scores(inputs, is_multi), labels, validation_rows)
        if best is None or score > (best.validation or 0.0):
            best = Classifier(weight, bias, float(strength), score)
    assert best is not None
    return best


def _solve(
    inputs: Operator,
    target: Array,
    rows: Rows | None,
    strength: float,
    is_multi: bool,
    start: Array,
) -> Array:
    """Return the best weights and biases; ``rows`` are those of the target, all when ``None``."""
    count = target.shape[1]

    def objective(flat: Array) -> tuple[float, Array]:
        weight, bias = _parts(flat, inputs.width, count)
        all_logits = inputs.times(weight)
        chosen = all_logits if rows is None else all_logits[rows]
        logits = np.asarray(chosen + bias, dtype=np.float64)
        if is_multi:
            loss = float((np.logaddexp(0, logits) - target * logits).sum())
            slope = expit(logits) - target
        else:
            logits -= logits.max(1, keepdims=True)
            slope = np.exp(logits)
            total = slope.sum(1, keepdims=True)
            # Every row of the target sums to one.
            loss = float(np.log(total).sum() - (target * logits).sum())
            slope = slope / total - target
        spread = slope
        if rows is not None:
            spread = np.zeros((len(all_logits), count), dtype=weight.dtype)
            spread[rows] = slope
        down = strength * np.asarray(inputs.transposed(spread), dtype=np.float64)
        flat_slope = np.concatenate([(down + weight).ravel(), strength * slope.sum(0)])
        # Dividing by C keeps the solver's fixed tolerances meaningful from weak to strong.
        value = loss + 0.5 * float(weight.ravel() @ weight.ravel()) / strength
        return value, flat_slope / strength

    done = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _ITERATIONS, "maxcor": 10, "ftol": 1e-8, "gtol": 1e-4},
    )
    found: Array = done.x
    return found


def _parts(flat: Array, width: int, count: int) -> tuple[Array, Array]:
    return flat[: width * count].reshape(width, count), flat[width * count :]


def label_targets(labels: Labels, rows: Rows) -> Array:
    """Return the ``(rows, num_classes)`` zeros and ones of some rows, all of them labelled."""
    if labels.codes is not None:
        return np.eye(len(labels.classes))[labels.codes[rows]]
    assert labels.matrix is not None
    return np.asarray(labels.matrix[rows].toarray(), dtype=np.float64)


def label_score(scores: npt.NDArray[Any], labels: Labels, rows: Rows) -> float:
    """Return accuracy (single-label) or micro-F1 (multi-label) of class scores on some rows.

    Args:
        scores: ``(num_nodes, num_classes)``.
        labels: The truth; rows with unknown labels are left out.
        rows: Rows to score.
    """
    rows = rows[labels.known[rows]]
    if not len(rows):
        return float("nan")
    if labels.codes is not None:
        return float((scores[rows].argmax(1) == labels.codes[rows]).mean())
    assert labels.matrix is not None
    return ranked_micro_f1(scores[rows], labels.matrix[rows])
