"""What every registered method promises, in one file for all of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.graph import Graph, Labels, build_graph
from graphham.graph.ids import NodeIds
from graphham.graph.planted import planted_hierarchy
from graphham.methods.base import SEARCH_BUDGET, Method
from graphham.methods.registry import (
    load_method,
    make_method,
    method_class,
    method_names,
    method_rows,
)
from graphham.sampling.walks import sample_negatives
from graphham.training.multilabel import ranked_micro_f1
from tests.reference.processes import imported

_NUM_NODES = 180
_HIERARCHICAL = ("graphstone", "gne", "spacene", "asp2vec", "deepmincut", "deepmincut-features")
_HAM = [name for name in method_names() if name.startswith("graphham")]
# Methods that have vectors for nodes they were not fitted on.
_PLACES = {*_HAM, "graphsage", "gat", "gcn", "appnp", "mlp", "graphstone", "deepmincut-features"}
_RIVALS = ("gcn", "appnp", "h2gcn", "linkx", "link", "label-propagation", "smoothed-logreg")
_BY_TASK = {
    "embed": [name for name, _, tasks in method_rows() if "links" in tasks],
    "classify": [name for name, _, tasks in method_rows() if "classify" in tasks],
}
_FITS = [(name, task) for task, names in _BY_TASK.items() for name in names]


def quick_settings(name: str) -> dict[str, Any]:
    """Settings that let a method learn a small planted graph in well under a second."""
    if name in _HAM:
        return {"dim": 16, "epochs": 30, "groups": (6, 2), "settings": {"loss.walks": 1}}
    if name in ("graphsage", "gat", "mlp"):
        return {"dim": 16, "epochs": 30, "lr": 0.02}
    if name in ("gcn", "appnp", "h2gcn", "linkx"):
        return {"dim": 16, "epochs": 40, "lr": 0.05}
    if name == "graphstone":
        return {"dim": 16, "epochs": 30, "hidden": 16, "lr": 0.02}
    if name == "hgcn":
        return {"dim": 16, "epochs": 40, "levels": 2}
    if name == "gne":
        return {"dim": 16, "steps": 300, "sphere_steps": 200}
    if name == "spacene":
        return {"dim": 16, "walks": 20}
    if name == "deepwalk":
        return {"dim": 16, "walks": 10, "walk_length": 20}
    if name == "asp2vec":
        return {"dim": 16, "walks": 4, "warmup": 4, "walk_length": 40}
    return {"dim": 16}


@cache
def planted() -> Graph:
    """Six leaves with their own words, text ids, and two isolated nodes at the end."""
    made = planted_hierarchy(
        (2, 3), num_nodes=_NUM_NODES, mean_degree=12, word_on=0.25, word_off=0.02, seed=3
    ).graph
    edges = made.edge_list()
    edges = edges[(edges < _NUM_NODES - 2).all(1)]
    ids = NodeIds([f"paper {i}" for i in range(_NUM_NODES)])
    return build_graph(
        edges[:, 0], edges[:, 1], _NUM_NODES, ids=ids, features=made.features, labels=made.labels
    )


def rows() -> tuple[Any, Any, Any]:
    """Training, validation and test rows."""
    order = np.random.default_rng(0).permutation(_NUM_NODES)
    return order[:90], order[90:110], order[110:]


def fit(name: str, task: str, graph: Graph | None = None, **settings: Any) -> Method:
    method = make_method(name, **{**quick_settings(name), **settings})
    given: dict[str, Any] = {}
    if task == "classify":
        given = {"train_rows": rows()[0], "validation_rows": rows()[1]}
    return method.fit(planted() if graph is None else graph, task=task, **given)


@cache
def fitted(name: str, task: str) -> Method:
    return fit(name, task)


@pytest.mark.parametrize(("name", "task"), _FITS)
def test_a_fit_gives_vectors_under_the_users_ids(name: str, task: str) -> None:
    method = fitted(name, task)
    assert method.ids_ == planted().ids
    assert method.embedding_.shape == (_NUM_NODES, 16)
    assert method.embedding_.dtype == np.float32
    assert np.isfinite(method.embedding_).all()
    assert method.embedding_.std(0).max() > 0
    assert method.cost_["seconds"] > 0
    assert (method.class_scores_ is None) == (task == "embed")
    if method.levels_ is not None:
        assert all(level.shape == (_NUM_NODES,) for level in method.levels_)


@pytest.mark.parametrize(("name", "task"), _FITS)
def test_the_same_seed_gives_the_same_result(name: str, task: str) -> None:
    first, second = fitted(name, task), make_method(name, **quick_settings(name))
    given = {} if task == "embed" else {"train_rows": rows()[0], "validation_rows": rows()[1]}
    assert second.fit(planted(), task=task, **given) is second
    np.testing.assert_array_equal(first.embedding_, second.embedding_)
    if task == "classify":
        np.testing.assert_array_equal(first.class_scores_, second.class_scores_)
        assert first.validation_ == second.validation_


@pytest.mark.parametrize("name", _BY_TASK["embed"])
def test_embedding_never_reads_labels(name: str) -> None:
    labels = planted().labels
    assert labels is not None
    assert labels.codes is not None
    shuffled = np.random.default_rng(1).permutation(labels.codes)
    other = replace(planted(), labels=Labels(labels.classes, codes=shuffled))
    np.testing.assert_array_equal(
        fit(name, "embed", other).embedding_, fitted(name, "embed").embedding_
    )


@pytest.mark.parametrize("name", _BY_TASK["classify"])
def test_classifying_never_reads_test_labels(name: str) -> None:
    labels = planted().labels
    assert labels is not None
    assert labels.codes is not None
    codes = labels.codes.copy()
    codes[rows()[2]] = np.random.default_rng(1).permutation(codes[rows()[2]])
    other = replace(planted(), labels=Labels(labels.classes, codes=codes))
    np.testing.assert_array_equal(
        fit(name, "classify", other).class_scores_, fitted(name, "classify").class_scores_
    )


@pytest.mark.parametrize("name", _BY_TASK["classify"])
def test_classifiers_clearly_beat_the_majority(name: str) -> None:
    method = fitted(name, "classify")
    labels = planted().labels
    assert labels is not None
    assert labels.codes is not None
    assert method.class_scores_ is not None
    test = rows()[2]
    accuracy = (method.class_scores_[test].argmax(1) == labels.codes[test]).mean()
    # Six equal classes: the majority is right one time in six.
    assert accuracy > 0.5
    assert 0 <= (method.validation_ or 0) <= 1
    assert method.predict()[0] in labels.classes


@pytest.mark.parametrize("name", _BY_TASK["embed"])
def test_link_scores_tell_held_out_edges_from_random_pairs(name: str) -> None:
    graph = planted()
    edges = np.random.default_rng(0).permutation(graph.edge_list())
    held = edges[: len(edges) // 10]
    method = fit(name, "embed", graph.without_edges(held))
    others = sample_negatives(graph, held[:, 0], 5, 1)
    wrong = np.stack([np.repeat(held[:, 0], 5), others.ravel()], axis=1)
    right_scores, wrong_scores = method.score_links(held), method.score_links(wrong)
    beats = right_scores[:, None] - wrong_scores[None]
    auc = (beats > 0).mean() + 0.5 * (beats == 0).mean()
    assert auc > 0.7
    np.testing.assert_allclose(
        method.score_links(held), method.score_links(held[:, ::-1]), rtol=1e-12
    )


@pytest.mark.parametrize(("name", "task"), _FITS)
def test_saving_and_loading_is_equal_to_the_bit(name: str, task: str, tmp_path: Path) -> None:
    method = fitted(name, task)
    method.save(tmp_path / "kept")
    again = load_method(tmp_path / "kept")
    assert type(again) is type(method)
    assert again.get_params().keys() == method.get_params().keys()
    assert again.ids_ == method.ids_
    np.testing.assert_array_equal(again.embedding_, method.embedding_)
    assert again.validation_ == method.validation_
    assert again.cost_ == method.cost_
    np.testing.assert_array_equal(again.classes_, method.classes_)
    assert again.classes_.dtype == method.classes_.dtype
    if task == "classify":
        np.testing.assert_array_equal(again.class_scores_, method.class_scores_)
    pairs = planted().edge_list()[:50]
    np.testing.assert_array_equal(again.score_links(pairs), method.score_links(pairs))
    with pytest.raises(InputError, match="exists already"):
        method.save(tmp_path / "kept")


@pytest.mark.parametrize(("name", "task"), _FITS)
def test_transform_repeats_the_fit_or_says_why_not(name: str, task: str, tmp_path: Path) -> None:
    method = fitted(name, task)
    same = replace(planted())  # another object: what was fitted itself is never placed anew
    if name not in _PLACES:
        with pytest.raises(InputError, match="cannot place"):
            method.transform(same)
        return
    vectors = method.transform(same)
    np.testing.assert_array_equal(vectors, method.embedding_)
    method.save(tmp_path / "kept")
    again = load_method(tmp_path / "kept")
    np.testing.assert_array_equal(again.transform(same), vectors)


@pytest.mark.parametrize("name", _BY_TASK["classify"])
def test_several_labels_per_node_are_validated_as_they_are_tested(name: str) -> None:
    codes = planted().labels.codes  # type: ignore[union-attr]
    both = np.zeros((_NUM_NODES, 3), dtype=bool)
    both[np.arange(_NUM_NODES), codes % 3] = True
    both[codes == 0, 1] = True
    graph = replace(planted(), labels=Labels(("a", "b", "c"), matrix=sp.csr_matrix(both)))
    method = fit(name, "classify", graph)
    assert method.class_scores_ is not None
    said = method.class_scores_[rows()[2]] > 0.5
    assert (said == both[rows()[2]]).mean() > 0.7
    asked = rows()[1]
    tested = ranked_micro_f1(method.class_scores_[asked], sp.csr_matrix(both[asked]))
    assert method.validation_ == pytest.approx(tested, abs=1e-9)


@pytest.mark.parametrize(
    "name",
    ["graphsage", "gat", "deepwalk", "smoothed", "sgc", "graphham", *_RIVALS, *_HIERARCHICAL],
)
def test_a_graph_without_features_is_served(name: str) -> None:
    task = "embed" if name in _BY_TASK["embed"] else "classify"
    graph = replace(planted(), features=None)
    assert np.isfinite(fit(name, task, graph).embedding_).all()


@pytest.mark.parametrize("name", method_names())
def test_every_method_may_try_equally_many_settings(name: str) -> None:
    method = make_method(name)
    line, tasks = next((line, tasks) for found, line, tasks in method_rows() if found == name)
    assert method.tasks == tasks
    assert method.name == name
    assert line
    for task in ("embed", "classify"):
        space = method.search_space(task)
        assert len(space) == SEARCH_BUDGET
        assert space[0] == {}
        for settings in space:
            make_method(name, **settings)


@pytest.mark.parametrize("name", method_names())
def test_settings_are_only_stored(name: str) -> None:
    method = make_method(name, seed=7, dim=8)
    assert method.get_params()["seed"] == 7
    assert type(method)(**method.get_params()).get_params() == method.get_params()
    assert method.set_params(dim=4).dim == 4
    assert "dim=4" in repr(method)
    with pytest.raises(InputError, match="has no setting 'nonsense'"):
        method.set_params(nonsense=1)
    with pytest.raises(InputError, match="not fitted"):
        method.score_links(np.array([[0, 1]]))
    with pytest.raises(InputError, match="not fitted"):
        method.save("somewhere")


@pytest.mark.parametrize("name", method_names())
def test_bad_input_is_one_sentence(name: str) -> None:
    method = make_method(name, **quick_settings(name))
    task = "classify" if "classify" in method.tasks else "embed"
    with pytest.raises(InputError, match="no task 'guess'"):
        method.fit(planted(), task="guess")
    if task == "classify":
        with pytest.raises(InputError, match="needs labels"):
            method.fit(replace(planted(), labels=None), task="classify")
        with pytest.raises(InputError, match="row 9999"):
            method.fit(planted(), task="classify", train_rows=[0, 9999])
        with pytest.raises(InputError, match="row 3 is in train_rows and in validation_rows"):
            method.fit(planted(), task="classify", train_rows=[2, 3], validation_rows=[3])
    else:
        with pytest.raises(InputError, match="cannot classify"):
            method.fit(planted(), task="classify")
    done = fitted(name, task)
    with pytest.raises(InputError, match="row -1"):
        done.score_links(np.array([[0, -1]]))
    with pytest.raises(InputError, match=r"shape \(3,\)"):
        done.score_links(np.array([0, 1, 2]))


def test_the_classes_can_be_imported_by_name() -> None:
    import graphham.methods as baselines

    for name in baselines.__all__:
        assert getattr(baselines, name).__name__ == name
    with pytest.raises(AttributeError, match="Nothing"):
        _ = baselines.Nothing


def test_unknown_names_get_the_nearest_one() -> None:
    with pytest.raises(InputError, match="did you mean 'graphsage'"):
        make_method("graphsag")
    with pytest.raises(InputError, match="did you mean 'epochs'"):
        make_method("gat", epoch=3)


def test_loading_another_method_or_no_method_is_refused(tmp_path: Path) -> None:
    fitted("smoothed", "embed").save(tmp_path / "kept")
    with pytest.raises(InputError, match="holds the method smoothed, not gat"):
        method_class("gat").load(tmp_path / "kept")
    with pytest.raises(InputError, match=r"no summary\.json"):
        load_method(tmp_path)
    (tmp_path / "kept" / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(InputError, match="damaged"):
        load_method(tmp_path / "kept")


def test_listing_the_methods_imports_nothing_heavy() -> None:
    code = "import graphham.methods.registry as m; m.method_rows(); m.method_names()"
    assert imported(code, ("torch", "sklearn", "scipy", "numba")) == []
