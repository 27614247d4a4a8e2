"""The block model against plain loops, planted graphs, its ablations and its corner cases."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import normalized_mutual_info_score as nmi

from graphham.graph.graph import Graph, build_graph
from graphham.graph.ids import NodeIds
from graphham.groups.block_model import (
    BlockModel,
    GraphLinks,
    _estimate,
    chance_share,
    fit_block_model,
    group_vectors,
    link_trust,
    reason_table,
    softmax_rows,
    sum_levels,
    tree_paths,
)
from tests.reference.graphs import random_graph
from tests.reference.model import softmax

PARTNER = np.array([3, 4, 5, 0, 1, 2])  # the group that a planted group links to
SCALE = 12.0
SEEDS = st.integers(0, 10**6)
TREES = {
    "one level": [],
    "two levels": [np.array([0, 1, 0, 1])],
    "three levels": [np.array([0, 1, 2, 1]), np.array([0, 0, 1])],
}


def links_of(graph):
    """Every stored link once as (source, target, weight): no self-links, mean weight 1."""
    weights = np.ones(graph.num_stored) if graph.weights is None else graph.weights
    weights = weights / (weights.mean() if len(weights) else 1.0)
    return [
        (i, int(graph.indices[e]), float(weights[e]))
        for i in range(graph.num_nodes)
        for e in range(int(graph.indptr[i]), int(graph.indptr[i + 1]))
        if int(graph.indices[e]) != i
    ]


def degrees_of(graph):
    out, into = np.zeros(graph.num_nodes), np.zeros(graph.num_nodes)
    for i, j, w in links_of(graph):
        out[i] += w
        into[j] += w
    return out, into


def slow_round(model, x, graph, memberships):
    """One mean-field round, node by node and group by group."""
    finest = memberships.shape[1]
    paths = tree_paths(model.parents, finest)
    out, into = degrees_of(graph)
    moved = np.zeros(memberships.shape)
    for i in range(graph.num_nodes):
        degree = out[i] + into[i] if graph.directed else out[i]
        trust = 1 / (1 + degree / 64)
        logits = []
        for k in range(finest):
            value = sum(
                float(x[i] @ vectors[path[k]])
                for vectors, path in zip(model.vectors, paths, strict=True)
            )
            for a, b, w in links_of(graph):
                if a == i:
                    value += (
                        trust
                        * w
                        * sum(model.tables[0][k, m] * memberships[b, m] for m in range(finest))
                    )
                if b == i and graph.directed:
                    value += (
                        trust
                        * w
                        * sum(model.tables[0][m, k] * memberships[a, m] for m in range(finest))
                    )
            logits.append(value)
        moved[i] = softmax(logits)
    return moved


def slow_estimate(x, graph, levels, parents, scale):
    """The M-step from the definition: per level unit vectors and log odds of links."""
    depth = len(levels)
    out, into = degrees_of(graph)
    vectors, tables = [None] * depth, [None] * depth
    for level in reversed(range(depth)):
        held = levels[level]
        count = held.shape[1]
        phi = np.zeros((count, x.shape[1]))
        table = np.zeros((count, count))
        for k in range(count):
            toward = sum(held[i, k] * x[i] for i in range(len(x)))
            length = np.linalg.norm(toward)
            phi[k] = 2 / depth * scale**0.5 * toward / max(length, 1e-12)
            for m in range(count):
                seen = sum(w * held[i, k] * held[j, m] for i, j, w in links_of(graph))
                leaving, arriving = float(held[:, k] @ out), float(held[:, m] @ into)
                expected = leaving * arriving / max(out.sum(), 1e-9)
                if level + 1 == depth:
                    table[k, m] = math.log((seen + 1) / (expected + 1))
                    continue
                above = tables[level + 1][parents[level][k], parents[level][m]]
                prior = 0.1 * expected
                table[k, m] = math.log(
                    (seen + prior * math.exp(above) + 1e-3) / (expected + prior + 1e-3)
                )
        vectors[level], tables[level] = phi, table
    return vectors, tables


def unit(x):
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)


def make_inputs(rng, nodes, dim=3):
    x = unit(rng.normal(size=(nodes, dim))).astype(np.float32)
    x[rng.random(nodes) < 0.2] = 0.0  # nodes without features
    return x


def random_memberships(rng, nodes, count):
    return softmax_rows(2 * rng.normal(size=(nodes, count)).astype(np.float32))


@settings(max_examples=25)
@given(st.integers(2, 8), SEEDS, st.booleans(), st.booleans(), st.sampled_from(sorted(TREES)))
def test_a_round_and_the_estimate_equal_the_loops(nodes, seed, weighted, directed, tree):
    graph = random_graph(nodes, seed, weighted, directed)
    rng = np.random.default_rng(seed)
    parents = TREES[tree]
    x = make_inputs(rng, nodes) * np.float32(SCALE**0.5)
    held = random_memberships(rng, nodes, 4)
    links = GraphLinks(graph)
    assert links.is_directed == directed
    model, gains = _estimate(x, SCALE, links, held, links.sums(held), parents, True)
    levels = [level.astype(float) for level in sum_levels(held, parents)]
    vectors, tables = slow_estimate(x.astype(float), graph, levels, parents, SCALE)
    for found, expected in zip(model.vectors, vectors, strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-3)
    for found, expected in zip(model.tables, tables, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    assert len(gains) == len(parents) + 1
    own = model.feature_evidence(x)
    moved = softmax_rows(own + model.link_evidence(held, links))
    np.testing.assert_allclose(moved, slow_round(model, x, graph, held), atol=1e-4)


def test_a_fit_is_rounds_of_estimating_and_moving():
    """Two rounds of the fit are two rounds by hand, from nine parts certainty of the start."""
    graph = random_graph(20, 3)
    rng = np.random.default_rng(0)
    own, links = make_inputs(rng, 20), GraphLinks(graph)
    x = own * np.float32(SCALE**0.5)
    codes, parents = rng.integers(0, 4, 20), TREES["two levels"]
    held = np.full((20, 4), 0.1 / 4, dtype=np.float32)
    held[np.arange(20), codes] += 0.9
    for _ in range(2):
        model, _ = _estimate(x, SCALE, links, held, links.sums(held), parents, True)
        held = softmax_rows(model.feature_evidence(x) + model.link_evidence(held, links))
    fit = fit_block_model(own, SCALE, links, codes, parents, rounds=2)
    np.testing.assert_allclose(fit.memberships, held, atol=1e-6)
    assert fit.rounds == 2
    assert math.isfinite(fit.bound)


@settings(max_examples=20)
@given(SEEDS, st.sampled_from(sorted(TREES)), st.booleans())
def test_levels_nest_exactly(seed, tree, directed):
    graph = random_graph(12, seed, directed=directed)
    rng = np.random.default_rng(seed)
    parents = TREES[tree]
    codes = rng.integers(0, 4, 12)
    fit = fit_block_model(make_inputs(rng, 12), SCALE, GraphLinks(graph), codes, parents)
    levels = fit.levels()
    np.testing.assert_allclose(levels[0].sum(1), 1, atol=1e-5)
    for low, high, parent in zip(levels, levels[1:], parents, strict=False):
        for group in range(high.shape[1]):
            np.testing.assert_allclose(high[:, group], low[:, parent == group].sum(1), atol=1e-6)


def planted(kind, seed=0, nodes=600, degree=12):
    """Six groups: links inside, to the partner group, or anywhere but to the own group."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 6, nodes)
    source = rng.integers(0, nodes, nodes * degree // 2)
    wanted, firm, noise = {
        "homophilous": (truth[source], 0.75, 0.5),
        "heterophilous": (PARTNER[truth[source]], 0.75, 0.5),
        "avoiding": ((truth[source] + rng.integers(1, 6, len(source))) % 6, 0.95, 0.3),
    }[kind]
    wanted = np.where(rng.random(len(source)) < firm, wanted, rng.integers(0, 6, len(source)))
    pools = [np.flatnonzero(truth == k) for k in range(6)]
    target = np.array([rng.choice(pools[k]) for k in wanted])
    graph = build_graph(source, target, nodes)
    x = np.eye(6, 32)[truth] + noise * rng.normal(size=(nodes, 32))
    return graph, truth, unit(x).astype(np.float32)


@pytest.mark.parametrize("kind", ["homophilous", "heterophilous"])
def test_planted_groups_are_recovered_and_links_help(kind):
    graph, truth, x = planted(kind)
    rng = np.random.default_rng(1)
    # A start that is right about half of the nodes.
    codes = np.where(rng.random(len(truth)) < 0.5, truth, rng.integers(0, 6, len(truth)))
    parents = [np.array([0, 1, 2, 0, 1, 2])]
    links = GraphLinks(graph)
    fit = fit_block_model(x, SCALE, links, codes, parents)
    alone = fit_block_model(x, SCALE, links, codes, parents, uses_links=False)
    found = nmi(truth, fit.memberships.argmax(1))
    assert found > 0.9
    assert found > nmi(truth, alone.memberships.argmax(1)) + 0.1
    assert min(fit.link_gain) > 0
    table = fit.model.tables[0]
    assert (table.argmax(1) == (np.arange(6) if kind == "homophilous" else PARTNER)).all()


def test_directed_links_count_in_both_directions():
    """Three groups in a ring, each linking to the next: who links whom tells all."""
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 100)
    source = rng.integers(0, 300, 3000)
    target = rng.integers(0, 100, 3000) + 100 * ((truth[source] + 1) % 3)
    graph = build_graph(source, target, 300, directed=True)
    codes = np.where(rng.random(300) < 0.7, truth, rng.integers(0, 3, 300))
    x = np.zeros((300, 2), dtype=np.float32)
    fit = fit_block_model(x, SCALE, GraphLinks(graph), codes, [])
    assert (fit.memberships.argmax(1) == truth).all()
    table = fit.model.tables[0]
    for k in range(3):
        ahead, back = table[k, (k + 1) % 3], table[(k + 1) % 3, k]
        assert ahead == pytest.approx(math.log(3), abs=0.1)
        assert back < -3


def test_without_links_only_features_speak():
    graph, truth, x = planted("homophilous")
    other = build_graph([0], [1], graph.num_nodes)
    fits = [
        fit_block_model(
            x, SCALE, GraphLinks(g), truth, [np.array([0, 1, 2, 0, 1, 2])], uses_links=False
        )
        for g in (graph, other)
    ]
    np.testing.assert_array_equal(fits[0].memberships, fits[1].memberships)
    assert not any(table.any() for table in fits[0].model.tables)


def test_flat_groups_do_not_lean_on_their_ancestors():
    graph, truth, x = planted("homophilous")
    links = GraphLinks(graph)
    tree = [np.array([0, 1, 2, 0, 1, 2])]
    flat = fit_block_model(x, SCALE, links, truth, tree, is_nested=False)
    single = fit_block_model(x, SCALE, links, truth, [], is_nested=False)
    np.testing.assert_allclose(flat.memberships, single.memberships, atol=1e-5)
    assert not flat.model.vectors[1].any()
    nested = fit_block_model(x, SCALE, links, truth, tree)
    assert not np.allclose(nested.memberships, flat.memberships, atol=1e-3)


def test_infer_goes_on_from_a_start_and_stays_at_a_settled_one():
    graph, truth, x = planted("homophilous")
    links = GraphLinks(graph)
    fit = fit_block_model(x, SCALE, links, truth, [], rounds=50)
    model = fit.model
    own = model.feature_evidence(x * np.float32(SCALE**0.5))
    held, said = fit.memberships.copy(), own.copy()
    stayed = model.infer(own, links, fit.memberships)
    assert np.abs(stayed - held).sum(1).mean() < 0.02
    one = model.infer(own, links, held, rounds=1)
    by_hand = softmax_rows(own + model.link_evidence(held, links))
    np.testing.assert_array_equal(one, by_hand)
    # Without a start it begins with the features and ends in the same groups.
    fresh = model.infer(own, links)
    assert (fresh.argmax(1) == held.argmax(1)).mean() > 0.98
    # Neither the start nor what features say is overwritten.
    np.testing.assert_array_equal(fit.memberships, held)
    np.testing.assert_array_equal(own, said)


@pytest.mark.parametrize("tree", sorted(TREES))
def test_what_is_saved_comes_back(tree):
    rng = np.random.default_rng(0)
    graph = random_graph(15, 1)
    fit = fit_block_model(
        make_inputs(rng, 15), SCALE, GraphLinks(graph), rng.integers(0, 4, 15), TREES[tree]
    )
    again = BlockModel.from_state(fit.model.state())
    assert again.groups == fit.model.groups
    for name in ("vectors", "tables", "parents"):
        for one, other in zip(getattr(fit.model, name), getattr(again, name), strict=True):
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype


def test_a_node_of_which_nothing_is_known_belongs_to_all_groups_alike():
    graph = build_graph([0, 1, 2, 3], [1, 0, 3, 2], 6)
    x = np.zeros((6, 2), dtype=np.float32)
    x[:2], x[2:4] = [1, 0], [0, 1]
    codes = np.array([0, 0, 1, 1, 0, 1])
    fit = fit_block_model(x, SCALE, GraphLinks(graph), codes, [])
    np.testing.assert_allclose(fit.memberships[4:], 0.5, atol=1e-6)
    assert (fit.memberships[:4].argmax(1) == codes[:4]).all()


@pytest.mark.parametrize("width", [0, 3])
def test_graphs_without_links_and_inputs_without_columns(width):
    x = np.zeros((5, width), dtype=np.float32)
    links = GraphLinks(build_graph([], [], 5))
    fit = fit_block_model(x, SCALE, links, np.array([0, 1, 2, 0, 1]), [np.array([0, 0, 1])])
    np.testing.assert_allclose(fit.memberships, 1 / 3, atol=1e-6)
    assert math.isfinite(fit.bound)
    assert all(np.isfinite(table).all() for table in fit.model.tables)


def test_one_group_takes_everybody():
    graph = random_graph(10, 2)
    x = make_inputs(np.random.default_rng(0), 10)
    fit = fit_block_model(x, SCALE, GraphLinks(graph), np.zeros(10, dtype=np.int64), [])
    assert (fit.memberships == 1).all()
    assert fit.model.groups == (1,)
    assert fit.rounds <= 2


def test_empty_groups_stay_finite():
    """More groups than anybody starts in, as where there are fewer distinct points than groups."""
    graph = random_graph(10, 2)
    x = make_inputs(np.random.default_rng(0), 10)
    parents = [np.array([0, 0, 1, 1, 1, 2, 2, 2])]
    fit = fit_block_model(x, SCALE, GraphLinks(graph), np.arange(10) % 2, parents)
    assert fit.model.groups == (8, 3)
    for array in (fit.memberships, *fit.model.vectors, *fit.model.tables):
        assert np.isfinite(array).all()


def test_self_links_do_not_count_and_weights_are_relative():
    plain = build_graph([0, 1, 2], [1, 2, 0], 4, weights=[1.0, 2.0, 3.0])
    scaled = build_graph([0, 1, 2], [1, 2, 0], 4, weights=[10.0, 20.0, 30.0])
    held = np.eye(4, dtype=np.float32)
    one, other = GraphLinks(plain), GraphLinks(scaled)
    np.testing.assert_allclose(one.sums(held)[0], other.sums(held)[0], rtol=1e-6)
    assert one.degrees.sum() == pytest.approx(6)  # three links seen from both ends, mean weight 1
    # A graph built by hand may still hold a link of a node to itself.
    looped = Graph(np.array([0, 2, 3]), np.array([0, 1, 0]), NodeIds.range(2))
    np.testing.assert_array_equal(GraphLinks(looped).sums(held[:2, :2])[0], [[0, 1], [1, 0]])


def test_the_links_of_a_hub_count_less_each():
    trust = link_trust(np.array([0, 64, 6400], dtype=np.float32))
    np.testing.assert_allclose(trust, [1, 0.5, 1 / 101], rtol=1e-6)


def test_a_perfect_match_is_worth_the_scale():
    directions = np.array([[3.0, 4.0], [0.5, 0], [0, 0]], dtype=np.float32)
    vectors = group_vectors(directions, 12.0)
    np.testing.assert_allclose((vectors**2).sum(1), [12, 12, 0], rtol=1e-5)
    assert vectors[0] @ vectors[1] == pytest.approx(12 * 0.6, rel=1e-5)


@pytest.mark.parametrize("chance", [0.0, 0.3, 0.6, 1.0])
def test_the_share_of_chance_links_is_what_strangers_have(chance):
    """Eight groups that link inside only, and links between any two nodes."""
    memberships = np.repeat(np.eye(8, dtype=np.float32), 5, axis=0)
    degrees = np.full(40, 10, dtype=np.float32)
    odds = (1 - chance) * 8 * np.eye(8) + chance
    table = np.log(np.maximum(odds, 1e-9)).astype(np.float32)
    assert chance_share(table, memberships, degrees, degrees) == pytest.approx(chance, abs=1e-4)
    nobody = np.zeros(40, dtype=np.float32)
    assert 0 <= chance_share(table, memberships, nobody, nobody) <= 1


def test_a_link_counts_by_how_probable_it_is_that_it_is_no_chance():
    """Where groups have W times the links of chance and c is chance, 1 - c / W are not."""
    odds = np.array([[8.0, 0.5], [0.4, 0.001]])
    found = np.exp(reason_table(np.log(odds).astype(np.float32), 0.4))
    np.testing.assert_allclose(found, [[0.95, 0.2], [0.02, 0.02]], rtol=1e-5)
    # Without chance all links are alike, and where all are chance as well.
    assert np.ptp(reason_table(np.log(odds).astype(np.float32), 0.0)) == 0
    assert np.ptp(reason_table(np.zeros((3, 3), np.float32), 1.0)) == 0
