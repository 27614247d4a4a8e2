"""Hierarchy scores against all-pairs definitions, and peers on trees whose truth is known."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import linkage
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from graphham.errors import InputError
from graphham.evaluate.hierarchy_peers import peer_hierarchy
from graphham.evaluate.hierarchy_scores import (
    dendrogram_purity,
    hierarchy_scores,
    stability,
    tree_purity,
)
from graphham.evaluate.planted_cases import CASES, planted_graph
from graphham.graph.planted import planted_hierarchy
from graphham.results.scores import nesting_score


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
    found = hierarchy_scores([fine, coarse], planted.graph.labels, evidence=[fine, coarse])
    assert found["nesting"] == found["nesting_evidence"] == found["nmi_1"] == 1
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


@pytest.mark.parametrize("name", ["louvain", "leiden", "paris", "ward", "kmeans"])
def test_peers_find_an_easy_tree_and_nest(name: str) -> None:
    planted = planted_hierarchy((2, 3), 300, mean_degree=14, word_on=0.4, words=90, seed=2)
    peer = peer_hierarchy(name, planted.graph, (6, 2), seed=0)
    fine, coarse = peer.levels
    assert nesting_score(fine, coarse) == pytest.approx(1)
    assert normalized_mutual_info_score(planted.levels[0], fine) > 0.6
    if name != "leiden":
        assert normalized_mutual_info_score(planted.levels[1], coarse) > 0.6
    if peer.linkage is not None:
        assert planted.graph.labels is not None
        assert dendrogram_purity(peer.linkage, planted.graph.labels.codes) > 0.6


def test_unknown_peer_is_refused() -> None:
    with pytest.raises(InputError, match="louvain"):
        peer_hierarchy("lovain", planted_hierarchy((2, 2), 80, seed=0).graph, (4, 2))


@pytest.mark.parametrize("name", list(CASES))
def test_planted_cases_share_edges_as_they_say(name: str) -> None:
    graph, (fine, coarse) = planted_graph(name, 3)
    case = CASES[name]
    a, b = graph.edge_list().T
    same = float((fine[a] == fine[b]).mean())
    inside = float((coarse[a] == coarse[b]).mean())
    own, near, anywhere = case.shares
    assert same == pytest.approx(own + near / 4 + anywhere / 12, abs=0.03)
    assert inside == pytest.approx(own + near + anywhere / 3, abs=0.03)
    if case.partners:
        # Each group has the same two partners (and is one of theirs): four of twelve groups.
        table = np.zeros((12, 12))
        np.add.at(table, (fine[a], fine[b]), 1)
        table += table.T
        share = np.sort(table, axis=1)[:, -4:].sum(axis=1) / table.sum(axis=1)
        assert (share > 0.75).all()
    empty = float((np.asarray(graph.features) == 0).all(axis=1).mean())
    assert empty == pytest.approx(case.missing, abs=0.03)
    again = planted_graph(name, 3)[0].fingerprint()
    assert again == graph.fingerprint() != planted_graph(name, 4)[0].fingerprint()


def test_a_peer_that_goes_in_circles_is_left_behind():
    import scipy.sparse as sp

    from graphham.evaluate import hierarchy_peers as peers

    ring = sp.csr_matrix(sp.diags([1.0, 1.0], [-1, 1], shape=(40, 40)))
    whole = list(peers._watched("leiden", ring, [0.1, 1.0, 10.0], 0))
    assert [len(found) for found in whole] == [40] * 3
    # A millisecond does not even load the library, so every resolution runs out of time.
    assert list(peers._watched("leiden", ring, [0.1, 1.0], 0, patience=0.001)) == []
