"""Planted graphs with several labels a node, and without features."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.planted_cases import is_planted, planted_graph
from experiments.planted_labels import FAMILIES


@pytest.mark.parametrize("name", list(FAMILIES))
def test_interests_are_shared_along_links_or_go_together(name: str) -> None:
    graph, (first,) = planted_graph(name, 3)
    assert graph.labels is not None
    assert graph.labels.matrix is not None
    has = graph.labels.matrix.toarray().astype(int)
    assert np.bincount(has.sum(1), minlength=4)[1:] / 2000 == pytest.approx(
        [0.5, 0.3, 0.2], abs=0.04
    )
    assert (has[np.arange(2000), first] == 1).all()
    a, b = graph.edge_list().T
    step = FAMILIES[name].step
    # Both directions of a link; by chance an eighth to a quarter of the pairs fit.
    fits = (has[a] * np.roll(has, -step, 1)[b]).any(1) | (has[b] * np.roll(has, -step, 1)[a]).any(1)
    other = np.random.default_rng(0).permutation(b)
    chance = (has[a] * np.roll(has, -step, 1)[other]).any(1).mean()
    assert fits.mean() > FAMILIES[name].shared > 2 * chance
    if step:
        assert (has[a] * has[b]).any(1).mean() < 0.25
    assert planted_graph(name, 3)[0].fingerprint() == graph.fingerprint()
    assert planted_graph(name, 4)[0].fingerprint() != graph.fingerprint()


def test_a_bare_graph_is_the_same_without_features() -> None:
    whole, levels = planted_graph("homophilous", 3)
    bare, same = planted_graph("homophilous-bare", 3)
    assert is_planted("homophilous-bare")
    assert bare.features is None
    assert bare.name == "homophilous-bare"
    assert (bare.edge_list() == whole.edge_list()).all()
    assert all((a == b).all() for a, b in zip(levels, same, strict=True))
