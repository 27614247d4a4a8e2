"""Reproducing runs, writes, resumes; and what CI promises about the numbers on Cora."""

from pathlib import Path

import pytest

from experiments.reproduce import check_methods, reproduce
from experiments.studies import load_study, study_names
from graphham.errors import InputError
from graphham.evaluate.reporting import group_records
from graphham.system.console import Screen

SGC = 0.9013  # both folds, as first measured
# both folds, as first measured


def test_reproduce_runs_writes_and_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = Screen()
    for _ in range(2):
        outcome = reproduce(
            ["table1"], tmp_path, screen, datasets=["cora"], quick=True
        )  # no network, no training
        assert not outcome.failures
    said = capsys.readouterr().out
    assert "1 of 1 finished before" in said
    assert (tmp_path / "tables" / "table1.csv").read_text().splitlines()[1].startswith("cora,2708")
    with pytest.raises(InputError, match="graphsage"):
        reproduce(["table2"], tmp_path, screen, methods=["graphsaeg"])


@pytest.mark.parametrize("study", study_names())
def test_what_is_asked_for_by_name_has_cells(study: str, tmp_path: Path) -> None:
    """Each name among the cells of a study can be asked for: stale pages tell people to."""
    for name in {cell.method for cell in load_study(study).cells if cell.kind != "facts"}:
        check_methods([name], [study])


def test_table2_on_cora_quickly(tmp_path: Path) -> None:
    """Two folds of one seed; fold scores spread by about 0.012, so bounds leave room for one.

    The linear model has no luck in it: its number moves only if data, folds or features moved.
    """
    outcome = reproduce(
        ["table2"], tmp_path, Screen(quiet=True), quick=True, methods=["graphham", "gat", "sgc"]
    )
    assert not outcome.failures
    groups = group_records(outcome.records.values())
    accuracy = {}
    for (_, _, method), group in groups.items():
        spread = group.spread("accuracy")
        assert spread is not None
        assert len(group) == 2
        accuracy[method] = spread.mean
    # The paper prints 0.853; by itself the network is about level with GAT here, not ahead.
    assert accuracy["graphham"] > 0.87
    assert accuracy["gat"] > 0.87
    assert accuracy["sgc"] == pytest.approx(SGC, abs=0.002)
    assert accuracy["graphham"] > max(accuracy.values()) - 0.02
    ours = groups["cora", "folds", "graphham"]
    for name, least in (("nesting", 0.95), ("used_share", 0.9)):
        held = ours.spread(name, "hierarchy")
        assert held is not None
        assert held.mean >= least
