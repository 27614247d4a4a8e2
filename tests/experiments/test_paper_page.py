"""The page of the paper's tables is exactly what the stored cells say."""

from pathlib import Path

import numpy as np
import pytest

from experiments.paper_page import paper_text
from experiments.stored import gather, read_stored
from experiments.studies import load_study
from graphham.errors import InputError
from graphham.evaluate.cells import Cell, CellStore

REPOSITORY = Path(__file__).resolve().parents[2]
RESULTS = REPOSITORY / "experiments" / "results"


def fake_results(root: Path) -> CellStore:
    store = CellStore(root)
    draw = np.random.default_rng(0)
    versions = {"graphham": "0", "commit": "abc"}
    split = {"train": 72, "validation": 8, "test": 20}
    for cell in load_study("table2", datasets=["cora"], methods=["graphham", "gat"]).cells:
        score = 0.89 + 0.01 * (cell.method == "gat") + draw.normal(0, 0.005)
        metrics = {"accuracy": score, "macro_f1": score - 0.01}
        whole = {"status": "done", "metrics": metrics, "split": split, "versions": versions}
        if cell.method == "graphham":
            whole["hierarchy"] = {"nesting": 1.0, "used_share": 0.8}
        store.write(cell, whole, {})
    return store


def test_results_say_what_cells_say_and_admit_losses(tmp_path: Path) -> None:
    fake_results(tmp_path)
    count, paths = gather(tmp_path)
    assert (count, len(paths)) == (len(list((tmp_path / "cells").rglob("cell.json"))), 1)
    text = paper_text(tmp_path)
    assert "`graphham reproduce table2`" in text
    loss = next(line for line in text.splitlines() if "| gat " in line and "+0.0" in line)
    assert loss.startswith("| cora  | folds")
    # Cells measured elsewhere stay when this machine has none of them.
    before = read_stored(tmp_path)
    for cell in (tmp_path / "cells").rglob("cell.json"):
        cell.unlink()
    gather(tmp_path)
    assert read_stored(tmp_path) == before
    assert paper_text(tmp_path) == text


def test_cells_with_other_settings_do_not_enter_a_table(tmp_path: Path) -> None:
    store = fake_results(tmp_path)
    gather(tmp_path)
    text = paper_text(tmp_path)
    stray = Cell("classify", "cora", "folds", "graphham", 0, 0, settings={"dim": 8})
    whole = {"status": "done", "metrics": {"accuracy": 0.1, "macro_f1": 0.1}, "versions": {}}
    store.write(stray, whole, {})
    gather(tmp_path)
    assert paper_text(tmp_path) == text


def test_the_page_of_the_repository_is_up_to_date() -> None:
    """What CI checks: the page is what the stored cells say, word for word."""
    page = REPOSITORY / "docs" / "paper_tables.md"
    assert page.read_text() == paper_text(RESULTS, "../experiments/results/figures")


def test_without_cells_there_are_no_results(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no finished cells"):
        paper_text(tmp_path)
