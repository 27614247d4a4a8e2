"""Explanations add up to the memberships they explain."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import softmax

from graphham.groups.contributions import (
    MeanFieldRound,
    explain_membership,
    mean_field_logits,
    surprise_of_links,
)
from graphham.groups.mixtures import link_odds

PARENT = np.array([0, 0, 1, 1, 1, 2])


def make_round(seed=0, count=40, **changes) -> MeanFieldRound:
    rng = np.random.default_rng(seed)
    a = sp.random(count, count, 0.2, random_state=seed, format="csr")
    a = sp.csr_matrix(a + a.T)
    a.sort_indices()
    groups = len(PARENT)
    made = MeanFieldRound(
        indptr=a.indptr,
        indices=a.indices,
        weights=a.data.astype(np.float32) * 3,
        heard=rng.dirichlet(np.ones(groups), count).astype(np.float32),
        table=rng.normal(0, 1, (groups, groups)).astype(np.float32),
        rho=(1 / (1 + np.diff(a.indptr) / 64)).astype(np.float32),
        features=rng.normal(0, 2, (count, groups)).astype(np.float32),
        parent=PARENT,
        parent_features=rng.normal(0, 1, (count, 3)).astype(np.float32),
        log_prior=np.log(rng.dirichlet(np.ones(groups))).astype(np.float32),
    )
    return replace(made, **changes)


def plain_memberships(r: MeanFieldRound) -> np.ndarray:
    """The form of the model, term by term."""
    count, groups = r.heard.shape
    logits = np.zeros((count, groups))
    for i in range(count):
        for k in range(groups):
            logits[i, k] += r.log_prior[k] + r.features[i, k] + r.parent_features[i, r.parent[k]]
            for e in range(r.indptr[i], r.indptr[i + 1]):
                j = r.indices[e]
                said = sum(r.heard[j, m] * r.table[k, m] for m in range(groups))
                logits[i, k] += r.rho[i] * r.weights[e] * said
    return softmax(logits, axis=1)


def test_parts_add_up_to_the_log_odds_of_the_membership() -> None:
    made = make_round()
    pi = plain_memberships(made)
    for row in range(len(pi)):
        np.testing.assert_allclose(softmax(mean_field_logits(made, row)), pi[row], atol=1e-6)
        found = explain_membership(made, row)
        best = np.argsort(-pi[row])
        assert (found.group, found.other) == (best[0], best[1])
        assert found.log_odds == pytest.approx(
            math.log(pi[row, best[0]] / pi[row, best[1]]), abs=1e-5
        )
        assert found.total == pytest.approx(found.log_odds, abs=1e-5)
        assert found.spread == 0
        a, b = found.group, found.other
        assert found.features == pytest.approx(
            made.features[row, a] - made.features[row, b], abs=1e-5
        )
        part = slice(made.indptr[row], made.indptr[row + 1])
        np.testing.assert_array_equal(found.neighbor_rows, made.indices[part])
        expected = (
            made.rho[row]
            * made.weights[part]
            * (made.heard[made.indices[part]] @ (made.table[a] - made.table[b]))
        )
        np.testing.assert_allclose(found.neighbors, expected, atol=1e-5)


def test_parts_add_up_on_a_level_above() -> None:
    made = make_round(1)
    pi = plain_memberships(made)
    upper = np.stack([pi[:, g == PARENT].sum(1) for g in range(3)], axis=1)
    spreads = []
    for row in range(len(pi)):
        found = explain_membership(made, row, ancestor=PARENT)
        best = np.argsort(-upper[row])
        assert (found.group, found.other) == (best[0], best[1])
        log_odds = math.log(upper[row, best[0]] / upper[row, best[1]])
        assert found.log_odds == pytest.approx(log_odds, abs=1e-5)
        assert found.total == pytest.approx(log_odds, abs=1e-5)
        spreads.append(abs(found.spread))
    assert max(spreads) > 0.1


def test_groups_to_compare_can_be_given() -> None:
    made = make_round(2)
    pi = plain_memberships(made)
    found = explain_membership(made, 3, group=5, other=1)
    assert found.total == pytest.approx(math.log(pi[3, 5] / pi[3, 1]), abs=1e-5)


def test_saturated_memberships_still_add_up() -> None:
    """Log-odds of 700 leave nothing of the other membership in any float."""
    made = make_round(3, features=np.random.default_rng(0).normal(0, 400, (40, 6)))
    for row in range(40):
        found = explain_membership(made, row)
        assert found.total == pytest.approx(found.log_odds, abs=1e-5)
        assert math.isfinite(found.log_odds)


def test_parts_that_a_model_lacks_are_zero() -> None:
    made = make_round(4, weights=None, features=None, parent_features=None, log_prior=None)
    found = explain_membership(made, 0)
    assert (found.prior, found.features, found.parent) == (0, 0, 0)
    assert found.total == pytest.approx(found.log_odds, abs=1e-5)
    assert found.log_odds > 0


def test_a_single_group_needs_no_reason() -> None:
    made = MeanFieldRound(
        np.array([0, 1, 2]), np.array([1, 0]), None, np.ones((2, 1)), np.ones((1, 1)), np.ones(2)
    )
    found = explain_membership(made, 0)
    assert (found.group, found.other, found.log_odds, found.total) == (0, 0, 0, 0)


def test_surprise_is_minus_the_log_of_the_block_odds() -> None:
    made = make_round(5)
    pi, table = made.heard, np.exp(made.table)  # not symmetric: a directed graph's
    expected = [
        -math.log(sum(pi[i, k] * table[k, m] * pi[j, m] for k in range(6) for m in range(6)))
        for i in range(40)
        for j in made.indices[made.indptr[i] : made.indptr[i + 1]]
    ]
    odds = link_odds(pi, table)
    found = surprise_of_links(made.indptr, made.indices, pi, odds)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    parts = [
        surprise_of_links(made.indptr, made.indices, pi, odds, start, stop)
        for start, stop in ((0, 7), (7, 8), (8, 40))
    ]
    np.testing.assert_array_equal(np.concatenate(parts), found)
