"""The first screen says in words what the cells say, whether that is good or bad."""

from __future__ import annotations

from pathlib import Path

from experiments.first_screen import case_name, graph_name, small, summary, unseen_section
from experiments.label_rows import read_scores
from experiments.unseen import read_unseen
from graphham.evaluate.cells import Record
from tests.experiments.test_unseen import draws


def said(records: list[Record], root: Path) -> str:
    return summary(root, read_scores(records), read_unseen(records))


def test_names() -> None:
    assert graph_name("amazon-photo") == "Photo"
    assert graph_name("interests-bare") == "planted, several labels, no features"
    assert case_name(("cora+50", "few5")) == "Cora + 50% noise, 5 labels"
    assert case_name(("pubmed", "links")) == "Pubmed, links"
    assert small([0.880, 0.890, 0.870]) == "0.880(6)"
    assert small([0.8]) == "0.800"
    assert small([]) is None


def test_being_first_is_said_with_who_follows(tmp_path: Path) -> None:
    records = draws("graphham", [0.9] * 3) + draws("gcn", [0.8, 0.7, 0.75])
    text = said(records, tmp_path)
    assert "its mean rank is 1.0: first of 2 single models**, before gcn with 2.0." in text
    assert "Nobody is ahead of it there by more than a standard error." in text


def test_not_being_first_is_said_too(tmp_path: Path) -> None:
    records = draws("graphham", [0.8] * 3) + draws("gcn", [0.9, 0.91, 0.92])
    records += draws("graphham", [0.8], graph="pubmed") + draws("gcn", [0.9], graph="pubmed")
    text = said(records, tmp_path)
    assert "its mean rank is 2.0: not the first of 2 single models** (gcn 1.0)." in text
    assert "in 2 of 2 cases, 1 by more than a standard error and 1 on fewer than 3 draws:" in text
    assert "Photo: classes (gcn); Pubmed: classes (gcn)." in text
    assert said([], tmp_path) == ""


def test_the_table_marks_the_best_and_lists_who_is_ahead() -> None:
    records = draws("graphham", [0.80, 0.82, 0.78]) + draws("gcn", [0.83, 0.85, 0.82])
    records += draws("graphham", [0.9], protocol="links") + draws("gat", [0.6], protocol="links")
    records += draws("gcn", [0.95], protocol="links")
    lines = unseen_section(read_unseen(records)).splitlines()
    rows = {line.split("|")[1].strip(): line.split("|")[2:-1] for line in lines if "|" in line}
    cells = {name: [cell.strip() for cell in row] for name, row in rows.items()}
    assert cells["graph: task"] == ["graphham", "gcn", "gat"]
    assert cells["Photo: classes"] == ["0.800", "**0.833**", "-"]
    assert cells["Photo: links"] == ["0.900", "**0.950**", "0.600"]
    assert cells["**mean rank** (cases)"] == ["2.0 (2)", "1.0 (2)", "3.0 (1)"]
    assert "mean over 1 to 3 draws" in lines[0]
    assert lines[-1] == "- Photo: classes gcn +0.033 ± 0.003 (3 draws); links gcn +0.050 (1 draw)"
    assert unseen_section(read_unseen([])) == ""
