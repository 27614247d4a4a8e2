"""The planted mixtures are what they say, and the study measures them."""

import numpy as np
import pytest

from experiments.mixture_study import auc, measure_case, plant_mixtures


def test_links_follow_the_planted_shares() -> None:
    graph = plant_mixtures(600, 6, 2, degree=20, shares=(0.8, 0.1, 0.1), mixed=0.3, seed=0)
    assert (graph.second_share > 0).sum() == 180
    assert graph.second_share.max() <= 0.5
    a = graph.adjacency
    assert abs(a - a.T).sum() == 0
    assert a.nnz == 600 * 20
    pi = graph.memberships
    pure = graph.second_share == 0
    inside = (pi[pure].argmax(1)[:, None] == pi[pure].argmax(1)) & (a[pure][:, pure].toarray() > 0)
    assert inside.sum() / a[pure][:, pure].sum() == pytest.approx(0.8, abs=0.04)


def test_a_case_reports_found_bound_and_baseline() -> None:
    found, bound, base = measure_case(
        [0], num_nodes=500, groups=4, coarse=2, degree=20, has_words=True
    )
    assert found["auc"] > base["auc"]
    assert bound["corr"] > found["corr"] - 0.05
    (nobody,) = measure_case([0], num_nodes=500, groups=4, coarse=2, degree=20, mixed=0.0)
    assert nobody["w"] < 0.05


def test_auc_counts_ties_half() -> None:
    assert auc(np.array([True, False, False]), np.array([1.0, 1.0, 0.0])) == 0.75
