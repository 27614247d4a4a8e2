"""Peers find trees whose truth is known, and nest."""

import numpy as np
import pytest
from sklearn.metrics import normalized_mutual_info_score

from experiments.hierarchy_peers import peer_hierarchy, system_python
from graphham.errors import InputError
from graphham.evaluate.hierarchy_scores import dendrogram_purity
from graphham.graph.planted import planted_hierarchy
from graphham.results.scores import nesting_score

NESTED = ("louvain", "leiden", "paris", "ward", "kmeans", "smooth-kmeans", "smooth-ward")
SYSTEM = {"nested-sbm": "graph_tool", "leidenalg": "leidenalg"}


@pytest.mark.parametrize("name", [*NESTED, "spectral-kmeans", *SYSTEM])
def test_peers_find_an_easy_tree_and_nest(name: str) -> None:
    planted = planted_hierarchy((2, 3), 300, mean_degree=14, word_on=0.4, words=90, seed=2)
    if name in SYSTEM:
        try:
            system_python(SYSTEM[name])
        except InputError as error:
            pytest.skip(str(error))
        fine, coarse = peer_hierarchy(name, planted.graph, (), seed=0).levels
        assert len(set(zip(fine.tolist(), coarse.tolist(), strict=True))) == len(set(fine.tolist()))
    peer = peer_hierarchy(name, planted.graph, (6, 2), seed=0)
    fine, coarse = peer.levels
    if name != "spectral-kmeans":
        assert nesting_score(fine, coarse) == pytest.approx(1)
    assert normalized_mutual_info_score(planted.levels[0], fine) > 0.6
    if name != "leiden":
        assert normalized_mutual_info_score(planted.levels[1], coarse) > 0.6
    if peer.linkage is not None:
        assert planted.graph.labels is not None
        assert dendrogram_purity(peer.linkage, planted.graph.labels.codes) > 0.6


def test_what_cannot_be_asked_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = planted_hierarchy((2, 2), 80, seed=0).graph
    with pytest.raises(InputError, match="louvain"):
        peer_hierarchy("lovain", graph, (4, 2))
    with pytest.raises(InputError, match="must be told how many"):
        peer_hierarchy("paris", graph, ())
    monkeypatch.setenv("GRAPHHAM_SYSTEM_PYTHON", "/nobody/python3")
    with pytest.raises(InputError, match=r"has no graph_tool; install it \(Debian: python3-graph"):
        peer_hierarchy("nested-sbm", graph, (4, 2))


def test_a_peer_that_goes_in_circles_is_left_behind():
    import scipy.sparse as sp

    from experiments import hierarchy_peers as peers

    ring = sp.csr_matrix(sp.diags([1.0, 1.0], [-1, 1], shape=(40, 40)))
    whole = list(peers._watched("leiden", ring, [0.1, 1.0, 10.0], 0))
    assert [len(found) for found in whole] == [40] * 3
    # A millisecond does not even load the library, so every resolution runs out of time.
    assert list(peers._watched("leiden", ring, [0.1, 1.0], 0, patience=0.001)) == []


def test_density_levels_give_every_node_a_group() -> None:
    from experiments.hierarchy_peers import density_levels

    rng = np.random.default_rng(0)
    fine = np.repeat(np.arange(6), 60)
    centres = np.array([[0, 0], [0, 4], [30, 0], [30, 4], [60, 0], [60, 4]])
    flat = centres[fine] + rng.normal(scale=0.6, size=(360, 2))
    low, high = density_levels(flat, (6, 3))
    assert len(np.unique(low)) == 6
    assert normalized_mutual_info_score(fine, low) > 0.95
    assert normalized_mutual_info_score(fine // 2, high) > 0.95
    assert min(low.min(), high.min()) == 0


def test_umap_is_skipped_with_a_reason_where_it_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "umap", None)
    graph = planted_hierarchy((2, 2), 80, seed=0).graph
    with pytest.raises(InputError, match=r"umap-learn, which is not installed; install graphham"):
        peer_hierarchy("umap-hdbscan", graph, (4, 2))
