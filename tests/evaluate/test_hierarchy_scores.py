"""Hierarchy scores against all-pairs definitions, and by hand."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import linkage
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from graphham.errors import InputError
from graphham.evaluate.hierarchy_scores import (
    dendrogram_purity,
    hierarchy_scores,
    stability,
    tree_purity,
)
from graphham.graph.planted import planted_hierarchy


def slow_purity(levels: list[np.ndarray], classes: np.ndarray) -> float:
    everything = np.zeros(len(classes), dtype=int)
    values = []
    for i, j in itertools.combinations(range(len(classes)), 2):
        if classes[i] != classes[j] or classes[i] < 0:
            continue
        # The finest group holding both; a fine group split by a coarser level does not count.
        path = [everything, *reversed(levels)]
        together = np.ones(len(classes), dtype=bool)
        for codes in path:
            if codes[i] != codes[j]:
                break
            together &= codes == codes[i]
        group = classes[together & (classes >= 0)]
        values.append((group == classes[i]).mean())
    return float(np.mean(values)) if values else 1.0


@given(seed=st.integers(0, 60))
def test_tree_purity_agrees_with_all_pairs(seed: int) -> None:
    draw = np.random.default_rng(seed)
    fine = draw.integers(6, size=20)
    coarse = (fine // 2) if seed % 2 else draw.integers(3, size=20)
    classes = draw.integers(-1, 3, size=20)
    found = tree_purity([fine, coarse], classes)
    assert found == pytest.approx(slow_purity([fine, coarse], classes))


@given(seed=st.integers(0, 60))
def test_dendrogram_purity_agrees_with_all_pairs(seed: int) -> None:
    draw = np.random.default_rng(seed)
    tree = linkage(draw.normal(size=(12, 2)), "average")
    classes = draw.integers(0, 3, size=12)
    members = {i: {i} for i in range(12)}
    values = []
    for number, (a, b, *_) in enumerate(tree):
        left, right = members[int(a)], members[int(b)]
        members[12 + number] = left | right
        group = classes[list(left | right)]
        for i, j in itertools.product(left, right):
            if classes[i] == classes[j]:
                values.append((group == classes[i]).mean())
    wanted = np.mean(values) if values else 1.0
    assert dendrogram_purity(tree, classes) == pytest.approx(wanted)


def test_perfect_groups_score_one_and_collapse_scores_badly() -> None:
    planted = planted_hierarchy((3, 4), 240, seed=0)
    fine, coarse = planted.levels
    found = hierarchy_scores([fine, coarse], planted.graph.labels)
    assert found["nesting"] == found["nmi_1"] == 1
    assert found["purity"] == found["used_share"] == 1
    assert found["effective_2"] == pytest.approx(3)
    nothing = np.zeros(240, dtype=np.int32)
    collapsed = hierarchy_scores([nothing, nothing], planted.graph.labels, group_counts=[12, 3])
    assert collapsed["nesting"] == 0
    assert collapsed["used_share"] == pytest.approx(1 / 12)
    assert collapsed["purity"] < 0.1


def test_test_nodes_are_scored_apart() -> None:
    planted = planted_hierarchy((2, 2), 200, seed=0)
    fine = planted.levels[0].copy()
    test = np.arange(0, 200, 4)
    fine[test] = np.random.default_rng(0).integers(4, size=len(test))
    found = hierarchy_scores([fine], planted.graph.labels, test_rows=test)
    assert found["nmi_test_1"] < 0.3 < found["nmi_1"]


def test_stability_is_mean_pairwise_agreement() -> None:
    draw = np.random.default_rng(0)
    runs = [draw.integers(4, size=50).astype(np.int32) for _ in range(3)]
    pairs = list(itertools.combinations(runs, 2))
    found = stability(runs)
    assert found["ari"] == pytest.approx(np.mean([adjusted_rand_score(a, b) for a, b in pairs]))
    nmi = [normalized_mutual_info_score(a, b) for a, b in pairs]
    assert found["nmi"] == pytest.approx(np.mean(nmi))
    assert stability([runs[0], (runs[0] + 1) % 4]) == pytest.approx({"nmi": 1, "ari": 1})
    with pytest.raises(InputError, match="two runs"):
        stability(runs[:1])
