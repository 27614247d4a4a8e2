"""A method that remembers what it was shown, and a graph to show it."""

from typing import Any

import numpy as np

from graphham.graph.graph import Graph
from graphham.graph.planted import planted_hierarchy
from graphham.methods.base import Method
from graphham.methods.fit_request import FitRequest

GRAPH = planted_hierarchy((2, 3), 180, mean_degree=8, words=60, word_on=0.3, seed=4).graph
SEEN: list[Graph] = []


class Spy(Method):
    """Predicts what it can see of the labels; remembers the graph it was given."""

    name = "spy"
    tasks = frozenset({"classify", "links"})

    def __init__(self, *, seed: int = 0, dim: int = 128, noise: float = 0.0) -> None:
        super().__init__(seed=seed, dim=dim)
        self.noise = noise

    def _candidates(self, task: str) -> list[dict[str, Any]]:
        return [{"noise": 0.9}, {"noise": 0.0}, {"noise": 0.5}]

    def _fit(self, request: FitRequest) -> None:
        graph = request.graph
        SEEN.append(graph)
        self.graph_ = graph
        draw = np.random.default_rng(self.seed)
        n = graph.num_nodes
        self.embedding_ = draw.normal(size=(n, self.dim)).astype(np.float32)
        if request.task == "classify":
            assert graph.labels is not None
            size = len(graph.labels.classes)
            values = np.full((n, size), 0.1)
            known = np.flatnonzero(graph.labels.known)
            honest = known[draw.random(len(known)) >= self.noise]
            if graph.labels.codes is not None:
                values[honest, graph.labels.codes[honest]] = 0.9
            else:
                assert graph.labels.matrix is not None
                values[honest] = np.where(graph.labels.matrix[honest].toarray(), 0.9, 0.1)
            self.class_scores_ = values.astype(np.float32)

    def _score_links(self, pairs: Any) -> Any:
        linked = np.asarray(self.graph_.adjacency()[pairs[:, 0], pairs[:, 1]]).ravel() > 0
        return linked.astype(np.float64)
