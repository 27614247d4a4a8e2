"""Link prediction sees no test edges."""

import numpy as np
import pytest

from graphham.evaluate.cells import Cell
from graphham.evaluate.links import measure_links
from graphham.evaluate.splits import edge_split
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


def test_hard_negatives_are_harder() -> None:
    near, hard = (
        measure_links(GRAPH, Cell("links", "planted", protocol, "adamic-adar", seed=3))[0]
        for protocol in ("links", "hard")
    )
    assert near["metrics"]["auc"] > 0.55
    assert hard["metrics"]["auc"] < near["metrics"]["auc"] - 0.1
