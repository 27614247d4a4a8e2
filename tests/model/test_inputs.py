"""From raw features to network inputs: scaling, main directions, averages, structure."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfTransformer

from graphham.config.settings import InputConfig
from graphham.errors import InputError
from graphham.graph.graph import build_graph
from graphham.graph.ids import NodeIds
from graphham.kernels import SparseMatrix
from graphham.model.feature_rows import FeatureRows
from graphham.model.inputs import FeatureMap, NodeInputs, averaged, fit_inputs
from tests.reference.graphs import planted, random_graph, with_features, without_features

GRAPH = planted().graph


def dense(features):
    if isinstance(features, SparseMatrix):
        shape = features.shape
        return sp.csr_matrix((features.values, features.indices, features.indptr), shape).toarray()
    return features.numpy()


def fitted(graph, directions=0, **options):
    return fit_inputs(graph, InputConfig(**options), seed=0, directions=directions)


def unit(x):
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)


@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_tfidf_is_what_scikit_learn_calls_tfidf(form):
    counts = np.random.default_rng(0).poisson(0.1, (180, 30)).astype(np.float32)
    graph = with_features(GRAPH, sp.csr_matrix(counts) if form == "sparse" else counts)
    features, inputs, _ = fitted(graph)
    assert features.scaling == "tfidf"
    expected = TfidfTransformer().fit_transform(counts).toarray()
    np.testing.assert_allclose(dense(inputs.features), expected, atol=1e-6)


def test_a_sparse_table_of_reals_gets_unit_rows_and_an_empty_row_stays_empty():
    x = np.abs(np.random.default_rng(1).normal(size=(180, 8))) * (np.arange(180) > 2)[:, None]
    features, inputs, _ = fitted(with_features(GRAPH, sp.csr_matrix(x.astype(np.float32))))
    assert features.scaling == "row"
    np.testing.assert_allclose(dense(inputs.features), unit(x), atol=1e-6)


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_dense_columns_are_standardised(kind):
    x = (np.random.default_rng(2).normal(size=(180, 5)) * [1, 3, 0.01, 20, 5] + 2).astype(kind)
    _, inputs, _ = fitted(with_features(GRAPH, x))
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(0)) / wide.std(0) / np.sqrt(5)
    assert inputs.features.dtype == torch.float32
    np.testing.assert_allclose(inputs.features.numpy(), expected, atol=2e-4)


def test_columns_far_from_zero_keep_their_digits_and_constant_ones_say_nothing():
    rng = np.random.default_rng(3)
    count = 60_000
    x = np.empty((count, 3), dtype=np.float32)
    x[:, 0] = 1000.1
    x[:, 1] = 20_000 + rng.integers(0, 2, count)
    x[:, 2] = 1e-9 * rng.normal(size=count)
    source = np.arange(count - 1)
    graph = build_graph(source, source + 1, count, features=x)
    _, inputs, _ = fitted(graph)
    scaled = inputs.features.numpy() * np.sqrt(3)
    assert np.abs(scaled[:, 0]).max() < 1e-3
    np.testing.assert_allclose(np.unique(scaled[:, 1]), [-1, 1], atol=0.02)
    assert scaled[:, 2].std() == pytest.approx(1, abs=1e-3)


def test_standard_scaling_of_sparse_features_is_refused_in_one_sentence():
    with pytest.raises(InputError, match="fill in a sparse table"):
        fitted(GRAPH, scaling="standard")


@settings(max_examples=30)
@given(st.integers(2, 12), st.integers(0, 10**6), st.booleans(), st.booleans())
def test_averages_are_over_a_node_and_its_neighbours(nodes, seed, weighted, directed):
    graph = random_graph(nodes, seed, weighted, directed)
    x = np.random.default_rng(seed).normal(size=(nodes, 3)).astype(np.float32)
    expected = np.zeros((nodes, 3))
    for i in range(nodes):
        row = slice(int(graph.indptr[i]), int(graph.indptr[i + 1]))
        others = graph.indices[row]
        weights = np.ones(len(others)) if graph.weights is None else graph.weights[row]
        own = weights.mean() if len(others) else 1.0
        total = own * x[i] + sum((w * x[j] for w, j in zip(weights, others, strict=True)), 0 * x[i])
        expected[i] = total / (own + weights.sum())
    np.testing.assert_allclose(averaged(torch.from_numpy(x), graph), expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["sparse", "dense", "none"])
def test_applying_the_fitted_steps_to_the_training_graph_changes_no_bit(kind):
    graph = {
        "sparse": GRAPH,
        "dense": with_features(GRAPH, GRAPH.features.toarray().astype(np.float16)),
        "none": without_features(GRAPH),
    }[kind]
    features, inputs, _ = fitted(graph)
    saved = FeatureMap.from_state(features.state(), features.scaling)
    again = saved.apply(graph)
    np.testing.assert_array_equal(dense(again.features), dense(inputs.features))
    assert again.memberships.shape == (180, 0)  # these come from the groups


def test_permuting_the_rows_permutes_the_inputs():
    order = np.random.default_rng(4).permutation(GRAPH.num_nodes)
    _, first, lead = fitted(GRAPH, directions=4)
    _, second, lead_too = fitted(GRAPH.permuted(order), directions=4)
    np.testing.assert_allclose(dense(second.features), dense(first.features)[order], atol=1e-6)
    np.testing.assert_allclose(np.abs(lead.T @ lead_too), np.eye(4), atol=1e-3)


def test_other_columns_are_refused():
    features, _, _ = fitted(GRAPH)
    with pytest.raises(InputError, match="60 feature columns but the graph has 59"):
        features.apply(with_features(GRAPH, GRAPH.features[:, :59]))
    with pytest.raises(InputError, match="the graph has 0"):
        features.apply(without_features(GRAPH))


@pytest.mark.parametrize("nodes", [2, 3, 5])
def test_structure_of_tiny_graphs(nodes):
    graph = build_graph([0], [1], nodes)
    features, inputs, _ = fitted(graph)
    assert features.is_structural
    assert inputs.features.shape == (nodes, nodes)
    assert torch.isfinite(inputs.features).all()


def test_a_new_node_takes_the_mean_of_the_neighbours_the_model_knows():
    truth = without_features(GRAPH)
    features, inputs, _ = fitted(truth)
    edges = np.concatenate([truth.edge_list(), [[180, 3], [180, 7], [181, 180]]])
    ids = NodeIds([*range(180), 1000, 1001])
    grown = build_graph(edges[:, 0], edges[:, 1], 182, ids=ids)
    known = NodeIds.range(180).find(grown.ids)
    x = features.apply(grown, known).features.numpy()
    np.testing.assert_array_equal(x[:180], inputs.features.numpy())
    # 181 knows nobody but 180, which is new itself; it must not pull 180 towards zero.
    mean = inputs.features.numpy()[[3, 7]].mean(0)
    np.testing.assert_allclose(x[181], mean, atol=1e-5)
    np.testing.assert_allclose(x[180], mean, atol=1e-5)
    with pytest.raises(InputError, match="180 nodes but the graph has 182"):
        features.apply(grown)


@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_rows_slice_features_and_dropout_is_unbiased_and_keyed(form):
    graph = GRAPH if form == "sparse" else with_features(GRAPH, GRAPH.features.toarray())
    _, inputs, _ = fitted(graph)
    rows = np.array([5, 3, 170])
    rows.setflags(write=False)  # what a sampled block hands over
    weight = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    whole = inputs.rows(None).matmul(weight)
    assert len(inputs.rows(rows)) == 3
    torch.testing.assert_close(inputs.rows(rows).matmul(weight), whole[rows.copy()])
    held = NodeInputs(inputs.features, torch.arange(360.0).view(180, 2))
    assert torch.equal(held.membership_rows(rows), held.memberships[rows.copy()])
    assert held.membership_rows(None) is held.memberships
    drops = [inputs.rows(None, 0.5, key).matmul(weight) for key in range(400)]
    assert torch.equal(drops[3], inputs.rows(None, 0.5, 3).matmul(weight))
    mean = torch.stack(drops).mean(0)
    spread = torch.stack(drops).std(0) / 20
    assert ((mean - whole).abs() < 6 * spread + 1e-6).all()


def test_moving_inputs_keeps_values():
    inputs = NodeInputs(torch.ones(3, 2), torch.zeros(3, 1)).to("cpu")
    assert (inputs.num_features, len(inputs.rows(None))) == (2, 3)
    assert isinstance(inputs.rows(None), FeatureRows)


@pytest.mark.parametrize("x", [np.ones((180, 3), np.float32), sp.csr_matrix((180, 7), dtype="f4")])
def test_features_that_say_nothing_give_way_to_structure(x):
    features, inputs, lead = fitted(with_features(GRAPH, x), directions=4)
    expected = fitted(without_features(GRAPH), directions=4)
    assert features.is_structural
    np.testing.assert_array_equal(dense(inputs.features), dense(expected[1].features))
    np.testing.assert_array_equal(lead, expected[2])
    again = FeatureMap.from_state(features.state(), features.scaling)
    np.testing.assert_array_equal(
        dense(again.apply(with_features(GRAPH, x)).features), dense(inputs.features)
    )


def test_rows_made_from_links_are_as_long_as_given_ones_where_that_is_asked():
    graph = without_features(GRAPH)
    plain = fit_inputs(graph, InputConfig(), 0)[1].features.numpy()
    features, inputs, _ = fit_inputs(graph, InputConfig(), 0, has_unit_rows=True)
    made = inputs.features.numpy()
    assert np.linalg.norm(made, axis=1).mean() == pytest.approx(1.0, abs=1e-5)
    np.testing.assert_allclose(unit(made), unit(plain), atol=1e-6)
    np.testing.assert_array_equal(features.structural, made)
