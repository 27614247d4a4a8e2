"""Measurements see no test labels and no test edges, choose on validation, and repeat exactly."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.evaluate import tuning as choosing
from graphham.evaluate.candidates import uniform_queries
from graphham.evaluate.classify import measure_classification
from graphham.evaluate.links import as_pairs, measure_links
from graphham.evaluate.splits import edge_split, node_split
from graphham.evaluate.tuning import choose, merge
from graphham.graph.graph import Graph, Labels
from graphham.graph.planted import planted_hierarchy
from graphham.methods.base import Method
from graphham.methods.registry import load_method, make_method
from graphham.sampling.keys import derive_key

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

    def _fit(self, graph: Graph, task: str, train_rows: Any, *_: Any) -> None:
        SEEN.append(graph)
        self.graph_ = graph
        draw = np.random.default_rng(self.seed)
        n = graph.num_nodes
        self.embedding_ = draw.normal(size=(n, self.dim)).astype(np.float32)
        if task == "classify":
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


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> None:
    import graphham.methods.registry as registry

    real = registry.make_method

    def make(name: str, **settings: Any) -> Any:
        return Spy(**settings) if name == "spy" else real(name, **settings)

    monkeypatch.setattr(registry, "make_method", make)
    SEEN.clear()


@pytest.mark.parametrize("protocol", ["p2", "p2s", "few5"])
def test_test_labels_are_hidden(spy: None, protocol: str) -> None:
    record, _ = measure_classification(
        GRAPH, "spy", protocol=protocol, seed=1, settings={"noise": 0.0}
    )
    split = node_split(GRAPH, protocol, seed=1)
    assert SEEN[0].labels is not None
    assert not SEEN[0].labels.known[split.test].any()
    assert SEEN[0].labels.known[split.train].all()
    assert record["validation"] == 1
    # What cannot be seen is guessed as the first class (or none).
    assert GRAPH.labels is not None
    assert GRAPH.labels.codes is not None
    first = (GRAPH.labels.codes[split.test] == 0).mean()
    assert record["metrics"]["accuracy"] == pytest.approx(0 if protocol == "p2s" else first)
    assert record["split"]["fingerprint"] == split.fingerprint()


def test_settings_are_chosen_on_validation_only(spy: None) -> None:
    record, _ = measure_classification(GRAPH, "spy", budget=3)
    assert record["chosen"] == {"noise": 0.0}
    assert [t["settings"]["noise"] for t in record["tried"]] == [0.9, 0.0, 0.5]
    assert record["validation"] == max(t["validation"] for t in record["tried"]) == 1
    fixed, _ = measure_classification(GRAPH, "spy", budget=3, settings={"noise": 0.5})
    assert [t["settings"] for t in fixed["tried"]] == [{"noise": 0.5}]
    default, _ = measure_classification(GRAPH, "spy", budget=1)
    assert default["chosen"] == {"noise": 0.9}
    assert len(default["tried"]) == 1


def test_equal_settings_are_fitted_once(spy: None) -> None:
    fitted: list[Method] = []

    def fit(method: Method) -> Method:
        fitted.append(method.fit(GRAPH))
        return method

    chosen = choose("spy", "classify", 0, 4, {}, fit, lambda m: 0.5)
    assert len(fitted) == len(chosen.tried) == 4
    # A method with a single setting repeats its default.
    again = choose("smoothed", "links", 0, 4, {}, lambda m: m.fit(GRAPH), lambda m: 0.5)
    assert len(again.tried) <= 4
    assert len({str(t["settings"]) for t in again.tried}) == len(again.tried)
    with pytest.raises(InputError, match="budget"):
        choose("spy", "classify", 0, 0, {}, fit, lambda m: 0.0)


def test_fixed_settings_survive_the_choice() -> None:
    fixed = {"settings": {"a": 1, "b": 2}, "dim": 64}
    assert merge(fixed, {"settings": {"b": 3}}) == {"settings": {"a": 1, "b": 3}, "dim": 64}
    assert fixed == {"settings": {"a": 1, "b": 2}, "dim": 64}
    assert choosing.merge({}, {"x": 1}) == {"x": 1}


@pytest.mark.parametrize("hard", [False, True])
def test_test_edges_are_hidden(spy: None, hard: bool) -> None:
    record, _ = measure_links(GRAPH, "spy", seed=2, fold=1, hard=hard)
    split = edge_split(GRAPH, seed=2, fold=1)
    for source, target in np.concatenate([split.test, split.validation]).tolist():
        assert target not in SEEN[0].neighbors(source)
    assert SEEN[0].labels is None
    # It sees none of the links asked for: all scores are level.
    assert record["metrics"]["auc"] == 0.5
    assert record["metrics"]["mrr"] == pytest.approx(1 / 11)
    assert record["split"]["queries"] == len(split.test)
    assert record["metrics"]["scale"] == 5


def test_several_labels_per_node_are_scored_as_many_as_there_are(spy: None) -> None:
    from dataclasses import replace

    from scipy.sparse import csr_matrix

    draw = np.random.default_rng(0)
    labels = Labels(tuple("abcd"), matrix=csr_matrix(draw.random((180, 4)) < 0.4))
    graph = replace(GRAPH, labels=labels)
    record, _ = measure_classification(graph, "spy", seed=0, settings={"noise": 0.0})
    assert set(record["metrics"]) == {"accuracy", "micro_f1", "macro_f1", "label_accuracy"}
    assert 0 < record["metrics"]["accuracy"] < record["metrics"]["micro_f1"] < 0.8
    labelled = int(labels.known.sum())
    assert record["split"]["test"] == labelled // 5


def test_a_real_method_repeats_exactly_and_beats_chance() -> None:
    one, two = (measure_classification(GRAPH, "sgc", seed=3, fold=2)[0] for _ in range(2))
    assert one["metrics"] == two["metrics"]
    assert one["metrics"]["accuracy"] > 0.6
    near, _ = measure_links(GRAPH, "adamic-adar", seed=3)
    hard, _ = measure_links(GRAPH, "adamic-adar", seed=3, hard=True)
    assert near["metrics"]["auc"] > 0.55
    assert hard["metrics"]["auc"] < near["metrics"]["auc"] - 0.1


def test_link_score_learns_from_held_out_links_only(tmp_path: Path) -> None:
    settings = {"epochs": 4, "groups": [6, 2], "dim": 16}
    kept = tmp_path / "run"
    record, _ = measure_links(GRAPH, "graphham", settings=settings, keep=kept)
    plain, _ = measure_links(GRAPH, "graphham", settings={**settings, "link_score": "cosine"})
    assert record["validation"] > plain["validation"]
    split = edge_split(GRAPH)
    key = derive_key(0, "link queries", "validation", 0)
    asked = uniform_queries(GRAPH, split.validation, key, 20)
    method = make_method("graphham", **settings).fit(split.graph)
    before = method.score_links(split.test)
    learned = method.learn_links(*as_pairs(asked))
    assert np.array_equal(method.score_links(split.test), before)  # the fit itself stays
    assert np.array_equal(
        load_method(kept).score_links(split.test), learned.score_links(split.test)
    )
