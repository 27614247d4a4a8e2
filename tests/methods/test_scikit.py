"""GraphHAM inside scikit-learn's own tools, which take rows of what they are given."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

import graphham as gh
from graphham.errors import InputError
from graphham.graph.ids import NodeIds
from graphham.methods import DeepWalk
from graphham.methods.scikit import class_array, share_right
from tests.reference.graphs import multi_labelled, planted

GRAPH = replace(
    planted().graph,
    ids=NodeIds([f"n{i}" for i in range(180)]),
    feature_names=[f"w{i}" for i in range(planted().graph.num_features)],
)
assert GRAPH.labels is not None
Y = np.array(GRAPH.labels.values())
SMALL = {"groups": (6, 2), "dim": 16, "epochs": 3}


def classifier() -> gh.GraphHAM:
    return gh.GraphHAM(**SMALL, task="classify")


def test_a_pipeline_fits_some_nodes_and_predicts_others() -> None:
    pipeline = make_pipeline(gh.GraphHAM(**SMALL), LogisticRegression())
    order = np.random.default_rng(0).permutation(180)
    seen, others = order[:120], order[120:]
    pipeline.fit(GRAPH[seen], Y[seen])
    told = pipeline.predict(GRAPH[others])
    assert told.shape == (60,)
    assert pipeline.score(GRAPH[others], Y[others]) == np.mean(told == Y[others]) > 0.4


def test_a_pipeline_of_walks_predicts_the_graph_it_was_fitted_on() -> None:
    walks = DeepWalk(walks=2, walk_length=8, dim=8)
    pipeline = make_pipeline(walks, LogisticRegression()).fit(GRAPH, Y)
    assert pipeline.predict(GRAPH).shape == (180,)
    with pytest.raises(InputError, match="cannot place"):
        pipeline.predict(planted(90).graph)


def test_a_search_over_a_graph_chooses_by_held_out_nodes() -> None:
    search = GridSearchCV(classifier(), {"dim": [8, 16]}, cv=3).fit(GRAPH, Y)
    assert search.best_params_["dim"] in (8, 16)
    assert len(search.cv_results_["mean_test_score"]) == 2
    rows = np.arange(0, 180, 3)
    assert len(search.predict(GRAPH[rows])) == 60


def test_cross_validation_never_shows_the_labels_it_tests_on() -> None:
    """Labels without any pattern cannot be predicted, unless a fold saw them."""
    noise = np.random.default_rng(0).integers(0, 2, 180)
    assert cross_val_score(classifier(), GRAPH, noise, cv=3).mean() < 0.7
    by_odds = cross_val_score(classifier(), GRAPH, Y, cv=3, scoring="neg_log_loss")
    assert (by_odds > -np.log(len(np.unique(Y)))).all()


def test_tags_and_fittedness_are_known_to_scikit_learn() -> None:
    model = gh.GraphHAM(**SMALL)
    assert get_tags(model).estimator_type == "transformer"
    assert is_classifier(classifier())
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    assert not hasattr(model, "feature_names_in_")
    model.fit(GRAPH)
    check_is_fitted(model)
    assert model.feature_names_in_.tolist() == list(GRAPH.feature_names or ())
    assert model.n_features_in_ == GRAPH.num_features


def test_transform_gives_an_array_or_the_frame_asked_for(tmp_path: Path) -> None:
    model = gh.GraphHAM(**SMALL).fit(GRAPH)
    rows = np.array([5, 3, 170])
    plain = model.transform(GRAPH[rows])
    assert isinstance(plain, np.ndarray)
    np.testing.assert_array_equal(plain, model.embedding_[rows])
    frame = clone(model.set_output(transform="pandas")).fit_transform(GRAPH[rows])
    assert isinstance(frame, pd.DataFrame)
    assert frame.index.tolist() == ["n5", "n3", "n170"]
    assert frame.columns[1] == "graphham1"
    assert model.set_output(transform="polars").transform(GRAPH).shape == (180, 16)
    assert isinstance(model.transform(GRAPH), pl.DataFrame)
    with pytest.raises(InputError, match="no output 'arrow'"):
        model.set_output(transform="arrow")


def test_reading_some_nodes_is_reading_all_and_taking_them() -> None:
    model = classifier().fit(GRAPH)
    rows = np.array([9, 2])
    part = model.read(GRAPH[rows]).validate()
    assert part.ids.tolist() == ["n9", "n2"]
    np.testing.assert_array_equal(part.groups[0], model.groups_[0][rows])
    np.testing.assert_array_equal(part.memberships[1], model.memberships_[1][rows])
    assert part.prediction is not None
    assert part.prediction.values() == [model.predict()[9], model.predict()[2]]


def test_scores_are_those_of_the_predictions() -> None:
    model = classifier().fit(GRAPH[:120])
    right = np.array(model.predict()) == Y
    assert model.score(GRAPH[120:]) == pytest.approx(right[120:].mean())
    assert model.score(GRAPH, Y) == pytest.approx(right.mean())
    proba = model.predict_proba(GRAPH[120:])
    best = [model.classes_[i] for i in proba.argmax(1)]
    assert best == model.predict(GRAPH[120:])


def test_probabilities_of_an_unseen_graph_are_those_of_its_predictions(tmp_path: Path) -> None:
    model = classifier().fit(GRAPH)
    other = replace(planted(90).graph, feature_names=GRAPH.feature_names)
    proba = model.predict_proba(other)
    assert proba.shape == (90, len(model.classes_))
    np.testing.assert_allclose(proba.sum(1), 1, rtol=1e-5)
    assert model.classes_[proba.argmax(1)].tolist() == model.predict(other)
    np.testing.assert_allclose(proba.max(1), model.read(other).confidence, rtol=1e-5)
    np.testing.assert_array_equal(model.predict_proba(other[7:9]), proba[7:9])
    assert model.score(other) == np.mean(np.array(model.predict(other)) == other.labels.values())
    model.save(tmp_path / "run")
    np.testing.assert_array_equal(gh.load(tmp_path / "run").predict_proba(other), proba)
    walks = DeepWalk(dim=8).fit(GRAPH, task="classify")
    with pytest.raises(InputError, match="fitted on only"):
        walks.predict_proba(other)


def test_scikit_learn_scores_probabilities_and_finds_the_classes() -> None:
    model = classifier().fit(GRAPH)
    assert isinstance(model.classes_, np.ndarray)
    assert model.classes_.tolist() == list(GRAPH.labels.classes)
    losses = cross_val_score(classifier(), GRAPH, Y, cv=2, scoring="neg_log_loss")
    areas = cross_val_score(classifier(), GRAPH, Y, cv=2, scoring="roc_auc_ovr")
    assert (losses < 0).all()
    assert np.isfinite(losses).all()
    assert (areas > 0.5).all()
    assert class_array(["a\0", 2]).tolist() == ["a\0", 2]
    assert class_array((3, 1)).dtype == np.int64


def test_a_share_right_counts_labels_where_a_node_has_several() -> None:
    assert share_right(["a", "b", "c"], ["a", None, "b"]) == 0.5
    assert share_right([["a", "b"], ["c"]], [["a"], ["c", "d"]]) == pytest.approx(2 * 2 / 6)
    with pytest.raises(InputError, match="no label is known"):
        share_right(["a"], [None])
    model = classifier().fit(multi_labelled(GRAPH))
    assert 0 < model.score() <= 1


def test_rows_that_are_no_nodes_are_refused() -> None:
    with pytest.raises(InputError, match="lies outside"):
        gh.as_graph(GRAPH)[[3, 1]].__class__(GRAPH, [900])
    with pytest.raises(InputError, match="3 labels for 2 nodes"):
        gh.GraphHAM(**SMALL).fit(GRAPH[[3, 1]], ["a", "b", "c"])
    with pytest.raises(InputError, match="whole graph is needed"):
        gh.as_graph(GRAPH[[3, 1]])
