"""The learned scorer of links: fitted to validation edges, the same for every method."""

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.evaluate.cells import LEARNED, Cell
from graphham.evaluate.code_version import cell_version
from graphham.evaluate.fit_cache import group_of
from graphham.evaluate.learned_links import (
    CLUES,
    learned_scores,
    measure_learned_links,
    method_clues,
    pair_clues,
)
from graphham.evaluate.links import measure_links
from graphham.evaluate.splits import edge_split
from graphham.graph.graph import build_graph
from graphham.methods.registry import make_method
from tests.evaluate.spy import GRAPH, SEEN


def learned(method: str, protocol: str = "links", seed: int = 3) -> Cell:
    return Cell("links", "planted", protocol + LEARNED, method, seed=seed)


def test_clues_are_what_the_graph_says_of_pairs() -> None:
    # 0 and 1 share 2 (degree 3) and 3 (degree 2).
    ends = [(0, 2), (0, 3), (1, 2), (1, 3), (2, 4)]
    x = np.eye(5, 3, dtype=np.float32) + 1
    graph = build_graph([a for a, _ in ends], [b for _, b in ends], 5, features=x)
    pairs = np.array([[0, 1], [0, 4], [2, 3]])
    rare, common, size, gap, own, near = (clue(pairs) for clue in pair_clues(graph, 0))
    shared = 1 / np.log(3) + 1 / np.log(2)
    np.testing.assert_allclose(rare, np.log1p([shared, 1 / np.log(3), 2 / np.log(2)]), rtol=1e-5)
    np.testing.assert_allclose(common, np.log1p([2, 1, 2]), rtol=1e-6)
    np.testing.assert_allclose(size, np.log1p([2, 2, 3]) + np.log1p([2, 1, 2]))
    np.testing.assert_allclose(gap, np.abs(np.log1p([2, 2, 3]) - np.log1p([2, 1, 2])))
    for cosine in (own, near):
        assert (np.abs(cosine) <= 1 + 1e-6).all()


def test_a_method_says_its_score_and_the_cosine_of_every_layer() -> None:
    method = make_method("graphham", groups=(4, 2), dim=8, settings={"train.epochs": 2})
    method.fit(GRAPH, task="embed", verbose=False)
    pairs = np.array([[0, 1], [2, 3]])
    own, first, second = (clue(pairs) for clue in method_clues(method))
    np.testing.assert_allclose(own, first, atol=1e-5)  # E17: links are scored by layer 1
    assert not np.allclose(first, second)


def test_a_scorer_learns_which_clue_tells() -> None:
    draw = np.random.default_rng(0)
    told, noise = np.zeros((400, 400)), draw.normal(size=(400, 400))
    shown = np.column_stack([np.arange(400), draw.integers(400, size=(400, 6))])
    told[shown[:, 0], shown[:, 1]] = 1  # lower for links: the sign has to be learned
    value = 0.5 * noise - told
    clues = [lambda pairs: noise[pairs[:, 1], pairs[:, 0]], lambda pairs: value[tuple(pairs.T)]]
    scores = learned_scores(clues, shown[:300], shown[300:])
    assert (scores[:, :1] > scores[:, 1:]).mean() > 0.85


@pytest.mark.parametrize("protocol", ["links", "hard"])
def test_test_edges_are_hidden_and_queries_are_those_of_the_own_score(
    spy: None, protocol: str
) -> None:
    cell = learned("spy", protocol)
    record, _ = measure_learned_links(GRAPH, cell)
    split = edge_split(GRAPH, seed=3, fold=0)
    for source, target in np.concatenate([split.test, split.validation]).tolist():
        assert target not in SEEN[0].neighbors(source)
    own, _ = measure_links(GRAPH, Cell("links", "planted", protocol, "spy", seed=3))
    assert record["split"] == own["split"]
    assert record["validation"] == own["validation"]


def test_the_row_of_clues_needs_no_method_and_others_have_its_clues_too() -> None:
    clues = measure_learned_links(GRAPH, learned(CLUES))[0]
    assert clues["metrics"]["auc"] > 0.6
    assert "chosen" not in clues
    assert clues["cost"]["seconds"] > 0
    with_word = measure_learned_links(GRAPH, learned("adamic-adar"))[0]
    # Adamic and Adar's score is among the clues already.
    assert with_word["metrics"]["auc"] == pytest.approx(clues["metrics"]["auc"], abs=0.02)


def test_both_scorers_share_a_fit_but_not_a_version() -> None:
    own, other = Cell("links", "planted", "links", "gat", seed=3), learned("gat")
    assert group_of(own) == group_of(other)
    assert cell_version(own) != cell_version(other)


def test_too_few_validation_edges_are_one_sentence() -> None:
    small = build_graph(np.arange(20), np.arange(1, 21), 21, name="chain")
    with pytest.raises(InputError, match=r"at least 10 validation edges, and 'chain' leaves"):
        measure_learned_links(small, Cell("links", "chain", "links" + LEARNED, CLUES))
