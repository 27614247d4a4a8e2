"""GraphHAM as people use it: scikit-learn's conventions, any kind of graph, saving to the bit."""

import pickle
import shutil
from dataclasses import replace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import graphham
from graphham import GraphHAM
from graphham.errors import InputError
from graphham.graph.ids import NodeIds
from graphham.results.run_writer import Run
from graphham.training.epochs import Silent
from tests.reference.graphs import multi_labelled, planted, with_features, without_features

TRUTH = planted()
GRAPH = replace(TRUTH.graph, ids=NodeIds([f"n{7 * i + 3}" for i in range(180)]))
SMALL = {"groups": (6, 2), "dim": 16, "epochs": 6}


def small(**arguments):
    return GraphHAM(**{**SMALL, **arguments})


@pytest.fixture(scope="module")
def fitted():
    return small().fit(GRAPH)


def assert_same(one, other):
    np.testing.assert_array_equal(one.embedding, other.embedding)
    for name in ("memberships", "groups", "parents"):
        for a, b in zip(getattr(one, name), getattr(other, name), strict=True):
            np.testing.assert_array_equal(a, b, err_msg=name)
    np.testing.assert_array_equal(one.concentration, other.concentration)
    if one.prediction is not None:
        assert one.prediction.values() == other.prediction.values()


def test_arguments_are_only_stored():
    groups = [6, 2]
    settings = {"model.heads": 2}
    model = GraphHAM(groups=groups, dim=-5, task="nonsense", settings=settings)
    assert model.groups is groups
    assert model.settings is settings
    assert not [name for name in vars(model) if name.endswith("_")]
    assert model.get_params() == {
        "groups": groups,
        "dim": -5,
        "task": "nonsense",
        "epochs": None,
        "preset": "default",
        "seed": 0,
        "device": "cpu",
        "settings": settings,
    }
    with pytest.raises(InputError, match="nonsense"):
        model.fit(GRAPH)


def test_clone_and_set_params(fitted):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "embedding_")
    assert copy.set_params(seed=4, dim=8) is copy
    assert (copy.seed, copy.dim) == (4, 8)
    with pytest.raises(InputError, match=r"no setting 'depth'.*groups"):
        copy.set_params(depth=3)
    assert_same(clone(fitted).fit(GRAPH).result_, fitted.result_)


def test_its_representation_shows_what_is_not_default():
    assert repr(GraphHAM()) == "GraphHAM()"
    assert repr(GraphHAM(groups=(4, 2), seed=3)) == "GraphHAM(groups=(4, 2), seed=3)"
    assert "array" in repr(GraphHAM(groups=np.array([4, 2])))


def test_a_fit_is_told_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = small(epochs=1).fit(GRAPH)
    found = " > ".join(str(len(np.unique(codes))) for codes in model.groups_)
    said = f"<GraphHAM fitted to {GRAPH.name}: 180 nodes, groups {found}, vectors of 16, task embed"
    assert repr(model) == f"{said}>"
    model.save("mine")
    assert repr(graphham.load("mine")) == f"{said}, run mine>"
    shutil.make_archive("sent", "zip", "mine")
    assert repr(graphham.load("sent.zip")) == f"{said}, run sent.zip>"
    # A copy that is not fitted has all settings of the run: said, but not as a wall.
    again = repr(clone(graphham.load("mine")))
    assert again.startswith("GraphHAM(groups=(6, 2), dim=16, epochs=1, settings={'groups_from'")
    assert len(again) < 300


def test_everything_is_in_row_order_under_the_users_ids(fitted):
    assert fitted.ids_ == GRAPH.ids
    assert fitted.embedding_.shape == (180, 16)
    assert fitted.embedding_.dtype == np.float32
    for level, count in enumerate((6, 2)):
        assert fitted.memberships_[level].shape == (180, count)
        np.testing.assert_allclose(fitted.memberships_[level].sum(1), 1, atol=1e-5)
        assert fitted.groups_[level].max() < count
    assert fitted.concentration_.shape == (180,)
    assert fitted.hierarchy_.group_counts == (6, 2)
    assert len(fitted.history_) == 6
    assert fitted.summary_["graph"]["nodes"] == 180
    np.testing.assert_allclose(
        np.linalg.norm(fitted.embedding_.reshape(180, 2, 8), axis=2), 1, atol=1e-4
    )


def test_before_fitting_everything_says_so():
    model = small()
    for use in (
        lambda: model.transform(GRAPH),
        lambda: model.predict(),
        lambda: model.groups_table(),
        lambda: model.boundary_nodes(),
        lambda: model.explain("n3"),
        lambda: model.save("nowhere"),
    ):
        with pytest.raises(InputError, match="not fitted yet"):
            use()


def test_a_second_fit_forgets_the_first():
    model = small(task="classify").fit(GRAPH)
    model.set_params(task="embed", groups=(4, 2))
    other = planted(150, seed=9).graph
    model.fit(other)
    assert len(model.ids_) == 150
    assert model.memberships_[0].shape == (150, 4)
    assert len(model.history_) == 6
    with pytest.raises(InputError, match="without labels"):
        model.predict()


def test_fit_transform_and_transform_of_the_training_graph(fitted):
    np.testing.assert_array_equal(small().fit_transform(GRAPH), fitted.embedding_)
    assert_same(fitted.read(replace(GRAPH)), fitted.result_)


def test_numbers_from_numpy_serve_as_arguments():
    model = small(groups=np.array([6, 2]), seed=np.int64(0), dim=np.int32(16))
    assert_same(model.fit(GRAPH).result_, small().fit(GRAPH).result_)


KINDS = {
    "words": (GRAPH, {}),
    "dense": (with_features(GRAPH, GRAPH.features.toarray().astype(np.float16)), {}),
    "no features": (without_features(GRAPH), {}),
    "classify": (GRAPH, {"task": "classify"}),
    "multi-label": (multi_labelled(GRAPH), {"task": "classify"}),
    "paper": (GRAPH, {"preset": "paper", "settings": {"loss.walks": 2}}),
    "one level": (GRAPH, {"groups": (5,)}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_saving_and_loading_changes_no_bit(kind, tmp_path):
    graph, arguments = KINDS[kind]
    model = small(**arguments).fit(graph)
    run = model.save(tmp_path / "run")
    assert isinstance(run, Run)
    loaded = GraphHAM.load(tmp_path / "run", graph)
    assert_same(loaded.result_, model.result_)
    assert_same(loaded.read(graph), model.result_)
    for name in ("groups", "dim", "task", "epochs", "preset", "seed"):
        assert getattr(loaded, name) == getattr(model, name)
    if arguments.get("task") == "classify":
        assert loaded.predict() == model.predict()
        assert loaded.predict(graph) == model.predict()
    first = GRAPH.ids[0]
    assert str(loaded.explain(first)) == str(model.explain(first))
    assert loaded.groups_table().equals(model.groups_table())
    assert loaded.boundary_nodes(5).equals(model.boundary_nodes(5))
    again = loaded.save(tmp_path / "again")
    assert again.nodes.equals(run.nodes)
    assert_same(clone(loaded).fit(graph).result_, model.result_)


def test_a_saved_interrupted_fit_says_so(tmp_path):
    class Stop(Silent):
        def on_epoch(self, epoch, record):
            raise KeyboardInterrupt

    model = small().fit(GRAPH, listener=Stop())
    assert model.save(tmp_path / "run").summary["status"] == "interrupted"
    loaded = GraphHAM.load(tmp_path / "run", GRAPH)
    assert loaded.save(tmp_path / "copy").summary["status"] == "interrupted"


@pytest.mark.parametrize("graph", [GRAPH, without_features(GRAPH)], ids=["features", "none"])
def test_a_loaded_run_explains_with_the_graph_that_it_holds(tmp_path, graph):
    model = small().fit(graph)
    model.save(tmp_path / "run")
    loaded = GraphHAM.load(tmp_path / "run")
    assert str(loaded.explain("n10")) == str(model.explain("n10"))
    loaded = GraphHAM.load(tmp_path / "run")
    assert loaded.groups_table().equals(model.groups_table())
    assert loaded.boundary_nodes().equals(model.boundary_nodes())
    again = GraphHAM.load(tmp_path / "run").save(tmp_path / "run", overwrite=True)
    assert again.graph().fingerprint() == graph.fingerprint()


def test_loading_without_the_graph_and_with_another(tmp_path, fitted):
    fitted.save(tmp_path / "run")
    loaded = GraphHAM.load(tmp_path / "run")
    assert_same(loaded.read(GRAPH), fitted.result_)
    shutil.rmtree(tmp_path / "run" / "graph")  # as in a run of a large graph
    loaded = GraphHAM.load(tmp_path / "run")
    for use in (loaded.groups_table, lambda: loaded.explain("n3"), lambda: loaded.save("x")):
        with pytest.raises(InputError, match="needs the training graph"):
            use()
    with pytest.raises(InputError, match="nodes the model was fitted on"):
        GraphHAM.load(tmp_path / "run", planted().graph)
    # The same graph read from another file comes in another order; ids say who is who.
    moved = GRAPH.permuted(np.random.default_rng(0).permutation(180))
    loaded = GraphHAM.load(tmp_path / "run", moved)
    assert loaded.groups_table().equals(fitted.groups_table())
    assert str(loaded.explain("n10")) == str(fitted.explain("n10"))
    with pytest.raises(InputError, match="exists already"):
        fitted.save(tmp_path / "run")


def test_any_form_of_the_graph_gives_the_same():
    edges = GRAPH.edge_list()
    names = GRAPH.ids.tolist()
    expected = small().fit(replace(without_features(GRAPH), labels=None)).result_
    frame = pd.DataFrame(
        {"from": [names[a] for a in edges[:, 0]], "to": [names[b] for b in edges[:, 1]]}
    )
    network = nx.Graph()
    network.add_nodes_from(names)
    network.add_edges_from(zip(frame["from"], frame["to"], strict=True))
    assert_same(small().fit(network).result_, expected)
    by_frame = small().fit(frame)
    assert sorted(by_frame.ids_.tolist()) == sorted(names)
    matrix = small().fit(GRAPH.adjacency()).result_
    np.testing.assert_array_equal(matrix.embedding, expected.embedding)


def test_features_and_labels_beside_the_graph():
    features = pd.DataFrame(GRAPH.features.toarray(), columns=[f"w{i}" for i in range(60)])
    features.insert(0, "id", GRAPH.ids.tolist())
    labels = pd.DataFrame({"id": GRAPH.ids.tolist(), "topic": TRUTH.levels[1]})
    bare = replace(without_features(GRAPH), labels=None)
    model = small(task="classify").fit(bare, labels, features=features)
    assert set(model.predict()) <= {0, 1}
    assert model._graph.num_features == 60


def test_a_model_without_features_refuses_strangers():
    model = small().fit(without_features(GRAPH))
    strangers = replace(without_features(GRAPH), ids=NodeIds.range(180))
    with pytest.raises(InputError, match="none of the graph's ids is known"):
        model.transform(strangers)


def test_groups_table_and_boundary_nodes(fitted):
    table = fitted.groups_table()
    assert len(table) == 8
    assert fitted.groups_table(2).column("level").to_pylist() == [2, 2]
    sizes = fitted.groups_table(1).column("size").to_pylist()
    assert sizes == np.bincount(fitted.groups_[0], minlength=6).tolist()
    nodes = fitted.boundary_nodes(7)
    assert len(nodes) == 7
    most = np.argsort(-fitted.result_.between, kind="stable")[:7]
    assert nodes.column("id").to_pylist() == [GRAPH.ids[int(i)] for i in most]
    with pytest.raises(InputError):
        fitted.explain("nobody")


def test_a_fitted_model_can_be_sent_to_another_process(fitted):
    assert_same(pickle.loads(pickle.dumps(fitted)).read(GRAPH), fitted.result_)


def test_the_package_offers_it():
    assert graphham.GraphHAM is GraphHAM
