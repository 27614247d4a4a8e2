"""Does it learn? Planted trees, where the truth is known, at a size that takes seconds."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import normalized_mutual_info_score
from sknetwork.clustering import Louvain
from threadpoolctl import threadpool_limits

from graphham.config.settings import make_config
from graphham.graph.planted import planted_hierarchy
from graphham.methods.fitting import fit_graph
from tests.reference.graphs import without_features

QUICK = {"groups": (12, 3), "dim": 32, "train.epochs": 30}
EASY, MIDDLE, HARD = (0.7, 0.2, 0.1), (0.5, 0.33, 0.17), (0.4, 0.3, 0.3)


def nmis(truth, groups):
    return [normalized_mutual_info_score(a, b) for a, b in zip(truth, groups, strict=True)]


def smoothed_kmeans(graph, counts, seed, steps=2):
    """K-means on TF-IDF words averaged over two steps: what anybody would try first."""
    x = TfidfTransformer().fit_transform(graph.features).toarray()
    walk = graph.adjacency().toarray() + np.eye(graph.num_nodes)
    walk /= walk.sum(1, keepdims=True)
    for _ in range(steps):
        x = walk @ x
    with threadpool_limits(1):
        return [KMeans(k, n_init=3, random_state=seed).fit_predict(x) for k in counts]


def louvain(graph, counts):
    """Louvain at the resolution whose number of groups in use is nearest to the true one."""
    adjacency = graph.adjacency().astype(bool).astype(float)
    out = []
    for count in counts:
        tries = [
            Louvain(resolution=r, random_state=0).fit_predict(adjacency)
            for r in np.geomspace(0.3, 5, 8)
        ]
        used = [abs(int((np.bincount(c) >= 0.01 * len(c)).sum()) - count) for c in tries]
        out.append(tries[int(np.argmin(used))])
    return out


@pytest.mark.parametrize("seed", [0, 1])
def test_an_easy_tree_is_recovered_on_both_levels(seed):
    planted = planted_hierarchy((3, 4), 600, edge_shares=EASY, seed=seed)
    fitted = fit_graph(planted.graph, make_config(QUICK, {"seed": seed}))
    found = nmis(planted.levels, fitted.result.groups)
    assert min(found) >= 0.95
    others = nmis(planted.levels, smoothed_kmeans(planted.graph, (12, 3), seed))
    assert all(ours >= other - 0.01 for ours, other in zip(found, others, strict=True))
    metrics = fitted.summary["hierarchy"]
    assert (metrics["used_1"], metrics["used_2"]) == (12, 3)
    assert metrics["nesting"] == pytest.approx(1)
    assert fitted.summary["notes"] == []


@pytest.mark.parametrize("shares", [MIDDLE, HARD])
def test_a_harder_tree_is_recovered_better_than_by_others(shares):
    found, means, communities = [], [], []
    for seed in (0, 1):
        planted = planted_hierarchy((3, 4), 900, edge_shares=shares, seed=seed)
        fitted = fit_graph(planted.graph, make_config(QUICK, {"seed": seed}))
        found.append(nmis(planted.levels, fitted.result.groups))
        means.append(nmis(planted.levels, smoothed_kmeans(planted.graph, (12, 3), seed)))
        communities.append(nmis(planted.levels, louvain(planted.graph, (12, 3))))
    for others in (means, communities):
        assert (np.mean(found, axis=0) >= np.mean(others, axis=0) - 0.01).all(), (found, others)


def test_links_alone_are_enough_on_an_easy_tree():
    planted = planted_hierarchy((3, 4), 900, edge_shares=EASY, seed=0)
    fitted = fit_graph(without_features(planted.graph), make_config(QUICK))
    assert min(nmis(planted.levels, fitted.result.groups)) >= 0.9


def test_three_levels():
    planted = planted_hierarchy((2, 3, 3), 900, words=360, word_on=0.15, seed=0)
    settings = {"groups": (18, 6, 2), "dim": 96, "train.epochs": 30}
    fitted = fit_graph(planted.graph, make_config(settings))
    assert min(nmis(planted.levels, fitted.result.groups)) >= 0.85
    metrics = fitted.summary["hierarchy"]
    assert metrics["nesting_1"] == pytest.approx(1)
    assert metrics["nesting_2"] == pytest.approx(1)


@pytest.mark.parametrize("seed", [0, 1])
def test_samples_learn_what_the_whole_graph_does(seed):
    planted = planted_hierarchy((3, 4), 600, edge_shares=EASY, seed=seed)
    scores = []
    for batch in ("full", "sampled"):
        settings = {"train.batch": batch, "train.batch_size": 150, "train.fanouts": (8, 8)}
        fitted = fit_graph(
            planted.graph, make_config(QUICK, settings, {"seed": seed, "train.epochs": 16})
        )
        assert fitted.config.train.batch == batch
        scores.append(nmis(planted.levels, fitted.result.groups))
    np.testing.assert_allclose(scores[1], scores[0], atol=0.05)


def test_joint_classification_beats_features_alone():
    planted = planted_hierarchy((3, 4), 600, edge_shares=EASY, seed=0)
    graph, truth = planted.graph, planted.levels[0]
    rows = np.random.default_rng(0).permutation(600)
    train, test = rows[:180], rows[180:]
    alone = LogisticRegression(max_iter=500).fit(graph.features[train], truth[train])
    settings = {"task": "classify", "dim": 64, "train.epochs": 80}
    fitted = fit_graph(graph, make_config(settings), train_rows=train)
    accuracy = float((fitted.result.prediction.codes[test] == truth[test]).mean())
    assert accuracy > 0.9
    assert accuracy > alone.score(graph.features[test], truth[test]) + 0.3


ABLATIONS = {
    "minus lambda": {"model.group_score": "none"},
    "minus Q": {"loss.group_context": False},
    "minus L_reg": {"loss.must_link_weight": 0.0, "loss.cannot_link_weight": 0.0},
    "skip-gram": {"loss.context": "skipgram", "loss.walks": 5},
}


@pytest.mark.parametrize("name", ABLATIONS)
def test_ablations_still_learn_an_easy_tree(name):
    planted = planted_hierarchy((3, 4), 600, edge_shares=EASY, seed=2)
    settings = {**QUICK, "train.epochs": 16}
    fitted = fit_graph(planted.graph, make_config(settings, ABLATIONS[name]))
    fine, coarse = nmis(planted.levels, fitted.result.groups)
    assert coarse > 0.9
    assert fine > 0.8


def test_the_paper_preset_trains_and_its_vectors_tell_the_groups_apart():
    planted = planted_hierarchy((3, 4), 600, edge_shares=EASY, seed=0)
    settings = {**QUICK, "loss.walks": 10, "train.epochs": 40}
    fitted = fit_graph(planted.graph, make_config(settings, preset="paper"))
    contexts = [record["context"] for record in fitted.history]
    assert contexts[-1] < 0.9 * contexts[0]
    codes = KMeans(3, n_init=5, random_state=0).fit_predict(fitted.result.layer(1))
    assert normalized_mutual_info_score(planted.levels[1], codes) > 0.5


def test_nodes_between_groups_are_less_concentrated():
    planted = planted_hierarchy((3, 4), 600, edge_shares=EASY, mixed=0.15, seed=1)
    fitted = fit_graph(planted.graph, make_config(QUICK))
    is_mixed = np.diff(planted.memberships.indptr) == 2
    held = fitted.result.concentration
    assert held[is_mixed].mean() < held[~is_mixed].mean()
    order = np.argsort(held)[: is_mixed.sum()]
    assert is_mixed[order].mean() > 2 * is_mixed.mean()
