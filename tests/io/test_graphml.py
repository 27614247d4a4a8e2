"""GraphML keeps its isolated nodes and attributes, and is not trusted."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.io import (
    read_graph,
)
from tests.io.edge_files import GRAPHML, pairs, put, read_both


def test_graphml(tmp_path: Path) -> None:
    file = put(tmp_path, "g.graphml", GRAPHML)
    graph = read_both(file, weight="strength")
    assert graph.ids.tolist() == ["n1", "n0", "alone"]
    assert graph.weights is not None
    assert graph.weights.tolist() == [7.0, 7.0]
    assert graph.report is not None
    assert any("directed" in note for note in graph.report.notes)
    kept = read_both(file, weight="strength", directed=True)
    assert kept.weights is not None
    assert sorted(kept.weights.tolist()) == [3.0, 4.0]
    assert pairs(read_both(put(tmp_path, "z.graphml.gz", gzip.compress(GRAPHML.encode()))))


def test_graphml_weights_beyond_single_precision(tmp_path: Path) -> None:
    file = put(tmp_path, "g.graphml", GRAPHML.replace(">4<", ">1e39<", 1))
    with pytest.raises(InputError, match=r"has '1e39' as its 'strength'; .*scale"):
        read_both(file, weight="strength")


CLUBS = """<graphml>
<key id="k" for="node" attr.name="size" attr.type="int"><default>7</default></key>
<key id="c" for="node" attr.name="club" attr.type="string"/>
<graph><node id="a"><data key="k">1</data><data key="c">red</data></node><node id="b"/>
<edge source="a" target="b"/></graph></graphml>"""


def test_node_attributes_of_graphml(tmp_path: Path) -> None:
    file = put(tmp_path, "g.graphml", CLUBS)
    assert read_both(file).features is None  # only on request
    graph = read_graph(file, features=file, labels=f"{file}:club")
    np.testing.assert_array_equal(graph.features, [[1], [7]])
    assert graph.feature_names == ["size"]
    assert graph.labels is not None
    assert graph.labels.values() == ["red", None]
    assert graph.report is not None
    assert any("club" in note for note in graph.report.notes)
