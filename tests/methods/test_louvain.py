"""Louvain's method: against networkx's modularity, planted groups and hand-made graphs."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from graphham.errors import InputError
from graphham.graph.planted import planted_hierarchy
from graphham.methods.louvain import louvain, modularity


@given(seed=st.integers(0, 1000), nodes=st.integers(1, 30), share=st.floats(0, 0.6))
def test_modularity_is_networkxs_and_no_single_move_improves_it(
    seed: int, nodes: int, share: float
) -> None:
    other = nx.gnp_random_graph(nodes, share, seed=seed)
    adjacency = nx.to_scipy_sparse_array(other, dtype=float)
    codes, found = louvain(adjacency, seed)
    if not other.number_of_edges():
        assert found == 0
        assert codes.tolist() == list(range(nodes))
        return
    groups = [set(np.flatnonzero(codes == c).tolist()) for c in range(codes.max() + 1)]
    assert found == pytest.approx(nx.community.modularity(other, groups), abs=1e-9)
    # Communities that could still be joined with profit would be a missed round.
    for a in range(len(groups)):
        for b in range(a):
            joined = np.where(codes == a, b, codes)
            assert modularity(adjacency, joined) <= found + 1e-9


def test_planted_groups_come_back_and_a_key_repeats() -> None:
    planted = planted_hierarchy((6,), num_nodes=300, mean_degree=14, seed=1)
    adjacency = planted.graph.adjacency()
    codes, _ = louvain(adjacency, 5)
    assert adjusted_rand_score(planted.levels[0], codes) > 0.95
    np.testing.assert_array_equal(codes, louvain(adjacency, 5)[0])


def test_weights_decide_where_structure_does_not() -> None:
    # A ring of six; heavy edges pair the nodes up.
    ring = [*pairwise(range(6)), (5, 0)]
    matrix = np.zeros((6, 6))
    for i, j in ring:
        matrix[i, j] = matrix[j, i] = 10.0 if i % 2 == 0 else 0.1
    codes, _ = louvain(sp.csr_matrix(matrix), 0)
    assert codes.tolist() == [0, 0, 1, 1, 2, 2]


def test_a_high_resolution_gives_smaller_communities_and_bad_values_are_refused() -> None:
    planted = planted_hierarchy((3, 4), num_nodes=400, seed=0).graph.adjacency()
    assert louvain(planted, 0, 6.0)[0].max() > louvain(planted, 0, 0.5)[0].max()
    with pytest.raises(InputError, match="resolution must be above 0, got 0"):
        louvain(planted, 0, 0)
    with pytest.raises(InputError, match=r"weight is -1"):
        louvain(-planted, 0)
