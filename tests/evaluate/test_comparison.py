"""Comparing methods on one graph: what is refused, what is measured, what is written."""

from pathlib import Path

import pytest

from graphham.errors import InputError
from graphham.evaluate.comparison import ComparisonPlan, compare_methods
from graphham.system.console import Screen
from tests.evaluate.spy import GRAPH

QUIET = Screen(quiet=True)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"protocol": "p9"}, "p9"),
        ({"folds": 1}, "--folds"),
        ({"budget": 0}, "--budget"),
        ({"methods": ["adamic-adar"]}, "does not serve classify"),
        ({"methods": ["gatt"]}, "gat"),
    ],
)
def test_bad_plans_are_refused_before_any_work(changes: dict[str, object], reason: str) -> None:
    given = {"kind": "classify", "methods": ["sgc"], "protocol": "folds", **changes}
    with pytest.raises(InputError, match=reason):
        ComparisonPlan(**given)  # type: ignore[arg-type]


def test_fixed_splits_have_one_fold() -> None:
    plan = ComparisonPlan("classify", ["sgc", "logreg"], "few5", seeds=(0, 3))
    cells = plan.cells("toy")
    assert [(c.seed, c.fold, c.method) for c in cells] == [
        (0, 0, "sgc"), (0, 0, "logreg"), (3, 0, "sgc"), (3, 0, "logreg"),
    ]  # fmt: skip


def test_tables_name_files_and_the_first_method_is_the_reference(tmp_path: Path) -> None:
    plan = ComparisonPlan("links", ["adamic-adar", "common-neighbors"], "links", folds=2)
    outcome, tables, paths = compare_methods(GRAPH, plan, tmp_path, QUIET)
    assert len(outcome.records) == 4
    assert [table.name for table in tables] == [f"{GRAPH.name}-links", "metrics"]
    assert {path.stem for path in paths} == {"links-links", "link-metrics"}
    assert "change" not in tables[0].rows[0]
    assert tables[0].rows[1]["method"] == "common-neighbors"
    assert tables[0].rows[1]["count"] == 2
    with pytest.raises(InputError, match="another graph"):
        compare_methods(GRAPH.without_edges(GRAPH.edge_list()[:1]), plan, tmp_path, QUIET)


def test_a_plan_nothing_of_which_can_be_measured_says_why(tmp_path: Path) -> None:
    plan = ComparisonPlan("classify", ["sgc"], "public_split")
    with pytest.raises(InputError, match="public split"):
        compare_methods(GRAPH, plan, tmp_path, QUIET)
