"""Training steps: whole or sampled, each node once, contexts in scope, any number of workers."""

import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import shortest_path

from graphham.config.settings import InputConfig
from graphham.graph.graph import build_graph
from graphham.model.inputs import NodeInputs, fit_inputs
from graphham.training.batches import Batches, _in_scope, _one_step, _positions
from graphham.training.plan import plan_fit
from tests.reference.graphs import planted, relinked, small_config, with_features

GRAPH = planted().graph


def make_batches(graph=GRAPH, inductive=True, **settings):
    config = plan_fit(graph, small_config(settings)).config
    _, inputs, _ = fit_inputs(graph, InputConfig(), 0)
    held = torch.arange(2.0 * graph.num_nodes).view(-1, 2)  # each row says whose it is
    inputs = NodeInputs(inputs.features, held)
    return Batches(graph, inputs, config, inductive)


SAMPLED = {"train.batch": "sampled", "train.batch_size": 50}
SKIPGRAM = {"loss.context": "skipgram", "loss.walks": 3}


def graph_rows(step, nodes, inductive):
    """Context nodes as graph rows, whatever form the step holds them in."""
    rows = nodes.numpy()
    return np.where(rows >= 0, step.rows[rows], -1) if inductive else rows


@pytest.mark.parametrize("inductive", [True, False])
@pytest.mark.parametrize("settings", [{}, SAMPLED])
def test_every_node_is_a_member_once_per_epoch(settings, inductive):
    batches = make_batches(inductive=inductive, **settings, **SKIPGRAM)
    orders = []
    for epoch in range(2):
        steps = list(batches.epoch(epoch))
        assert len(steps) == batches.steps_per_epoch == (4 if settings else 1)
        orders.append(np.concatenate([step.rows[step.members.numpy()] for step in steps]))
        assert sorted(orders[-1]) == list(range(180))
        assert sorted(np.concatenate([s.rows[s.anchors.numpy()] for s in steps])) == list(
            range(180)
        )
        for step in steps:
            assert step.batch.num_targets == len(step.rows)
            held = step.batch.memberships
            np.testing.assert_array_equal(held[: len(step.rows), 0], 2 * step.rows)
            assert len(held) == len(step.batch.features)
            assert len(step.batch.features) == step.batch.blocks[0].num_sources
    if settings:
        assert not np.array_equal(*orders)


@pytest.mark.parametrize("inductive", [True, False])
@pytest.mark.parametrize("scope", ["cumulative", "exact", "all"])
@pytest.mark.parametrize("settings", [{}, SAMPLED])
def test_contexts_are_in_scope_and_negatives_are_no_neighbours(settings, scope, inductive):
    batches = make_batches(inductive=inductive, **settings, **SKIPGRAM, **{"loss.scope": scope})
    distance = shortest_path(GRAPH.adjacency(), unweighted=True)
    longest = {"cumulative": (1, 2), "exact": (1, 2), "all": (2, 2)}[scope]
    per_walk = {"cumulative": (1, 2), "exact": (1, 1), "all": (2, 2)}[scope]
    met = [0, 0]
    for step in batches.epoch(0):
        for level in range(2):
            positives = graph_rows(step, step.positives[level], inductive)
            negatives = graph_rows(step, step.negatives[level], inductive)
            assert positives.shape == (len(step.anchors), 3 * per_walk[level])
            anchors = np.broadcast_to(step.rows[step.anchors.numpy()][:, None], positives.shape)
            real = positives >= 0
            # As many negatives as positives: where a walk came home there is neither.
            np.testing.assert_array_equal(negatives >= 0, real)
            steps_away = distance[anchors[real], positives[real]]
            assert (steps_away >= 1).all()
            assert (steps_away <= longest[level]).all()
            assert (distance[anchors[real], negatives[real]] > 1).all()
            met[level] = max(met[level], steps_away.max())
    assert met == list(longest)


def test_an_isolated_node_has_neither_contexts_nor_negatives():
    graph = relinked(GRAPH, extra=4)
    for settings in ({}, SAMPLED):
        for step in make_batches(graph, **settings, **SKIPGRAM).epoch(0):
            alone = torch.from_numpy(step.rows[step.anchors.numpy()] >= 180)
            for nodes in (*step.positives, *step.negatives):
                assert (nodes[alone] == -1).all()
    # The contrastive loss takes one context per walk, from any step of the scope.
    for step in make_batches(graph, **SAMPLED).epoch(0):
        assert step.negatives == []
        assert step.positives[1].shape == (len(step.anchors), 1)
        assert (
            step.positives[0][torch.from_numpy(step.rows[step.anchors.numpy()] >= 180)] == -1
        ).all()


def fingerprint(step):
    arrays = [step.rows, step.members, step.anchors, *step.positives, *step.negatives]
    for block in step.batch.blocks:
        arrays += [block.indptr, block.indices, block.source_rows]
    features = step.batch.features
    arrays += [features.values if features.matrix is not None else features.dense]
    arrays += [step.batch.memberships]
    return [np.asarray(a).tobytes() for a in arrays], int(step.key)


@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_steps_do_not_depend_on_the_number_of_workers(form):
    graph = GRAPH if form == "sparse" else with_features(GRAPH, GRAPH.features.toarray())
    settings = {"train.batch": "sampled", "train.batch_size": 16, "train.fanouts": (4, 3)}
    made = [
        [fingerprint(s) for s in make_batches(graph, **settings, **{"train.workers": w}).epoch(3)]
        for w in (0, 1, 4)
    ]
    assert made[0] == made[1] == made[2]


def test_seed_and_epoch_name_every_draw():
    def first(epoch, **settings):
        return fingerprint(next(iter(make_batches(**SAMPLED, **settings).epoch(epoch))))

    assert first(0) == first(0)
    assert first(0) != first(1)
    assert first(0) != first(0, seed=1)


def test_leaving_early_stops_the_workers():
    batches = make_batches(**{**SAMPLED, "train.batch_size": 4, "train.workers": 2})
    steps = batches.epoch(0)
    next(steps)
    steps.close()
    assert len(list(batches.epoch(0))) == 45


def test_without_context_weight_nothing_is_walked():
    for settings in ({}, SAMPLED):
        step = next(iter(make_batches(**settings, **{"loss.context_weight": 0}).epoch(0)))
        assert step.positives == []
        assert step.negatives == []


def test_only_some_nodes_carry_the_context_loss_of_a_full_step():
    step = next(iter(make_batches(**{"train.anchors": 40}).epoch(0)))
    assert len(step.anchors) == len(step.positives[0]) == 40
    assert len(step.members) == 180


def test_scopes_of_a_walk():
    walks = np.arange(12).reshape(2, 2, 3)
    assert _in_scope(walks, 0, "cumulative")[0].tolist() == [[0], [3]]
    assert _in_scope(walks, 1, "cumulative")[0].tolist() == [[0, 1], [3, 4]]
    assert _in_scope(walks, 1, "exact")[0].tolist() == [[1], [4]]
    assert _in_scope(walks, 0, "all")[0].tolist() == [[0, 1, 2], [3, 4, 5]]
    chosen = _one_step(np.repeat(walks, 500, axis=1), np.random.default_rng(0))
    share = np.bincount(chosen[0], minlength=6) / 1000
    np.testing.assert_allclose(share, 1 / 6, atol=0.03)


def test_positions_of_rows():
    rows = np.array([7, 2, 9, 4])
    nodes = np.array([[9, -1], [4, 7]])
    assert _positions(nodes, rows).tolist() == [[2, -1], [3, 0]]


def test_edges_are_dropped_per_step_and_self_edges_stay():
    batches = make_batches(**{"train.edge_dropout": 0.5})
    sizes = []
    for epoch in range(2):
        (step,) = batches.epoch(epoch)
        block = step.batch.blocks[0]
        assert (block.degrees() >= 1).all()
        sizes.append(block.num_edges)
    full = GRAPH.num_stored + 180
    assert sizes[0] != sizes[1]
    assert 0.4 < (full - np.mean(sizes)) / GRAPH.num_stored < 0.6


def test_a_graph_of_two_nodes():
    for settings in ({}, {"train.batch": "sampled", "train.batch_size": 1}):
        batches = make_batches(build_graph([0], [1], 2), groups=(2, 1), **settings)
        steps = list(batches.epoch(0))
        assert sorted(np.concatenate([s.rows[s.members.numpy()] for s in steps])) == [0, 1]


def test_a_short_epoch_takes_the_first_steps_of_a_long_one():
    whole = make_batches(inductive=True, **SAMPLED)
    short = make_batches(inductive=True, **SAMPLED, **{"train.epoch_steps": 2})
    assert short.steps_per_epoch == 2
    steps = list(short.epoch(1))
    assert len(steps) == 2
    for ours, theirs in zip(steps, whole.epoch(1), strict=False):
        np.testing.assert_array_equal(ours.rows, theirs.rows)
        assert ours.key == theirs.key
