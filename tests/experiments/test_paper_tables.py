"""The paper's numbers stand beside ours, and stars mean what they say."""

import pytest

from experiments.paper_tables import ablation_table, tables_beside_paper
from tests.evaluate.test_reporting import OURS, THEIRS, record, scores


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


def test_the_papers_columns_stand_around_ours() -> None:
    records = scores("graphham", OURS) + scores("gat", THEIRS) + scores("sgc", THEIRS)
    (table,) = tables_beside_paper(records, "classify", "graphham")
    ours, _, unknown = table.rows
    assert ours["paper_accuracy"] == 0.853
    assert ours["gap_accuracy"] == pytest.approx(0.896 - 0.853)
    assert ours["paper_micro_f1"] == 0.860
    assert "paper_accuracy" not in unknown
    assert [column.key for column in table.columns][:6] == [
        "method", "paper_accuracy", "paper_micro_f1", "accuracy", "gap_accuracy", "paper_macro_f1",
    ]  # fmt: skip


def test_protocols_and_graphs_of_ours_have_no_paper_columns() -> None:
    records = scores("graphham", OURS, protocol="few5")
    other = [{**r, "cell": {**r["cell"], "graph": "debian"}} for r in scores("graphham", OURS)]
    for table in tables_beside_paper([*records, *other], "classify"):
        assert "paper_accuracy" not in {column.key for column in table.columns}


def test_links_are_held_against_the_papers_links() -> None:
    metrics = {"auc": 0.9, "mrr": 0.7}
    (table,) = tables_beside_paper(
        [record("asp2vec", 0, 0, protocol="links", metrics=metrics)], "links"
    )
    assert table.rows[0]["gap_auc"] == pytest.approx(0.9 - 0.865)
    assert "paper_micro_f1" not in {column.key for column in table.columns}
