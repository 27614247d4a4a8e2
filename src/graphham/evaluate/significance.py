"""Is a difference more than luck? Paired tests over folds, corrected for shared training data.

Folds of one graph share most of their training nodes, so their scores are not independent and the
plain t-test finds differences that are not there. Nadeau and Bengio widen the variance by the ratio
of test to training size; Holm's step-down then pays for making several comparisons at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphham.errors import InputError


@dataclass(frozen=True)
class Comparison:
    """How much better one method is than another on the same folds.

    Args:
        difference: Mean of first minus second.
        deviation: Sample deviation of the differences.
        count: Number of pairs.
        wins: Pairs in which the first is better.
        p_plain: Two-sided p of the paired t-test; ``None`` with fewer than two pairs.
        p_corrected: The same after Nadeau and Bengio; ``None`` where training sets do not overlap.
        effect: Cohen's d of the paired differences; ``None`` when they do not vary.
    """

    difference: float
    deviation: float
    count: int
    wins: int
    p_plain: float | None
    p_corrected: float | None
    effect: float | None

    @property
    def p(self) -> float | None:
        """The p value to go by: corrected where a correction applies."""
        return self.p_plain if self.p_corrected is None else self.p_corrected


def compare(
    first: Sequence[float], second: Sequence[float], test_to_train: float | None = None
) -> Comparison:
    """Compare two methods measured on the same folds, in the same order.

    Args:
        first: One score per fold.
        second: The other method's scores.
        test_to_train: Number of test examples divided by the number of training examples; ``None``
            when training sets do not overlap, which leaves the corrected p out.
    """
    if len(first) != len(second):
        raise InputError(f"{len(first)} scores cannot be paired with {len(second)}")
    if not len(first):
        raise InputError("there are no scores to compare")
    gaps = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    count = len(gaps)
    mean = float(gaps.mean())
    deviation = float(gaps.std(ddof=1)) if count > 1 else 0.0
    # Scores of equal methods may differ in the last bit; that is no variation.
    varies = deviation > 1e-12 * max(1.0, abs(mean))
    corrected = None
    if test_to_train is not None:
        corrected = _p_value(mean, deviation if varies else 0.0, count, 1 / count + test_to_train)
    return Comparison(
        difference=mean,
        deviation=deviation,
        count=count,
        wins=int((gaps > 0).sum()),
        p_plain=_p_value(mean, deviation if varies else 0.0, count, 1 / count),
        p_corrected=corrected,
        effect=mean / deviation if varies else None,
    )


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjust p values for their number, keeping their order; ``None`` stays and is not counted."""
    given = [(p, at) for at, p in enumerate(p_values) if p is not None]
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, at) in enumerate(sorted(given)):
        highest = max(highest, min(1.0, (len(given) - rank) * p))
        adjusted[at] = highest
    return adjusted


def _p_value(mean: float, deviation: float, count: int, share: float) -> float | None:
    if count < 2:
        return None
    if deviation == 0:
        return 1.0 if abs(mean) < 1e-12 else 0.0
    from scipy.special import stdtr

    t = mean / (deviation * math.sqrt(share))
    return float(2 * stdtr(count - 1, -abs(t)))
