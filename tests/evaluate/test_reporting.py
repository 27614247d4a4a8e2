"""Tables say what cells say: numbers by hand, published values, stars, all formats."""

import csv
import io
from typing import Any

import pytest

from graphham.evaluate.cells import Cell
from graphham.evaluate.published import ABLATION, CLASSIFICATION, GOALS, LINKS
from graphham.evaluate.reporting import (
    ablation_table,
    comparison_tables,
    hierarchy_table,
    link_detail_table,
)
from graphham.evaluate.significance import compare
from graphham.evaluate.tables import Column, Spread, Table


def record(method: str, seed: int, fold: int, **more: Any) -> dict[str, Any]:
    cell = Cell("classify", "cora", more.pop("protocol", "p2"), method, seed, fold)
    split = {"train": 72, "validation": 8, "test": 20, "negatives": 20}
    return {"cell": cell.to_dict(), "status": "done", "split": split, **more}


def scores(method: str, values: list[float], **more: Any) -> list[dict[str, Any]]:
    return [
        record(method, 0, fold, metrics={"accuracy": v, "macro_f1": v - 0.1}, **more)
        for fold, v in enumerate(values)
    ]


OURS, THEIRS = [0.90, 0.88, 0.91, 0.89, 0.90], [0.87, 0.86, 0.89, 0.88, 0.86]


def test_published_tables_were_read_whole() -> None:
    assert (len(CLASSIFICATION), len(LINKS), len(ABLATION)) == (144, 48, 54)
    assert CLASSIFICATION["facebook", "micro_f1", "graphham"].value == 0.930
    assert LINKS["pubmed", "mrr", "graphstone"].deviation == 0.017
    assert ABLATION["citeseer", "macro_f1", "graphham-no-reg"].starred
    assert not ABLATION["citeseer", "accuracy", "graphham-no-q"].starred
    assert sum(p.starred for p in ABLATION.values()) == 37
    assert len({(g.graph, g.protocol, g.metric) for g in GOALS}) == len(GOALS)


def test_comparison_has_paper_ours_difference_and_test() -> None:
    records = scores("graphham", OURS) + scores("gat", THEIRS)
    (table,) = comparison_tables(records, "classify", "graphham")
    ours, theirs = table.rows
    assert ours["accuracy"] == Spread(pytest.approx(0.896), pytest.approx(0.010198, rel=1e-4))
    assert ours["paper_accuracy"] == 0.853
    assert ours["gap_accuracy"] == pytest.approx(0.043)
    assert ours["paper_micro_f1"] == 0.860
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
    assert "paper_accuracy" not in {c.key for c in table.columns}


def test_ablation_table_stars() -> None:
    records = [
        *scores("graphham", OURS),
        *scores("graphham-no-lambda", [v - 0.02 - 0.001 * i for i, v in enumerate(OURS)]),
        *scores("graphham-no-q", [v + 0.01 * (-1) ** i for i, v in enumerate(OURS)]),
        *scores("graphham-no-reg", [v - 0.004 * (i % 3) - 0.002 for i, v in enumerate(OURS)]),
    ]
    rows = {(r["metric"], r["without"]): r for r in ablation_table(records).rows}
    assert rows["accuracy", "lambda"]["stars"] == "**"
    assert rows["accuracy", "lambda"]["paper"] == "−0.017*"
    assert rows["accuracy", "q"]["stars"] == ""
    assert rows["accuracy", "reg"]["stars"] == "*"
    assert rows["accuracy", "q"]["wins"] == "3/5"


def test_link_and_hierarchy_tables() -> None:
    metrics = {"auc": 0.9, "mrr": 0.8, "auc_query": 0.91, "scaled_mrr": 0.95, "hits_1": 0.7}
    links = record("gat", 0, 0, metrics={**metrics, "scale": 5}, protocol="links")
    row = link_detail_table([links]).rows[0]
    assert (row["negatives"], row["scale"], row["auc_query"]) == ("uniform", 5, Spread(0.91, 0.0))
    held = record("graphham", 0, 0, hierarchy={"nesting": 1.0, "nmi_2": 0.5})
    table = hierarchy_table([held, record("gat", 0, 0)], "hierarchy", "h")
    assert [r["method"] for r in table.rows] == ["graphham"]
    assert "ari_1" not in {c.key for c in table.columns}


def test_every_format_holds_the_same_numbers() -> None:
    columns = (Column("m", "a|b_c"), Column("x", "x", "score"), Column("d", "d", "change"))
    rows = (
        {"m": "50%", "x": Spread(0.12345, 0.01), "d": -0.0456},
        {"m": "none", "x": None, "d": None},
    )
    table = Table("T", columns, rows, ("note",))
    assert "| 50%" in table.markdown()
    assert "0.123 ± 0.010" in table.markdown()
    assert r"a\|b_c" in table.markdown()
    parsed = list(csv.reader(io.StringIO(table.csv())))
    assert parsed == [
        ["m", "x", "x_sd", "d"],
        ["50%", "0.12345", "0.01", "-0.0456"],
        ["none", "", "", ""],
    ]
    latex = table.latex()
    assert r"50\% & 0.123 $\pm$ 0.010 & $-$0.046 \\" in latex
    assert latex.count(r"\\") == 3
    assert "note" in table.plain()
