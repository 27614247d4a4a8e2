"""What every method is asked and answers, on a method made for the test."""

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from graphham.errors import DivergedError, InputError
from graphham.graph.graph import Labels
from graphham.methods.base import FitRequest, Method
from graphham.results.run_writer import start_run
from tests.reference.graphs import planted

GRAPH = planted().graph


class Degrees(Method):
    """Gives every node its degree, and the majority class."""

    name: ClassVar[str] = "degrees"
    tasks: ClassVar[frozenset[str]] = frozenset({"classify", "links"})

    def __init__(self, *, lr: float = 0.1, finest: int = 4, **settings: Any) -> None:
        super().__init__(**settings)
        self.lr, self.finest = lr, finest

    def _fit(self, request: FitRequest) -> None:
        self.seen = request
        count = request.graph.num_nodes
        self.embedding_ = np.repeat(request.graph.degrees()[:, None], self.dim, 1).astype("f4")
        self.levels_ = [np.arange(count, dtype="i4") % self.finest, np.zeros(count, dtype="i4")]
        self.history_ = [{"epoch": 1, "validation": 0.2}, {"epoch": 2, "validation": 0.1}]
        if request.task == "classify":
            self.class_scores_ = np.tile(np.eye(len(self.classes_))[0], (count, 1)).astype("f4")
            self.validation_ = 0.25
        if self.lr > 1:
            self.embedding_[3] = np.inf


def test_embedding_is_asked_without_labels_and_described_with_them() -> None:
    method = Degrees(dim=2).fit(GRAPH)
    assert method.seen.graph.labels is None
    assert method.seen.given is GRAPH
    assert method.result_.labels is GRAPH.labels
    assert "nmi_1" in method.summary_["hierarchy"]
    assert method.classes_.tolist() == []
    with pytest.raises(InputError, match="without labels"):
        method.predict()


def test_classifying_is_asked_with_distinct_rows_in_order() -> None:
    mask = np.zeros(GRAPH.num_nodes, dtype=bool)
    mask[[9, 4]] = True
    method = Degrees(dim=2).fit(GRAPH, task="classify", train_rows=[7, 2, 7], validation_rows=mask)
    request = method.seen
    assert request.train_rows is not None
    assert request.validation_rows is not None
    assert request.train_rows.tolist() == [2, 7]
    assert request.validation_rows.tolist() == [4, 9]
    assert GRAPH.labels is not None
    assert set(method.predict()) == {GRAPH.labels.classes[0]}
    assert method.result_.confidence is not None
    assert method.summary_["training"] == {"epochs": 2, "best_epoch": 1, "validation": 0.25}


def test_a_second_fit_forgets_the_first() -> None:
    method = Degrees(dim=2).fit(GRAPH, task="classify")
    method.fit(GRAPH)
    assert method.class_scores_ is None
    assert method.validation_ is None
    assert method.result_.prediction is None


def test_levels_too_fine_to_look_at_are_no_groups() -> None:
    graph = planted(1200).graph
    method = Degrees(dim=1, finest=1100).fit(graph)
    assert method.levels_ is not None
    assert len(method.levels_) == 2
    assert method.result_.group_counts == (1,)


def test_one_class_is_no_task() -> None:
    one = Labels(("only",), codes=np.zeros(GRAPH.num_nodes, dtype=np.int32))
    with pytest.raises(InputError, match="every label is 'only'"):
        Degrees().fit(replace(GRAPH, labels=one), task="classify")


def test_numbers_that_are_not_finite_name_the_learning_rate() -> None:
    with pytest.raises(DivergedError, match="lr = 9 went astray: the vector of node"):
        Degrees(lr=9.0).fit(GRAPH)


def test_a_place_that_is_taken_is_refused_before_the_work(tmp_path: Path) -> None:
    start_run(tmp_path / "run", {"seed": 1}).close()
    method = Degrees()
    with pytest.raises(InputError, match="was not finished"):
        method.fit_to_run(GRAPH, tmp_path / "run")
    with pytest.raises(InputError, match="in one go"):
        method.fit_to_run(GRAPH, tmp_path / "run", resume=True)
    assert not hasattr(method, "seen")
    run = method.fit_to_run(GRAPH, tmp_path / "run", overwrite=True)
    assert run.method == "degrees"
    assert run.config["task"] == "embed"


def test_progress_of_a_fit_is_shown_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    from graphham import GraphHAM

    small = {"groups": (4, 2), "dim": 8, "epochs": 2}
    GraphHAM(**small).fit(GRAPH)
    GraphHAM(**small).fit(GRAPH, verbose=False)
    assert capsys.readouterr().out == ""
    GraphHAM(**small).fit(GRAPH, verbose=True)
    out = capsys.readouterr().out
    assert "epoch 2/2" in out
    assert "Plan" not in out
