"""RESULTS.md: questions first, short, and exactly what the stored cells say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments import hierarchy_study, size_study
from experiments.results_page import (
    MOST_LINES,
    headline,
    results_text,
    stored_unseen,
    tables_path,
    without_version,
    write_results,
)
from graphham.errors import InputError
from graphham.evaluate.cells import Cell
from graphham.methods.registry import method_class

REPOSITORY = Path(__file__).resolve().parents[2]
RESULTS = REPOSITORY / "experiments" / "results"


def few_cells(root: Path, draws: int = 10) -> None:
    lines = []
    without = {"groups": [1, 1], "settings": {"loss.teacher_weight": 0}}
    rows = [("graphham", {}, 0.70), ("gcn", {}, 0.60), ("graphham", without, 0.55)]
    rows += [("gat", dict(method_class("gat").published), 0.72), ("gat", {"dim": 3}, 0.99)]
    for method, settings, score in rows:
        for draw in range(draws):
            cell = Cell("classify", "cora", "few5", method, seed=draw, settings=settings)
            metrics = {"accuracy": score + 0.01 * (draw % 2) + 0.002 * draw * (method == "gcn")}
            record = {"cell": cell.to_dict(), "status": "done", "metrics": metrics}
            record |= {"cost": {"cpu_seconds": 2.0}, "versions": {"commit": "abc"}}
            lines.append(json.dumps(record) + "\n")
    root.mkdir(exist_ok=True)
    (root / "few_labels.jsonl").write_text("".join(lines))


def test_rivals_told_of_the_classes_stand_beside_themselves(tmp_path: Path) -> None:
    few_cells(tmp_path)
    plain = next(
        line for line in results_text(tmp_path).splitlines() if line.startswith("| Cora, 5")
    )
    with (tmp_path / "few_labels.jsonl").open("a", encoding="utf-8") as file:
        for draw in range(10):
            cell = Cell(
                "classify", "cora", "few5", "gcn", seed=draw, settings={"weigh_classes": True}
            )
            record = {"cell": cell.to_dict(), "status": "done", "metrics": {"accuracy": 0.735}}
            record |= {"cost": {"cpu_seconds": 2.0}, "versions": {"commit": "abc"}}
            file.write(json.dumps(record) + "\n")
    text = results_text(tmp_path)
    told = next(line for line in text.splitlines() if line.startswith("| Cora, 5"))
    assert "told by validation labels how frequent classes are" in text
    # The same columns; what was the highest mean no longer is.
    assert told.count("|") == plain.count("|")
    assert " / **0.735(0)** |" in told
    assert plain.count("**") == told.count("**") == 2


def hierarchy_cells(root: Path) -> None:
    lines = []
    for cell in hierarchy_study.study_cells(["cora"], ["graphham", "paris"]):
        score = 0.5 if cell.method == "graphham" else 0.6
        names = ("ami_1", "ami_2", "groups_1", "groups_2", "stability_1", "stability_2")
        record = {"cell": cell.to_dict(), "status": "done", "metrics": dict.fromkeys(names, score)}
        lines.append(json.dumps({**record, "cost": {"cpu_seconds": 1.0}}) + "\n")
    (root / "hierarchy_study.jsonl").write_text("".join(lines))


def test_the_page_answers_from_cells_and_admits_losses(tmp_path: Path) -> None:
    few_cells(tmp_path)
    hierarchy_cells(tmp_path)
    text = results_text(tmp_path)
    lines = text.splitlines()
    assert [line for line in lines if line.startswith("## ")] == [
        "## Is it accurate?",
        "## Are the groups real?",
        "## Do groups help, and where not?",
        "## What does it cost?",
        "## Where does it lose?",
    ]
    assert "highest mean in 0 of 1 rows" in text
    assert (
        "highest in 0 of 1 cases; it loses most to gat, as published (Cora, 5 labels: +0.020)."
        in text
    )
    assert (
        "Without its groups its accuracy changes by -15.0 points with few labels, a loss with "
        "p < 0.05 after Holm in 1 of 1 case." in text
    )
    assert "agree best of all with the true ones on 0 of 1 graphs" in text
    assert "0 of 53 stored cells" in text  # old ones, which name no version
    heads, row = (next(ln for ln in lines if ln.startswith(f"| {w}")) for w in ("case", "Cora, 5"))
    best = heads.split("|").index(" gat, as published ")
    assert row.split("|")[best].strip() == "**0.725(2)**"
    assert "0.99" not in text  # settings of an experiment are no row
    part = next(line for line in lines if line.startswith("| groups"))
    assert "-15.0 (0/10), p " in part
    assert "- Cora, 5 labels: gat, as published +0.020 (10 draws)" in lines
    assert "- Cora, coarse groups (AMI): paris +0.100" in lines
    best = {row["case"]: (row["best"], round(row["theirs"], 3)) for row in headline(tmp_path)}
    assert best == {
        "accuracy, Cora, 5 labels": ("gat, as published", 0.725),
        "coarse groups, Cora, AMI": ("paris", 0.6),
    }


def test_few_draws_are_no_case_and_no_p(tmp_path: Path) -> None:
    few_cells(tmp_path, 4)
    text = results_text(tmp_path)
    assert "-15.0 (0/4)" in text
    assert "(0/4), p" not in text
    few_cells(tmp_path, 2)
    with pytest.raises(InputError, match="no finished cells"):
        results_text(tmp_path)


def test_draws_of_the_tables_count_beside_those_of_few_labels(tmp_path: Path) -> None:
    """Further draws of the same methods on a test graph; old cells and other methods do not."""

    def record(method: str, fold: int, score: float, code: str | None) -> dict[str, object]:
        cell = Cell("classify", "pubmed", "folds", method, fold=fold)
        metrics, versions = {"accuracy": score}, {"code": code} if code else {}
        return {"cell": cell.to_dict(), "status": "done", "metrics": metrics, "versions": versions}

    few = [record("graphham", 0, 0.5, "x"), record("gcn", 0, 0.4, "x")]
    stored = [
        *(record(m, f, 0.9 - 0.1 * (m == "gcn"), "x") for m in ("graphham", "gcn") for f in (1, 2)),
        record("graphham", 3, 0.1, None),
        record("sgc", 1, 0.99, "x"),
    ]
    for name, records in (("few_labels", few), ("table2", stored)):
        lines = [json.dumps(one) + "\n" for one in records]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    unseen = stored_unseen(tmp_path)
    assert unseen.methods == ["graphham", "gcn"]
    assert unseen.mean_ranks() == {"graphham": (1.0, 1), "gcn": (2.0, 1)}
    text = results_text(tmp_path)
    assert "mean over 3 draws" in text
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines()]
    assert ["", "Pubmed: classes", "**0.767**", "0.667", ""] in rows


def test_structure_mixtures_and_size_have_their_place(tmp_path: Path) -> None:
    few_cells(tmp_path)
    found = [("none", False, []), ("12 > 3", True, [12, 3]), ("12", True, [11])]
    lines = [
        {"case": "x", "expected": expected, "found": is_there, "groups": groups, "nodes": 9}
        for expected, is_there, groups in found
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "structure.jsonl").write_text(text)
    row = {"graph": "g", "degree": 12, "read": "mixtures", "corr": 0.5, "auc": 0.93}
    row |= {"ratio": 0.7, "ratio_all": 0.9}
    (tmp_path / "mixture.jsonl").write_text(json.dumps({**row, "w": 0.3}) + "\n")
    cell = size_study.study_cells()[0]
    refused = {"cell": cell.to_dict(), "status": "refused", "reason": "no"}
    (tmp_path / "size.jsonl").write_text(json.dumps(refused) + "\n")
    text = results_text(tmp_path)
    assert "in 1 of 1 random graphs" in text
    assert "in 1 of 2 graphs of 12 groups." in text
    assert "| g " in text


def test_full_tables_go_into_the_documentation_or_beside_the_page(tmp_path: Path) -> None:
    assert tables_path(REPOSITORY / "RESULTS.md") == REPOSITORY / "docs" / "paper_tables.md"
    few_cells(tmp_path / "results")
    page = write_results(tmp_path / "results", tmp_path / "RESULTS.md")
    assert not tables_path(page).exists()
    assert "paper's tables" not in page.read_text()


def test_results_of_the_repository_are_short_and_up_to_date() -> None:
    """What CI checks: RESULTS.md is what the stored cells say, word for word."""
    text = results_text(RESULTS)
    # How many cells are of the present version changes with the code; the numbers must not.
    assert without_version((REPOSITORY / "RESULTS.md").read_text()) == without_version(text)
    assert len(text.splitlines()) <= MOST_LINES


def test_without_cells_there_are_no_results(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no finished cells"):
        results_text(tmp_path)


def test_group_attention_alone_is_set_against_the_same_network_without_it(tmp_path: Path) -> None:
    few_cells(tmp_path)
    alone = {"loss.context_weight": 0, "loss.teacher_weight": 0}
    with (tmp_path / "few_labels.jsonl").open("a", encoding="utf-8") as file:
        for settings, score in ((alone, 0.5), ({**alone, "model.group_score": "none"}, 0.4)):
            for draw in range(10):
                cell = Cell(
                    "classify",
                    "cora",
                    "few5",
                    "graphham",
                    seed=draw,
                    settings={"settings": settings},
                )
                score += 0.001 * (draw % 3) * (score > 0.45)
                record = {"cell": cell.to_dict(), "status": "done", "metrics": {"accuracy": score}}
                record |= {"cost": {"cpu_seconds": 2.0}, "versions": {"commit": "abc"}}
                file.write(json.dumps(record) + "\n")
    text = results_text(tmp_path)
    row = next(line for line in text.splitlines() if line.startswith("| group attention, nothing"))
    # Not against ours, which has 0.70: against the mean of neighbours.
    assert "| -10." in row
    assert "(0/10)" in row
    # Neither of the two is ours or a rival.
    assert "0.40" not in next(line for line in text.splitlines() if line.startswith("| Cora, 5"))
