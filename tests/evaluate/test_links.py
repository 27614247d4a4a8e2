"""Link prediction sees no test edges and learns its score from held-out links only."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from graphham.evaluate.candidates import uniform_queries
from graphham.evaluate.cells import Cell
from graphham.evaluate.links import as_pairs, measure_links
from graphham.evaluate.splits import edge_split
from graphham.methods.registry import load_method, make_method
from graphham.sampling.keys import derive_key
from tests.evaluate.spy import GRAPH, SEEN


@pytest.mark.parametrize("protocol", ["links", "hard"])
def test_test_edges_are_hidden(spy: None, protocol: str) -> None:
    record, _ = measure_links(GRAPH, Cell("links", "planted", protocol, "spy", seed=2, fold=1))
    split = edge_split(GRAPH, seed=2, fold=1)
    for source, target in np.concatenate([split.test, split.validation]).tolist():
        assert target not in SEEN[0].neighbors(source)
    assert SEEN[0].labels is None
    # It sees none of the links asked for: all scores are level.
    assert record["metrics"]["auc"] == 0.5
    assert record["metrics"]["mrr"] == pytest.approx(1 / 11)
    assert record["split"]["queries"] == len(split.test)
    assert record["metrics"]["scale"] == 5


def test_link_score_learns_from_held_out_links_only(tmp_path: Path) -> None:
    settings = {"epochs": 4, "groups": [6, 2], "dim": 16}
    kept = tmp_path / "run"
    learning = Cell("links", "planted", "links", "graphham", settings=settings)
    record, _ = measure_links(GRAPH, learning, keep=kept)
    cosine = {**settings, "link_score": "cosine"}
    plain, _ = measure_links(GRAPH, replace(learning, settings=cosine))
    assert record["validation"] > plain["validation"]
    split = edge_split(GRAPH)
    key = derive_key(0, "link queries", "validation", 0)
    asked = uniform_queries(GRAPH, split.validation, key, 20)
    method = make_method("graphham", **settings).fit(split.graph)
    before = method.score_links(split.test)
    learned = method.learn_links(*as_pairs(asked))
    assert np.array_equal(method.score_links(split.test), before)  # the fit itself stays
    assert np.array_equal(
        load_method(kept).score_links(split.test), learned.score_links(split.test)
    )


def test_hard_negatives_are_harder() -> None:
    near, hard = (
        measure_links(GRAPH, Cell("links", "planted", protocol, "adamic-adar", seed=3))[0]
        for protocol in ("links", "hard")
    )
    assert near["metrics"]["auc"] > 0.55
    assert hard["metrics"]["auc"] < near["metrics"]["auc"] - 0.1
