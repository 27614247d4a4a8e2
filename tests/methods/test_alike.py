"""A model reads graphs of the kind it was fitted on, lined up by feature names, and no others."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import graphham as gh
from graphham.errors import InputError
from graphham.graph.graph import Graph
from tests.reference.graphs import planted, without_features

GRAPH = replace(
    planted().graph, feature_names=[f"w{i}" for i in range(planted().graph.num_features)]
)
SMALL = {"groups": (4, 2), "dim": 8, "epochs": 2}


@pytest.fixture(scope="module")
def model() -> gh.GraphHAM:
    return gh.GraphHAM(**SMALL).fit(GRAPH)


def weighted(graph: Graph) -> Graph:
    return replace(graph, weights=np.full(graph.num_stored, 2, dtype=np.float32))


def test_features_for_a_model_without_them_are_refused() -> None:
    bare = gh.GraphHAM(**SMALL).fit(without_features(GRAPH))
    with pytest.raises(InputError, match="fitted without features, but the graph has"):
        bare.transform(GRAPH)


def test_weights_and_direction_must_be_those_of_the_fit(model: gh.GraphHAM) -> None:
    with pytest.raises(InputError, match="unweighted, but this one is weighted; leave out --wei"):
        model.transform(weighted(GRAPH))
    heavy = gh.GraphHAM(**SMALL).fit(weighted(GRAPH))
    with pytest.raises(InputError, match="weighted, but this one is unweighted; give --weight"):
        heavy.transform(GRAPH)
    with pytest.raises(InputError, match="undirected, but this one is directed"):
        model.transform(replace(GRAPH, directed=True))


def test_features_are_lined_up_by_name(model: gh.GraphHAM, tmp_path: Path) -> None:
    model.save(tmp_path / "run")
    assert GRAPH.features is not None
    order = np.random.default_rng(0).permutation(GRAPH.num_features)
    mixed = replace(
        GRAPH,
        features=GRAPH.features[:, order],
        feature_names=[f"w{i}" for i in order],
    )
    for reader in (model, gh.load(tmp_path / "run")):
        np.testing.assert_array_equal(reader.transform(mixed), model.embedding_)
    renamed = replace(GRAPH, feature_names=["other", *list(GRAPH.feature_names or ())[1:]])
    with pytest.raises(InputError, match="the feature 'w0', which the graph does not have"):
        model.transform(renamed)
