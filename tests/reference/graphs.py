"""Small graphs for the tests of the model: every odd shape a user may bring."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from graphham.config.settings import make_config
from graphham.graph.graph import Graph, Labels, build_graph
from graphham.graph.planted import PlantedGraph, planted_hierarchy

SMALL = {"groups": (6, 2), "dim": 16, "train.epochs": 6}


def planted(num_nodes: int = 180, seed: int = 1, **options) -> PlantedGraph:
    """Two coarse groups of three fine ones, easy to tell apart."""
    defaults = {"mean_degree": 8, "words": 60, "word_on": 0.3}
    return planted_hierarchy((2, 3), num_nodes, seed=seed, **{**defaults, **options})


def relinked(graph: Graph, *, extra: int = 0, weights=None, directed: bool = False) -> Graph:
    """The same links in another form: weighted, directed, or with isolated nodes added."""
    edges = graph.edge_list()
    features = graph.features
    if extra and features is not None:
        empty = sp.csr_matrix((extra, features.shape[1]), dtype=np.float32)
        features = sp.csr_matrix(sp.vstack([features, empty]))
    return build_graph(
        edges[:, 0],
        edges[:, 1],
        graph.num_nodes + extra,
        weights=weights,
        directed=directed,
        features=features,
        labels=None if extra else graph.labels,
        name=graph.name,
    )


def without_features(graph: Graph) -> Graph:
    return replace(graph, features=None, feature_names=None)


def with_features(graph: Graph, features) -> Graph:
    return replace(graph, features=features, feature_names=None)


def multi_labelled(graph: Graph) -> Graph:
    """Two labels per node: its own class and the next one."""
    own = np.eye(6, dtype=bool)[graph.labels.codes]
    return replace(
        graph, labels=Labels(tuple("abcdef"), matrix=sp.csr_matrix(own | np.roll(own, 1, 1)))
    )


def random_graph(num_nodes: int, seed: int, weighted: bool = False, directed: bool = False):
    """A random graph with isolated nodes here and there."""
    rng = np.random.default_rng([seed, num_nodes])
    count = int(rng.integers(0, 3 * num_nodes))
    source, target = rng.integers(0, num_nodes, (2, count))
    weights = rng.uniform(0.2, 3.0, count) if weighted else None
    return build_graph(source, target, num_nodes, weights=weights, directed=directed)


def small_config(*sources, **settings):
    return make_config(SMALL, *sources, settings)


CLIQUE, BRIDGE = 12, 12


def barbell() -> tuple[Graph, np.ndarray]:
    """Two cliques joined by a path, and which nodes lie on the path."""
    one, other = np.triu_indices(CLIQUE, 1)
    far = CLIQUE + BRIDGE
    path = np.arange(CLIQUE - 1, far + 1)
    source = np.concatenate([one, one + far, path[:-1]])
    target = np.concatenate([other, other + far, path[1:]])
    on_path = np.zeros(far + CLIQUE, dtype=int)
    on_path[CLIQUE:far] = 1
    return build_graph(source, target, len(on_path)), on_path
