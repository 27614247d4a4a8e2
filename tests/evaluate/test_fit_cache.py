"""Cells that need the same fit make it once, and get the numbers they would have had alone."""

import itertools
import os
from pathlib import Path
from typing import Any

import pytest

from graphham.evaluate.cells import Cell, CellStore, Record, lock_file, rounded
from graphham.evaluate.fit_cache import Fits, group_of, together
from graphham.evaluate.running import measure, run_cells
from graphham.graph.planted import planted_hierarchy
from graphham.methods.base import Method
from graphham.methods.registry import method_rows
from graphham.system.console import Screen

GRAPH = planted_hierarchy((2, 3), 180, mean_degree=8, words=60, word_on=0.3, seed=4).graph
QUIET = Screen(quiet=True)
QUICK: dict[str, dict[str, Any]] = {
    "deepwalk": {"dim": 8, "walks": 4, "walk_length": 10},
    "asp2vec": {"dim": 8, "walks": 2, "warmup": 2, "walk_length": 10},
    "gne": {"dim": 8, "steps": 60, "sphere_steps": 60},
    "spacene": {"dim": 8, "walks": 4},
    "deepmincut": {"dim": 8, "steps": 20},
    "deepmincut-features": {"dim": 8, "steps": 20},
    "graphstone": {"dim": 8, "epochs": 4, "hidden": 8},
    "graphsage": {"dim": 8, "epochs": 4},
    "smoothed": {},
    "graphham": {"dim": 16, "epochs": 2, "groups": [6, 2]},
}


@pytest.fixture
def fits_made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the methods whose work was really done."""
    made: list[str] = []
    real = Method.fit

    def fit(self: Method, *given: Any, **more: Any) -> Method:
        made.append(self.name)
        return real(self, *given, **more)

    monkeypatch.setattr(Method, "fit", fit)
    return made


def classify_cells(method: str, seeds: int = 2) -> list[Cell]:
    settings = QUICK[method]
    order = itertools.product(("folds", "few5"), range(seeds), range(3))
    return [
        Cell("classify", "toy", protocol, method, seed, fold, 3, settings=settings)
        for protocol, seed, fold in order
        if protocol == "folds" or fold == 0
    ]


def results(record: Record) -> Record:
    """Return what must not depend on whether a fit was shared."""
    kept = {k: record[k] for k in ("metrics", "validation", "chosen", "split")}
    found: Record = rounded({**kept, "hierarchy": record.get("hierarchy")})
    return found


def test_who_shares() -> None:
    cell = Cell("classify", "cora", "folds", "deepwalk", 1, 0)
    group = group_of(cell)
    assert group is not None
    assert group_of(Cell("classify", "cora", "folds", "deepwalk", 1, 3)) == group
    assert group_of(Cell("classify", "cora", "public_split", "deepwalk", 1)) == group
    for other in (
        Cell("classify", "cora", "folds", "deepwalk", 2, 0),
        Cell("classify", "citeseer", "folds", "deepwalk", 1, 0),
        Cell("classify", "cora", "folds", "asp2vec", 1, 0),
        Cell("classify", "cora", "folds", "deepwalk", 1, 0, settings={"dim": 64}),
        Cell("links", "cora", "links", "deepwalk", 1, 0),
    ):
        assert group_of(other) != group
    assert group_of(Cell("classify", "cora", "folds", "gat")) is None
    assert group_of(Cell("hierarchy", "cora", "folds", "deepwalk")) is None
    assert group_of(Cell("classify", "cora", "folds", "nobody")) is None
    easy = [Cell("links", "cora", "links", "gat", 0, fold) for fold in range(2)]
    hard = [Cell("links", "cora", "hard", "gat", 0, fold) for fold in range(2)]
    assert together([*easy, *hard]) == [easy[0], hard[0], easy[1], hard[1]]
    assert group_of(easy[0]) != group_of(easy[1])


def test_every_method_that_learns_no_labels_is_known() -> None:
    able = [name for name, _, tasks in method_rows() if {"classify", "links"} <= tasks]
    free = [name for name in able if group_of(Cell("classify", "cora", "folds", name)) is not None]
    assert set(free) == {
        "deepwalk",
        "asp2vec",
        "gne",
        "spacene",
        "deepmincut",
        "deepmincut-features",
        "graphstone",
    }


@pytest.mark.parametrize("method", ["deepwalk", "asp2vec", "gne", "graphstone", "graphsage"])
def test_folds_share_vectors_and_nothing_else(
    method: str, tmp_path: Path, fits_made: list[str]
) -> None:
    cells = classify_cells(method)
    outcome = run_cells(cells, CellStore(tmp_path), QUIET, graph=GRAPH)
    assert not outcome.failures
    # One fit per seed, or one per cell where labels take part in it.
    assert len(fits_made) == (len(cells) if method == "graphsage" else 2)
    spared = [r["cost"].get("shared_seconds", 0) > 0 for r in outcome.records.values()]
    assert spared.count(False) == len(fits_made)
    for cell in cells:
        record = outcome.records[cell.key]
        alone, _ = measure(cell, GRAPH)
        assert results(alone) == results(record)
        assert "shared_seconds" not in alone["cost"]
        shared = record["cost"].get("shared_seconds", 0.0)
        assert shared <= record["cost"]["seconds"]


@pytest.mark.parametrize("method", ["smoothed", "asp2vec", "graphham"])
def test_both_kinds_of_negatives_share_a_fit(
    method: str, tmp_path: Path, fits_made: list[str]
) -> None:
    order = itertools.product(("links", "hard"), range(2))
    cells = [Cell("links", "toy", p, method, 0, f, settings=QUICK[method]) for p, f in order]
    outcome = run_cells(cells, CellStore(tmp_path), QUIET, graph=GRAPH, keep=True)
    assert not outcome.failures
    assert len(fits_made) == 2
    for cell in cells:
        alone, _ = measure(cell, GRAPH)
        assert results(alone) == results(outcome.records[cell.key])
        assert (CellStore(tmp_path).place(cell) / "run" / "embedding.npy").is_file()


def test_a_choice_among_settings_is_shared_setting_by_setting(
    tmp_path: Path, fits_made: list[str]
) -> None:
    cells = [
        Cell("classify", "toy", "folds", "deepwalk", 0, fold, 2, 3, {"dim": 8, "walks": 2})
        for fold in range(2)
    ]
    outcome = run_cells(cells, CellStore(tmp_path), QUIET, graph=GRAPH)
    assert len(fits_made) == 3
    for cell in cells:
        alone, _ = measure(cell, GRAPH)
        assert results(alone) == results(outcome.records[cell.key])
        tried = [one["validation"] for one in outcome.records[cell.key]["tried"]]
        assert tried == rounded([one["validation"] for one in alone["tried"]])


def test_a_group_belongs_to_one_process_at_a_time(tmp_path: Path) -> None:
    first, second = Fits(tmp_path), Fits(tmp_path)
    cell, other = (Cell("classify", "cora", "folds", "deepwalk", seed) for seed in range(2))
    with first:
        assert first.enter(cell)
        assert first.enter(cell)
        assert not second.enter(cell)
        assert second.enter(other)
        assert not first.enter(other)  # which also means having left the first
        assert second.enter(cell)
    second.leave()
    assert not list(tmp_path.iterdir())


def test_cells_of_a_group_held_elsewhere_wait(tmp_path: Path) -> None:
    cells = classify_cells("deepwalk")
    store = CellStore(tmp_path)
    with Fits(store.groups) as elsewhere:
        assert elsewhere.enter(cells[0])
        outcome = run_cells(cells, store, QUIET, graph=GRAPH, wait=False)
        assert {Cell.from_dict(r["cell"]).seed for r in outcome.records.values()} == {1}
    # What a dead process leaves behind is in nobody's way.
    claim = store.groups / "left"
    handle = lock_file(claim)
    assert handle is not None
    os.close(handle)
    assert len(run_cells(cells, store, QUIET, graph=GRAPH).records) == len(cells)
