"""Scores of group codes against scikit-learn and loops over pairs; decoding along paths."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, mutual_info_score, normalized_mutual_info_score

from graphham.results.scores import (
    collapse_notes,
    conditional_entropy,
    effective_groups,
    groups_used,
    label_scores,
    majority_parents,
    nesting_score,
    path_decode,
    show_paths,
    violation_rate,
)
from tests.outputs import make_result, random_labels

codes = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), min_size=1, max_size=40).map(
    lambda pairs: tuple(np.array(pairs, dtype=np.int32).T)
)


shapes = st.lists(st.integers(1, 8), min_size=1, max_size=4).map(
    lambda counts: tuple(sorted(counts, reverse=True))
)


@given(codes)
def test_nesting_is_shared_information_over_upper_entropy(pair) -> None:
    lower, upper = pair
    entropy = mutual_info_score(upper, upper)
    expected = mutual_info_score(lower, upper) / entropy if len(set(upper)) > 1 else 0.0
    assert nesting_score(lower, upper) == pytest.approx(expected, abs=1e-9)
    assert conditional_entropy(lower, upper) == pytest.approx(
        entropy - mutual_info_score(lower, upper), abs=1e-9
    )


@given(codes)
def test_violation_rate_equals_the_loop_over_pairs(pair) -> None:
    lower, upper = pair
    together = [(i, j) for i, j in combinations(range(len(lower)), 2) if lower[i] == lower[j]]
    parted = sum(upper[i] != upper[j] for i, j in together)
    assert violation_rate(lower, upper) == pytest.approx(parted / max(len(together), 1))


def test_nesting_at_its_ends() -> None:
    lower = np.repeat(np.arange(6), 10)
    assert nesting_score(lower, lower // 2) == pytest.approx(1)
    assert nesting_score(lower, np.zeros(60, dtype=int)) == 0  # collapsed: no credit
    assert nesting_score(lower, np.tile([0, 1], 30)) == pytest.approx(0, abs=1e-12)


def test_groups_in_use_and_effective_groups() -> None:
    sizes = [495, 495, 10, 0, 0]
    some = np.repeat(np.arange(5), sizes)
    assert groups_used(some, 5) == 3
    assert groups_used(some, 5, share=0.02) == 2
    assert groups_used(some, 5, share=0) == 3
    assert groups_used(np.array([0] * 999 + [1]), 5) == 2  # one node is enough to be in use
    assert effective_groups(np.repeat(np.arange(4), 7)) == pytest.approx(4)
    assert effective_groups(np.zeros(9, dtype=int)) == pytest.approx(1)


@given(codes)
def test_majority_parents_lose_the_fewest_nodes(pair) -> None:
    lower, upper = pair
    parents = majority_parents(lower, upper, 5, 3)
    kept = (parents[lower] == upper).sum()
    for group in range(5):
        for other in range(3):
            changed = parents.copy()
            changed[group] = other
            assert (changed[lower] == upper).sum() <= kept


@given(shapes, st.integers(1, 40))
def test_decoding_along_the_path_nests_and_takes_the_best_child(shape, count) -> None:
    result = make_result(count, shape)
    groups = path_decode(result.memberships, result.parents)
    np.testing.assert_array_equal(groups[-1], result.memberships[-1].argmax(1))
    for level, parent in enumerate(result.parents):
        np.testing.assert_array_equal(parent[groups[level]], groups[level + 1])
        for row in range(count):
            siblings = [k for k in range(shape[level]) if parent[k] == groups[level + 1][row]]
            best = max(siblings, key=lambda k: result.memberships[level][row, k])
            assert groups[level][row] == best


def test_decoding_never_enters_a_group_without_children() -> None:
    members = [np.array([[0.4, 0.6]]), np.array([[0.2, 0.3, 0.5]]), np.array([[0.1, 0.9]])]
    # Group 2 of the middle and group 1 of the top lead nowhere, although both look best.
    groups = path_decode(members, [np.array([0, 1]), np.array([0, 0, 1])])
    assert [int(g[0]) for g in groups] == [1, 1, 0]


def nested_memberships(rng, count: int, counts, parents) -> list[np.ndarray]:
    """Random memberships in which every coarse one is the sum of its children's."""
    out = [rng.dirichlet(np.full(counts[0], rng.choice([0.2, 1, 5])), count)]
    for level, parent in enumerate(parents):
        summed = np.zeros((count, counts[level + 1]))
        np.add.at(summed.T, parent, out[-1].T)
        out.append(summed)
    return [m.astype(np.float32) for m in out]


@settings(max_examples=150)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.booleans(), st.integers(0, 2**31))
def test_the_shown_group_is_the_strongest_and_lies_inside_the_one_above(counts, sums, seed) -> None:
    """Over random trees, also with groups that have no children, and with tied memberships."""
    counts = sorted(counts, reverse=True)
    rng = np.random.default_rng(seed)
    parents = [rng.integers(0, up, low) for low, up in pairwise(counts)]
    if sums:
        given = nested_memberships(rng, 30, counts, parents)
    else:
        given = [rng.dirichlet(np.full(k, 0.5), 30).astype(np.float32) for k in counts]
        given = [np.concatenate([m, np.full((1, m.shape[1]), 1 / m.shape[1], "f4")]) for m in given]
    shown = [m.copy() for m in given]
    groups = show_paths(shown, parents, sums)
    for level, parent in enumerate(parents):
        np.testing.assert_array_equal(parent[groups[level]], groups[level + 1])
    for codes, expected, member in zip(groups, path_decode(given, parents), shown, strict=True):
        np.testing.assert_array_equal(codes, expected)
        np.testing.assert_array_equal(codes, member.argmax(1))
        np.testing.assert_allclose(member.sum(1), 1, atol=1e-5)
        assert (member >= 0).all()
    # Nothing moves where the path was the maximum already.
    kept = np.all([m.argmax(1) == c for m, c in zip(given, groups, strict=True)], axis=0)
    for before, after in zip(given, shown, strict=True):
        np.testing.assert_array_equal(before[kept], after[kept])
    if sums:
        np.testing.assert_allclose(shown[-1], given[-1], atol=1e-6)
        for level, parent in enumerate(parents):
            summed = np.zeros(shown[level + 1].shape)
            np.add.at(summed.T, parent, shown[level].T.astype(np.float64))
            np.testing.assert_allclose(summed, shown[level + 1], atol=1e-5)


def test_a_path_takes_the_least_share_that_makes_it_the_strongest() -> None:
    parents = [np.array([0, 1, 1])]
    # The pair of fine groups is stronger than the single one, but each of the two is weaker.
    member = [np.array([[0.4, 0.32, 0.28]], "f4"), np.array([[0.4, 0.6]], "f4")]
    groups = show_paths(member, parents, sums=True)
    assert [int(g[0]) for g in groups] == [1, 1]
    np.testing.assert_allclose(member[0], [[0.4, 0.4, 0.2]], atol=1e-6)
    np.testing.assert_array_equal(member[1], np.array([[0.4, 0.6]], "f4"))
    # Levels that are no sums: the fine level alone prefers a group outside, and gives way.
    member = [np.array([[0.6, 0.2, 0.2]], "f4"), np.array([[0.1, 0.9]], "f4")]
    groups = show_paths(member, parents, sums=False)
    assert [int(g[0]) for g in groups] == [1, 1]
    np.testing.assert_allclose(member[0], [[3 / 7, 3 / 7, 1 / 7]], atol=1e-6)


@given(st.integers(1, 60), st.sampled_from(["text", "multi"]))
def test_label_scores_agree_with_scikit_learn(count: int, kind: str) -> None:
    rng = np.random.default_rng(count)
    labels = random_labels(rng, count, kind)
    assert labels is not None
    groups = rng.integers(0, 4, count)
    scores = label_scores(groups, labels)
    values = [v[0] if isinstance(v, list) and len(v) == 1 else v for v in labels.values()]
    single = [isinstance(v, str) for v in values]
    truth = [v for v, s in zip(values, single, strict=True) if s]
    assert scores["nodes"] == len(truth)
    if not truth:
        assert scores["nmi"] is None
        return
    mine = groups[np.array(single)]
    assert scores["nmi"] == pytest.approx(normalized_mutual_info_score(truth, mine), abs=1e-9)
    assert scores["ari"] == pytest.approx(adjusted_rand_score(truth, mine), abs=1e-9)
    most = sum(
        max(sum(t == c for t, g in zip(truth, mine, strict=True) if g == k) for c in set(truth))
        for k in set(mine)
    )
    assert scores["purity"] == pytest.approx(most / len(truth))


def test_collapse_is_reported_with_what_to_change():
    rng = np.random.default_rng(0)
    fine = rng.integers(0, 12, 500)
    assert collapse_notes([fine, fine // 4], (12, 3)) == []
    (note, other) = collapse_notes([fine, np.zeros(500, dtype=int)], (12, 3))
    assert "only 1 of the 3 groups of level 2" in note
    assert "--groups" in note
    assert "hardly nest" in other
    (note,) = collapse_notes([fine % 2, fine % 2], (12, 2))
    assert "only 2 of the 12 groups of level 1" in note
    crossed = collapse_notes([fine, rng.integers(0, 3, 500)], (12, 3))
    assert len(crossed) == 1
    assert "loss.must_link_weight" in crossed[0]
    # A single group cannot collapse, and one level cannot fail to nest.
    assert collapse_notes([fine * 0], (1,)) == []
    # Three hundred even groups hold less than one percent each, and all are in use.
    many = np.arange(3000) % 300
    assert collapse_notes([many, many // 100], (300, 3)) == []
