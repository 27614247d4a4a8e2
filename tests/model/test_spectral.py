"""Leading directions against dense decompositions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphham.graph.graph import build_graph
from graphham.model.spectral import main_directions, structural_features
from tests.reference.graphs import planted, relinked

GRAPH = planted().graph


@given(st.integers(2, 30), st.integers(1, 20), st.integers(1, 8), st.integers(0, 10**6))
def test_main_directions_span_what_the_svd_spans(rows, columns, dim, seed):
    rng = np.random.default_rng(seed)
    rank = min(rows, columns)
    left, right = rng.normal(size=(rows, rank)), rng.normal(size=(rank, columns))
    # Well separated singular values, so that the leading subspace is defined.
    u, v = np.linalg.qr(left)[0], np.linalg.qr(right.T)[0]
    x = (u * 4.0 ** -np.arange(rank)) @ v.T
    found = main_directions(x.astype(np.float32), dim, 7)
    width = min(dim, rank)
    np.testing.assert_allclose(found.T @ found, np.eye(found.shape[1]), atol=1e-4)
    exact = np.linalg.svd(x)[2][:width].T
    if columns <= width:
        assert found.shape == (columns, columns)
    else:
        assert found.shape == (columns, width)
        upto = min(width, 4)  # beyond, float32 cannot tell 4**-k from zero
        cosines = np.abs((found[:, :upto] * exact[:, :upto]).sum(0))
        np.testing.assert_allclose(cosines, 1, atol=5e-3)


def dense_structure(graph):
    """Leading eigenpairs of the normalised adjacency, by brute force."""
    a = graph.adjacency().toarray().astype(np.float64)
    if graph.directed:
        a = a + a.T
    if graph.weights is not None:
        a /= a[a > 0].mean()
    root = 1 / np.sqrt(a.sum(1) + 1)
    values, vectors = np.linalg.eigh(root[:, None] * (a + np.eye(len(a))) * root)
    order = np.argsort(-np.abs(values))
    return values[order], vectors[:, order] * root[:, None]


@pytest.mark.parametrize("form", ["plain", "directed", "weighted"])
def test_structural_features_are_the_leading_eigenvectors(form):
    rng = np.random.default_rng(5)
    weights = rng.uniform(0.5, 2, GRAPH.num_edges) if form == "weighted" else None
    graph = relinked(GRAPH, weights=weights, directed=form == "directed")
    x = structural_features(graph, 40, seed=0)
    assert x.shape == (180, 40)
    np.testing.assert_allclose(x.mean(0), 0, atol=1e-4)
    assert (x**2).sum() / 180 == pytest.approx(40, rel=1e-3)
    values, vectors = dense_structure(graph)
    wanted = vectors * values
    wanted = wanted - wanted.mean(0)
    # The planted groups stand out in eigenvectors 2 to 6; those must be there to good accuracy.
    inside = np.linalg.qr(x)[0]
    for column in range(1, 6):
        direction = wanted[:, column] / np.linalg.norm(wanted[:, column])
        assert np.linalg.norm(inside.T @ direction) > 0.99, column


def test_structural_features_do_not_depend_on_the_unit_of_weights():
    weights = np.random.default_rng(6).uniform(0.5, 2, GRAPH.num_edges)
    small = structural_features(relinked(GRAPH, weights=weights), 16, seed=0)
    large = structural_features(relinked(GRAPH, weights=1024 * weights), 16, seed=0)
    np.testing.assert_allclose(large, small, atol=2e-2)


def test_crumbs_of_a_graph_do_not_crowd_out_its_structure():
    truth = planted(300, features="none")
    edges = truth.graph.edge_list()
    pairs = 300 + np.arange(0, 200, 2)
    edges = np.concatenate([edges, np.stack([pairs, pairs + 1], 1)])
    graph = build_graph(edges[:, 0], edges[:, 1], 600)  # 100 pairs and 100 isolated nodes
    x = structural_features(graph, 32, seed=0)
    assert np.isfinite(x).all()
    assert not x[400:].any()
    means = np.stack([x[:300][truth.levels[0] == g].mean(0) for g in range(6)])
    nearest = ((x[:300, None] - means) ** 2).sum(2).argmin(1)
    assert (nearest == truth.levels[0]).mean() > 0.9
