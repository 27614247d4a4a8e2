"""The facts that report and explorer share, each computed once."""

from pathlib import Path

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.report import RunView
from graphham.report import view as view_module
from graphham.report.view import first_codes
from tests.outputs import make_graph, make_result
from tests.report.conftest import write_run


def test_facts_are_the_runs_own(view: RunView) -> None:
    concentration = view.run.nodes["concentration"].to_numpy()
    between = view.run.nodes["between"].to_numpy()
    assert view.boundary_bar == pytest.approx(max(np.quantile(between, 0.95), 0.2))
    assert view.is_boundary.sum() == (between >= view.boundary_bar).sum() > 0
    percentiles = view.concentration_percentiles
    assert len(percentiles) == 101
    assert (percentiles[0], percentiles[100]) == (concentration.min(), concentration.max())
    for value in concentration:  # the page counts percentiles; explain counts nodes
        below = sum(p < value for p in percentiles)
        assert max(0, below - 1) == 100 * int((concentration < value).sum()) // len(concentration)
    assert view.group_records[2, 1]["name"] == view.tree.names[1][1]
    assert RunView.of(view) is view


def test_a_new_name_leaves_every_other_fact_as_it_is(tmp_path: Path) -> None:
    old = RunView.of(write_run(tmp_path / "run"))
    result, texts, boundary = old.result, old.hover_texts, old.is_boundary
    new = old.rename_group(2, 0, "another")
    assert new.tree.names[1][0] == new.group_records[2, 0]["name"] == "another"
    assert new.result is result  # nothing is read twice
    assert new.is_boundary is boundary
    assert new.hover_texts != texts
    assert any("level 2: another" in text for text in new.hover_texts)
    assert RunView.of(old.run.path).tree.names[1][0] == "another"


def test_the_pointer_shows_what_the_tables_hold(view: RunView) -> None:
    nodes, row = view.run.nodes, 11
    lines = view.hover_texts[row].split("<br>")
    assert lines[0] == f"<b>{nodes['id'][row].as_py()}</b>"
    for level in (1, 2):
        name = view.tree.names[level - 1][nodes[f"group_{level}"][row].as_py()]
        assert f"level {level}: {name}" in lines
    assert lines[-1] == f"concentration {nodes['concentration'][row].as_py():.2f}"


def test_a_large_run_is_drawn_as_a_fixed_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path / "run")
    monkeypatch.setattr(view_module, "MAX_POINTS", 30)
    rows = RunView.of(run).drawn_rows
    np.testing.assert_array_equal(rows, RunView.of(run).drawn_rows)
    assert len(set(rows.tolist())) == len(RunView.of(run).hover_texts) == 30
    assert (np.diff(rows) > 0).all()


def test_of_several_labels_the_first_is_shown() -> None:
    labels = make_result(60, labels="multi").labels
    assert labels is not None
    values = labels.values()
    expected = [-1 if v is None else labels.classes.index(v[0]) for v in values]
    assert first_codes(labels).tolist() == expected


def test_a_graph_of_another_run_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    with pytest.raises(InputError):
        _ = RunView.of(run, make_graph(make_result(79))).graph
