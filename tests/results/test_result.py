from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import DivergedError, InputError
from graphham.results.result import concentration
from tests.outputs import make_result


@given(count=st.integers(1, 20), widths=st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_evenly_spread_nodes_score_zero(count: int, widths: list[int]) -> None:
    flat = [np.full((count, k), 1 / k, dtype=np.float32) for k in widths]
    np.testing.assert_allclose(concentration(flat), 0, atol=1e-9)


@given(count=st.integers(1, 12), widths=st.lists(st.integers(1, 6), min_size=1, max_size=3))
def test_concentration_equals_the_written_out_formula(count: int, widths: list[int]) -> None:
    rng = np.random.default_rng(count)
    members = [rng.dirichlet(np.ones(k), count).astype(np.float32) for k in widths]
    telling = [m for m in members if m.shape[1] > 1]
    # How far the chance that two draws agree lies above that of even shares, of all it could.
    expected = [
        np.mean([(sum(p * p for p in m[i]) - 1 / len(m[i])) / (1 - 1 / len(m[i])) for m in telling])
        if telling
        else 0.0
        for i in range(count)
    ]
    np.testing.assert_allclose(concentration(members), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("groups", [2, 3, 20, 300])
def test_the_scale_runs_from_nought_to_one_for_any_number_of_groups(groups: int) -> None:
    sure = np.eye(groups, dtype=np.float32)[:1]
    flat = np.full((1, groups), 1 / groups, dtype=np.float32)
    found = concentration([np.vstack([sure, flat])])
    np.testing.assert_allclose(found, [1, 0], atol=1e-6)
    # A level of one group above says nothing, so it changes nothing.
    above = np.ones((2, 1), dtype=np.float32)
    np.testing.assert_array_equal(concentration([np.vstack([sure, flat]), above]), found)


def test_one_sure_node_scores_highest() -> None:
    rows = np.array([[1, 0, 0], [0.6, 0.3, 0.1], [1 / 3, 1 / 3, 1 / 3]], dtype=np.float32)
    assert list(np.argsort(-concentration([rows]))) == [0, 1, 2]


def test_layers_are_slices_of_the_embedding() -> None:
    result = make_result(10)
    np.testing.assert_array_equal(np.hstack([result.layer(1), result.layer(2)]), result.embedding)
    with pytest.raises(InputError, match="no layer 3"):
        result.layer(3)


def test_validate_names_the_node_whose_membership_is_wrong() -> None:
    result = make_result(10, ids=[f"node-{i}" for i in range(10)])
    wrong = result.memberships[1].copy()
    wrong[7] *= 2
    with pytest.raises(InputError, match=r"node-7.*level 2"):
        replace(result, memberships=[result.memberships[0], wrong]).validate()
    wrong[7] = np.nan
    with pytest.raises(InputError, match=r"node-7"):
        replace(result, memberships=[result.memberships[0], wrong]).validate()


def test_validate_refuses_what_does_not_fit_together() -> None:
    result = make_result(10, classify=True)
    other = make_result(10, labels="integer", classify=True)
    high = result.groups[0].copy()
    high[0] = 6
    cases = {
        "same classes": {"prediction": other.prediction},
        "groups of level 1": {"groups": [high, result.groups[1]]},
        "parents of level 1": {"parents": [np.full(6, 3, dtype=np.int32)]},
        "embedding": {"layer_dims": (4, 5)},
        "confidence": {"confidence": np.full(10, np.nan, dtype=np.float32)},
        "1 levels of memberships": {"memberships": result.memberships[:1]},
    }
    for words, change in cases.items():
        with pytest.raises(InputError, match=words):
            replace(result, **change).validate()


@pytest.mark.parametrize(("value", "word"), [(0.0, "zero"), (0.3, "the same")])
def test_vectors_that_tell_no_nodes_apart_are_refused(value: float, word: str) -> None:
    result = make_result(10)
    alike = np.full_like(result.embedding, value)
    rates = {"train.lr": (5.0, 0.01)}
    with pytest.raises(DivergedError, match=f"all 10 nodes .*train.lr = 5 came out {word}"):
        replace(result, embedding=alike).refuse_not_finite(rates)
    alike[-1, -1] += np.float32(1e-6)  # one that differs is enough
    replace(result, embedding=alike).refuse_not_finite(rates)
