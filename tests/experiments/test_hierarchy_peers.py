"""Peers find trees whose truth is known, and nest."""

import pytest
from sklearn.metrics import normalized_mutual_info_score

from experiments.hierarchy_peers import peer_hierarchy
from graphham.errors import InputError
from graphham.evaluate.hierarchy_scores import dendrogram_purity
from graphham.graph.planted import planted_hierarchy
from graphham.results.scores import nesting_score


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


def test_a_peer_that_goes_in_circles_is_left_behind():
    import scipy.sparse as sp

    from experiments import hierarchy_peers as peers

    ring = sp.csr_matrix(sp.diags([1.0, 1.0], [-1, 1], shape=(40, 40)))
    whole = list(peers._watched("leiden", ring, [0.1, 1.0, 10.0], 0))
    assert [len(found) for found in whole] == [40] * 3
    # A millisecond does not even load the library, so every resolution runs out of time.
    assert list(peers._watched("leiden", ring, [0.1, 1.0], 0, patience=0.001)) == []
