"""Node classification sees no test labels, chooses on validation, and repeats exactly."""

from dataclasses import replace

import numpy as np
import pytest

from graphham.evaluate.cells import Cell
from graphham.evaluate.classify import measure_classification
from graphham.evaluate.splits import node_split
from graphham.graph.graph import Labels
from tests.evaluate.spy import GRAPH, SEEN

SPY = Cell("classify", "planted", "folds", "spy")


@pytest.mark.parametrize("protocol", ["folds", "folds_sigmoid", "few5"])
def test_test_labels_are_hidden(spy: None, protocol: str) -> None:
    cell = Cell("classify", "planted", protocol, "spy", seed=1, settings={"noise": 0.0})
    record, _ = measure_classification(GRAPH, cell)
    split = node_split(GRAPH, protocol, seed=1)
    assert SEEN[0].labels is not None
    assert not SEEN[0].labels.known[split.test].any()
    assert SEEN[0].labels.known[split.train].all()
    assert record["validation"] == 1
    # What cannot be seen is guessed as the first class (or none).
    assert GRAPH.labels is not None
    assert GRAPH.labels.codes is not None
    first = (GRAPH.labels.codes[split.test] == 0).mean()
    assert record["metrics"]["accuracy"] == pytest.approx(
        0 if protocol == "folds_sigmoid" else first
    )
    assert record["split"]["fingerprint"] == split.fingerprint()


def test_settings_are_chosen_on_validation_only(spy: None) -> None:
    record, _ = measure_classification(GRAPH, replace(SPY, budget=3))
    assert record["chosen"] == {"noise": 0.0}
    assert [t["settings"]["noise"] for t in record["tried"]] == [0.9, 0.0, 0.5]
    assert record["validation"] == max(t["validation"] for t in record["tried"]) == 1
    fixed, _ = measure_classification(GRAPH, replace(SPY, budget=3, settings={"noise": 0.5}))
    assert [t["settings"] for t in fixed["tried"]] == [{"noise": 0.5}]
    default, _ = measure_classification(GRAPH, SPY)
    assert default["chosen"] == {"noise": 0.9}
    assert len(default["tried"]) == 1


def test_several_labels_per_node_are_scored_as_many_as_there_are(spy: None) -> None:
    from scipy.sparse import csr_matrix

    draw = np.random.default_rng(0)
    labels = Labels(tuple("abcd"), matrix=csr_matrix(draw.random((180, 4)) < 0.4))
    graph = replace(GRAPH, labels=labels)
    record, _ = measure_classification(graph, replace(SPY, settings={"noise": 0.0}))
    assert set(record["metrics"]) == {"accuracy", "micro_f1", "macro_f1", "label_accuracy"}
    assert 0 < record["metrics"]["accuracy"] < record["metrics"]["micro_f1"] < 0.8
    labelled = int(labels.known.sum())
    assert record["split"]["test"] == labelled // 5


def test_a_real_method_repeats_exactly_and_beats_chance() -> None:
    cell = Cell("classify", "planted", "folds", "sgc", seed=3, fold=2)
    one, two = (measure_classification(GRAPH, cell)[0] for _ in range(2))
    assert one["metrics"] == two["metrics"]
    assert one["metrics"]["accuracy"] > 0.6
