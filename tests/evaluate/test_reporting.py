"""Tables say what cells say: numbers by hand, paired tests, refusals."""

from typing import Any

import pytest

from graphham.evaluate.cells import Cell
from graphham.evaluate.reporting import comparison_tables, hierarchy_table, link_detail_table
from graphham.evaluate.significance import compare
from graphham.evaluate.tables import Spread

OURS, THEIRS = [0.90, 0.88, 0.91, 0.89, 0.90], [0.87, 0.86, 0.89, 0.88, 0.86]


def record(method: str, seed: int, fold: int, **more: Any) -> dict[str, Any]:
    cell = Cell("classify", "cora", more.pop("protocol", "folds"), method, seed, fold)
    split = {"train": 72, "validation": 8, "test": 20, "negatives": 20}
    return {"cell": cell.to_dict(), "status": "done", "split": split, **more}


def scores(method: str, values: list[float], **more: Any) -> list[dict[str, Any]]:
    return [
        record(method, 0, fold, metrics={"accuracy": v, "macro_f1": v - 0.1}, **more)
        for fold, v in enumerate(values)
    ]


def test_comparison_has_ours_difference_and_test() -> None:
    records = scores("graphham", OURS) + scores("gat", THEIRS)
    (table,) = comparison_tables(records, "classify", "graphham")
    ours, theirs = table.rows
    assert ours["accuracy"] == Spread(pytest.approx(0.896), pytest.approx(0.010198, rel=1e-4))
    found = compare(THEIRS, OURS, 20 / 72)
    assert theirs["change"] == pytest.approx(-0.024)
    assert theirs["p_plain"] == found.p_plain
    assert theirs["p_corrected"] == theirs["p_holm"] == found.p_corrected
    assert theirs["count"] == 5
    assert "change" not in ours


def test_only_common_folds_are_paired_and_refusals_are_noted() -> None:
    refused = record("deepwalk", 0, 0) | {"status": "refused", "reason": "it needs an edge"}
    records = [*scores("graphham", OURS), *scores("gat", THEIRS[:3]), refused]
    (table,) = comparison_tables(records, "classify", "graphham")
    rows = {row["method"]: row for row in table.rows}
    assert rows["gat"]["change"] == pytest.approx(sum(THEIRS[:3]) / 3 - sum(OURS[:3]) / 3)
    assert rows["deepwalk"]["accuracy"] is None
    assert "deepwalk: it needs an edge." in table.notes


def test_fixed_splits_get_no_correction_for_overlap() -> None:
    records = scores("graphham", OURS, protocol="few5") + scores("gat", THEIRS, protocol="few5")
    (table,) = comparison_tables(records, "classify", "graphham")
    row = table.rows[1]
    assert row["p_corrected"] is None
    assert row["p_holm"] == row["p_plain"]


def test_link_and_hierarchy_tables() -> None:
    metrics = {"auc": 0.9, "mrr": 0.8, "auc_query": 0.91, "scaled_mrr": 0.95, "hits_1": 0.7}
    links = record("gat", 0, 0, metrics={**metrics, "scale": 5}, protocol="links")
    row = link_detail_table([links]).rows[0]
    assert (row["negatives"], row["scale"], row["auc_query"]) == ("uniform", 5, Spread(0.91, 0.0))
    held = record("graphham", 0, 0, hierarchy={"nesting": 1.0, "nmi_2": 0.5, "used_share": 0.5})
    table = hierarchy_table([held, record("gat", 0, 0)], "hierarchy", "h")
    assert [r["method"] for r in table.rows] == ["graphham"]
    assert "ari_1" not in {c.key for c in table.columns}
    # "In use" is a group that one node is shown in, everywhere; this is another number.
    titles = {c.key: c.title for c in table.columns}
    assert titles["used_share"] == "groups ≥ 1%"
    assert not any("use" in title for title in titles.values())
    assert "at least 1% of the nodes" in table.notes[0]
