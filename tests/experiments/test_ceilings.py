"""Nobody tells planted classes better than who knows the law they were drawn by."""

import numpy as np
import pytest

from experiments.ceilings import ceiling, group_means, link_shares, main
from experiments.planted_cases import CASES, planted_graph


@pytest.mark.parametrize("name", ["partners", "homophilous", "missing_features"])
def test_the_law_is_the_one_graphs_are_drawn_by(name):
    case, found, expected = CASES[name], np.zeros((12, 12)), link_shares(CASES[name])
    np.testing.assert_allclose(expected.sum(1), 1)
    for seed in range(3):
        graph, (fine, _) = planted_graph(name, seed)
        x, means = np.asarray(graph.features), group_means(case, seed)
        for group in range(12):
            mine = x[(fine == group) & x.any(1)]
            # A mean of n draws has deviation 1 / sqrt(n) in every feature.
            assert np.abs(mine.mean(0) - means[group]).max() < 4.5 / len(mine) ** 0.5
        edges = graph.edge_list()
        np.add.at(found, (fine[edges[:, 0]], fine[edges[:, 1]]), 1)
    both = (found + found.T) / found.sum()
    np.testing.assert_allclose(both * 12, expected + expected.T, atol=0.15 * both.max() * 12)


def test_a_ceiling_is_above_what_features_or_links_tell_alone():
    name, seed = "partners", 0
    graph, (fine, _) = planted_graph(name, seed)
    x, means = np.asarray(graph.features), group_means(CASES[name], seed)
    alone = ((x @ means.T - (means**2).sum(1) / 2).argmax(1) == fine).mean()
    assert alone + 0.05 < ceiling(name, seed) < 1


def test_the_command_prints_means_and_refuses_other_cases(capsys):
    assert main(["homophilous", "--draws", "2"]) == 0
    assert "over 2 draws" in capsys.readouterr().out
    assert main(["cora"]) == 2
    assert "no planted case 'cora'" in capsys.readouterr().err
