"""Reading a graph with a finished network: repeatable, permutable, honest."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

from graphham.errors import InputError
from graphham.graph.graph import build_graph
from graphham.graph.ids import NodeIds
from graphham.graph.neighborhoods import Block
from graphham.methods.fitting import fit_graph
from graphham.methods.run_fitting import fit_to_run
from graphham.readout.whole_graph import full_batch
from graphham.results.encoder import Encoder, embed_graph, node_attention
from tests.reference.graphs import (
    multi_labelled,
    planted,
    relinked,
    small_config,
    with_features,
    without_features,
)

GRAPH = planted().graph


def same(one, other):
    np.testing.assert_array_equal(one.embedding, other.embedding)
    for name in ("memberships", "groups", "parents", "attention_gap"):
        for a, b in zip(getattr(one, name), getattr(other, name), strict=True):
            np.testing.assert_array_equal(a, b, err_msg=name)
    np.testing.assert_array_equal(one.concentration, other.concentration)
    if one.prediction is not None:
        assert one.prediction.values() == other.prediction.values()
        np.testing.assert_array_equal(one.confidence, other.confidence)


KINDS = {
    "sparse": (GRAPH, {}),
    "dense": (with_features(GRAPH, GRAPH.features.toarray().astype(np.float16)), {}),
    "no features": (without_features(GRAPH), {}),
    "directed": (relinked(GRAPH, directed=True), {}),
    "isolated": (relinked(GRAPH, extra=5), {}),
    "classify": (GRAPH, {"task": "classify"}),
    "multi-label": (multi_labelled(GRAPH), {"task": "classify"}),
    "paper": (GRAPH, {"preset": "paper", "loss.walks": 2}),
    "one level": (GRAPH, {"groups": (5,)}),
    "three levels": (GRAPH, {"groups": (9, 5, 2), "dim": 24}),
    "held-out links": (GRAPH, {"train.validation_edges": 0.1}),
    "sampled": (GRAPH, {"train.batch": "sampled", "train.batch_size": 64}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_run_reads_its_graph_to_the_bit(kind, tmp_path):
    graph, settings = KINDS[kind]
    config = small_config(settings)
    run = fit_to_run(graph, config, tmp_path / "run")
    fitted = fit_graph(graph, config)
    same(fitted.result, run.result())
    same(fitted.result, fitted.encoder.read(graph, fitted.encoder.inputs_of(graph, graph.ids)))
    same(fitted.result, embed_graph(run, graph))


def test_the_last_layer_carries_the_groups_and_the_first_does_not():
    fitted = fit_graph(GRAPH, small_config({}))
    encoder, dim = fitted.encoder, fitted.result.layer_dims[0]
    centers = encoder.model.group_centers.clone()
    encoder.model.group_centers.zero_()
    plain = encoder.read(GRAPH, fitted.inputs).embedding
    found = fitted.result.embedding
    np.testing.assert_array_equal(found[:, :dim], plain[:, :dim])
    finest = fitted.inputs.memberships[:, : len(centers)].numpy().astype(np.float64)
    last = plain[:, dim:].astype(np.float64)
    means = (finest.T @ last) / finest.sum(0)[:, None] - last.mean(0)
    places = means / np.linalg.norm(means, axis=1, keepdims=True)
    np.testing.assert_allclose(centers.numpy(), places, atol=1e-4)
    joined = last + finest @ places
    joined /= np.linalg.norm(joined, axis=1, keepdims=True)
    np.testing.assert_allclose(found[:, dim:], joined, atol=1e-4)


def test_one_group_of_all_nodes_moves_no_vector():
    fitted = fit_graph(GRAPH, small_config({"groups": (1, 1)}))
    assert fitted.encoder.model.group_centers.abs().max() < 1e-3


def test_a_new_node_carries_the_group_it_is_put_into():
    fitted = fit_graph(GRAPH, small_config({}))
    moved = relinked(GRAPH, extra=1)
    inputs = fitted.encoder.inputs_of(moved, GRAPH.ids)
    vectors = fitted.encoder.read(moved, inputs).embedding
    # Without links and features there is nothing to hear: the mean of the groups' places is left.
    centers = fitted.encoder.model.group_centers.numpy()
    told = inputs.memberships[-1, : len(centers)].numpy() @ centers
    last = vectors[-1, fitted.result.layer_dims[0] :]
    assert last @ told / np.linalg.norm(told) > 0.9


def test_results_do_not_depend_on_the_number_of_threads():
    """Wide dense features, where products over several threads differ in their last bits."""
    truth = planted(2000, seed=2, features="gaussian", dim=200)
    results = []
    before = torch.get_num_threads()
    for threads in (1, 3):
        torch.set_num_threads(threads)
        with threadpool_limits(threads):
            results.append(fit_graph(truth.graph, small_config({"train.epochs": 2})).result)
        assert torch.get_num_threads() == threads
    torch.set_num_threads(before)
    same(*results)


@pytest.mark.parametrize("kind", ["sparse", "dense", "directed", "isolated", "paper"])
def test_permuting_the_rows_permutes_what_is_read(kind):
    graph, settings = KINDS[kind]
    fitted = fit_graph(graph, small_config(settings))
    order = np.random.default_rng(3).permutation(graph.num_nodes)
    moved = graph.permuted(order)
    found = fitted.encoder.read(moved, fitted.encoder.inputs_of(moved, graph.ids))
    result = fitted.result
    assert found.ids == graph.ids.take(order)
    np.testing.assert_allclose(found.embedding, result.embedding[order], atol=2e-5)
    for level in range(result.num_levels):
        np.testing.assert_allclose(
            found.memberships[level], result.memberships[level][order], atol=1e-4
        )
        # A tie broken by the last bit may fall either way; hardly any node is tied.
        assert (found.groups[level] == result.groups[level][order]).mean() > 0.99


def test_permuting_a_graph_without_features_keeps_known_nodes_in_place(tmp_path):
    graph = without_features(GRAPH)
    run = fit_to_run(graph, small_config(), tmp_path / "run")
    order = np.random.default_rng(4).permutation(180)
    found = embed_graph(run, graph.permuted(order))
    np.testing.assert_allclose(found.embedding, run.embedding[order], atol=2e-5)


def test_new_nodes_get_sensible_places(tmp_path):
    """Nodes the model never saw, with links and words of one group, join that group."""
    truth = planted(240, seed=6)
    graph = truth.graph
    kept = np.arange(240) >= 30
    rows = np.flatnonzero(kept)
    place = np.full(240, -1)
    place[rows] = np.arange(len(rows))
    edges = place[graph.edge_list()]
    edges = edges[(edges >= 0).all(1)]
    part = build_graph(
        edges[:, 0], edges[:, 1], len(rows), ids=NodeIds(rows), features=graph.features[rows]
    )
    run = fit_to_run(part, small_config({"train.epochs": 30}), tmp_path / "run")
    found = embed_graph(run, graph)
    old = run.result()
    for level in range(2):
        majority = {
            g: np.bincount(truth.levels[level][rows][old.groups[level] == g]).argmax()
            for g in np.unique(old.groups[level])
        }
        said = np.array([majority.get(g, -1) for g in found.groups[level][:30]])
        assert (said == truth.levels[level][:30]).mean() > 0.8, level


def test_a_model_without_features_needs_to_know_somebody(tmp_path):
    graph = without_features(GRAPH)
    run = fit_to_run(graph, small_config(), tmp_path / "run")
    strangers = replace(graph, ids=NodeIds([f"s{i}" for i in range(180)]))
    with pytest.raises(InputError, match="none of the graph's ids is known"):
        embed_graph(run, strangers)
    other = with_features(GRAPH, GRAPH.features[:, :7])
    run = fit_to_run(GRAPH, small_config(), tmp_path / "other")
    with pytest.raises(InputError, match="60 feature columns but the graph has 7"):
        embed_graph(run, other)


@pytest.mark.parametrize("kind", ["sparse", "isolated", "directed"])
def test_attention_gap_is_the_mean_of_alpha_log_alpha_over_lambda(kind):
    graph, settings = KINDS[kind]
    fitted = fit_graph(graph, small_config(settings, {"model.heads": 2}))
    model = fitted.encoder.model
    batch = full_batch(model, fitted.inputs, graph)
    with torch.no_grad():
        passes = model.encode(batch)
    block = Block.full(graph)
    for level, one in enumerate(passes):
        with torch.no_grad():
            weights = model.layer(level).attention_weights(one.x, block, one.assigned.z)
        alpha, lam = weights.node.mean(1).numpy(), weights.group.mean(1).numpy()
        for i in (0, 7, graph.num_nodes - 1):
            row = range(int(block.indptr[i]), int(block.indptr[i + 1]))
            expected = np.mean([alpha[e] * np.log(alpha[e] / lam[e]) for e in row])
            assert fitted.result.attention_gap[level][i] == pytest.approx(
                max(expected, 0), abs=1e-5
            )


def test_node_attention_lists_a_node_and_its_neighbours():
    fitted = fit_graph(GRAPH, small_config())
    for one in node_attention(fitted.encoder.model, fitted.inputs, GRAPH, 11):
        assert one.neighbor_rows.tolist() == [11, *GRAPH.neighbors(11).tolist()]
        for distribution in (one.node_attention, one.group_attention, one.weight):
            assert distribution.sum() == pytest.approx(1, abs=1e-5)


def test_memberships_are_sums_and_groups_follow_the_path():
    fitted = fit_graph(GRAPH, small_config({"train.epochs": 12}))
    result = fitted.result
    assert result.parents_from == "model"
    for level, parent in enumerate(result.parents):
        np.testing.assert_array_equal(parent[result.groups[level]], result.groups[level + 1])
        summed = np.zeros_like(result.memberships[level + 1])
        np.add.at(summed.T, parent, result.memberships[level].T)
        np.testing.assert_allclose(summed, result.memberships[level + 1], atol=1e-5)
    known = fitted.encoder.groups.known
    # Mixtures, led by the group that mean field chose, unless the path forbids it.
    assert (result.groups[0] == known.argmax(1)).mean() > 0.95
    assert not np.array_equal(result.memberships[0], known)
    assert result.between.max() <= 1
    assert 0 < result.evidence.mean() < 1


@pytest.mark.parametrize(
    "settings",
    [
        {"groups": (16, 4, 2), "dim": 24, "train.epochs": 1},
        {"preset": "paper", "loss.walks": 2, "train.epochs": 2},
    ],
    ids=["tree of the model", "tree of the majority"],
)
def test_every_node_is_shown_in_its_strongest_group_on_every_level(settings):
    result = fit_graph(GRAPH, small_config(settings)).result
    for codes, member in zip(result.groups, result.memberships, strict=True):
        np.testing.assert_array_equal(codes, member.argmax(1))
    for level, parent in enumerate(result.parents):
        np.testing.assert_array_equal(parent[result.groups[level]], result.groups[level + 1])


def test_predictions_of_many_labels_name_at_least_one():
    graph, settings = KINDS["multi-label"]
    result = fit_graph(graph, small_config(settings)).result
    values = result.prediction.values()
    assert all(v for v in values)
    assert set().union(*values) <= set("abcdef")
    assert ((result.confidence > 0) & (result.confidence <= 1)).all()


def test_facts_and_state_rebuild_the_encoder(tmp_path):
    run = fit_to_run(GRAPH, small_config({"task": "classify"}), tmp_path / "run")
    encoder = Encoder.from_run(run)
    assert encoder.facts() == run.summary["model"]
    state = encoder.state()
    for name, value in run.state("torch").items():
        np.testing.assert_array_equal(np.asarray(state[name]), value.numpy(), err_msg=name)


def test_a_run_saved_without_likeness_is_read_by_groups_alone(tmp_path):
    run = fit_to_run(GRAPH, small_config(), tmp_path / "run")
    state = run.state("torch")
    assert float(state["model.layers.0.likeness"][0])
    older = {name: value for name, value in state.items() if not name.endswith("likeness")}
    encoder = Encoder.from_run(run, older)
    inputs = encoder.inputs_of(GRAPH, NodeIds(list(GRAPH.ids)))
    assert inputs.memberships.shape[1] == sum(encoder.model.groups)
    table, block = encoder.model.layer(0).pair_score, Block.full(GRAPH)
    with torch.no_grad():
        z = encoder.model.encode(full_batch(encoder.model, inputs, GRAPH))[0].assigned.z
        scores = encoder.model.layer(0).group_scores(z, block)[:, 0]
        rows = block.to("cpu")
        expected = ((z @ table)[rows.targets] * z[rows.sources]).sum(1)
    torch.testing.assert_close(scores, expected)
