"""Stand-ins for the paper's two large graphs: as large, as dense, with labels of the same kind."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.planted_cases import is_planted, planted_graph
from experiments.planted_sizes import STANDINS, stand_in
from graphham.datasets.catalog import CATALOG
from graphham.errors import InputError


@pytest.mark.parametrize("name", ["youtube", "amazon"])
def test_a_stand_in_has_the_size_of_the_graph(name: str) -> None:
    about, real = STANDINS[f"{name}-planted"], CATALOG[name]
    assert about.nodes == real.nodes
    assert about.degree == pytest.approx(2 * real.edges / real.nodes, rel=0.01)


def test_a_part_of_the_size_keeps_neighbours_and_labels() -> None:
    graph, (fine, coarse) = planted_graph("youtube-planted/200", 1)
    assert graph.num_nodes == 1138499 // 200
    assert 2 * graph.num_edges / graph.num_nodes == pytest.approx(5.25, abs=0.1)
    assert graph.features is None
    assert graph.labels is not None
    assert graph.labels.matrix is not None
    per = np.asarray(graph.labels.matrix.sum(1)).ravel()
    assert (per > 0).mean() == pytest.approx(0.028, abs=0.008)
    assert (per == 2).sum() / (per > 0).sum() == pytest.approx(0.3, abs=0.1)
    has = graph.labels.matrix.toarray()
    assert has[np.flatnonzero(per), fine[per > 0]].all()
    assert len(np.unique(coarse)) == 8


def test_names_of_parts_are_checked() -> None:
    assert is_planted("amazon-planted/100")
    assert stand_in("cora") is None
    with pytest.raises(InputError, match="which part of the size, as in amazon-planted/100"):
        stand_in("amazon-planted/x")
