"""The paper's numbers stand beside ours, and stars mean what they say."""

import pytest

from experiments.paper_tables import ablation_table, best_on_validation, tables_beside_paper
from graphham.evaluate.cells import Cell, Record
from tests.evaluate.test_reporting import OURS, THEIRS, record, scores


def test_ablation_table_stars() -> None:
    records = [
        *scores("graphham", OURS),
        *scores("graphham-no-lambda", [v - 0.02 - 0.001 * i for i, v in enumerate(OURS)]),
        *scores("graphham-no-q", [v + 0.01 * (-1) ** i for i, v in enumerate(OURS)]),
        *scores("graphham-no-reg", [v - 0.004 * (i % 3) - 0.002 for i, v in enumerate(OURS)]),
    ]
    rows = {(r["metric"], r["without"]): r for r in ablation_table(records, fewest=2).rows}
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


def test_the_method_as_printed_has_ablations_of_its_own() -> None:
    printed = scores("graphham-paper", OURS)
    without = scores("graphham-no-reg", THEIRS)
    for one in without:
        one["cell"] = {**one["cell"], "settings": {"preset": "paper"}}
    (row, _) = ablation_table([*printed, *without]).rows
    assert (row["whole"], row["without"], row["wins"]) == ("graphham-paper", "reg", "0/5")
    assert row["change"] == pytest.approx(-0.024)
    assert row["p_plain"] is None  # five splits are too few to test
    assert row["stars"] == ""


def with_settings(
    records: list[Record], validation: list[float], **settings: object
) -> list[Record]:
    return [
        {**r, "cell": {**r["cell"], "settings": settings}, "validation": value}
        for r, value in zip(records, validation, strict=True)
    ]


def test_a_row_is_the_better_of_its_settings_on_validation_data() -> None:
    """The better on the test nodes does not matter; who is chosen, and how often, is told."""
    default = with_settings(scores("gat", [0.8, 0.8, 0.8]), [0.7, 0.7, 0.7])
    published = with_settings(scores("gat", [0.9, 0.9]), [0.6, 0.75], scaling="row")
    chosen = best_on_validation([*default, *published])
    assert [r["metrics"]["accuracy"] for r in chosen] == [0.8, 0.9, 0.8]
    refused = {**published[0], "status": "refused", "validation": 1.0}
    assert best_on_validation([default[0], refused]) == [default[0]]
    planned = [Cell("classify", "cora", "folds", "gat", 0, fold) for fold in range(3)]
    planned += [Cell("classify", "cora", "folds", "graphham", 0, fold) for fold in range(5)]
    records = [*scores("graphham", OURS), *default, *published]
    (table,) = tables_beside_paper(records, "classify", "graphham", planned)
    assert "both measured on 2 of 3 splits, its paper's chosen on 1." in table.notes[-2]
    assert table.notes[-1].startswith(
        "Slow methods get fewer splits than the 5 of the others: gat 3"
    )
    assert table.rows[1]["p_plain"] is None
