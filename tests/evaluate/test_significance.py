"""Paired tests against SciPy and against their own meaning."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from graphham.errors import InputError
from graphham.evaluate.significance import compare, holm

scores = st.lists(
    st.tuples(st.floats(0, 1, width=32), st.floats(0, 1, width=32)), min_size=3, max_size=20
)


@given(pairs=scores)
def test_plain_test_agrees_with_scipy(pairs: list[tuple[float, float]]) -> None:
    first, second = np.array(pairs, dtype=np.float64).T
    found = compare(first, second)
    gaps = first - second
    if gaps.std(ddof=1) < 1e-9:
        return
    assert found.p_plain == pytest.approx(stats.ttest_rel(first, second).pvalue, abs=1e-9)
    assert found.p_corrected is None
    assert found.effect == pytest.approx(gaps.mean() / gaps.std(ddof=1))
    assert found.wins == (gaps > 0).sum()


def test_correction_is_nadeau_and_bengios() -> None:
    draw = np.random.default_rng(0)
    first, second = draw.normal(0.02, 0.01, 15), draw.normal(0, 0.01, 15)
    found = compare(first, second, test_to_train=0.25)
    gaps = first - second
    t = gaps.mean() / math.sqrt((1 / 15 + 0.25) * gaps.var(ddof=1))
    assert found.p_corrected == pytest.approx(2 * stats.t.sf(abs(t), 14))
    assert found.p_plain is not None
    assert found.p == found.p_corrected > found.p_plain


def test_equal_methods_differ_in_nothing() -> None:
    found = compare([0.5, 0.6, 0.7], [0.5, 0.6, 0.7], 0.25)
    assert (found.difference, found.p_plain, found.p_corrected, found.effect) == (0, 1, 1, None)
    assert compare([0.6], [0.5]).p_plain is None
    assert compare([0.6, 0.7], [0.5, 0.6]).effect is None
    with pytest.raises(InputError, match="paired"):
        compare([1.0], [1.0, 2.0])


def test_corrected_test_keeps_its_level_where_the_plain_one_does_not() -> None:
    """Scores of overlapping training sets share an error; no method is better in truth."""
    draw = np.random.default_rng(1)
    plain = corrected = 0
    for _ in range(600):
        # Correlation test / (test + train), the assumption of the correction.
        gaps = draw.normal() * math.sqrt(0.2) + draw.normal(size=15) * math.sqrt(0.8)
        found = compare(gaps, np.zeros(15), 0.25)
        assert found.p_plain is not None
        assert found.p_corrected is not None
        plain += found.p_plain < 0.05
        corrected += found.p_corrected < 0.05
    assert corrected / 600 < 0.08
    assert plain / 600 > 0.2


@given(values=st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=8))
def test_holm_never_lowers_and_keeps_order(values: list[float | None]) -> None:
    adjusted = holm(values)
    pairs = [(p, a) for p, a in zip(values, adjusted, strict=True) if p is not None]
    assert [a is None for a in adjusted] == [p is None for p in values]
    assert all(a is not None and p <= a <= 1 for p, a in pairs)
    ranked = sorted(pairs)
    assert [a for _, a in ranked] == sorted(a for _, a in pairs if a is not None)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
