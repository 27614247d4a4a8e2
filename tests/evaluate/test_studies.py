"""Studies list the cells they promise, and RESULTS.md is exactly what the summaries say."""

from pathlib import Path

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.evaluate.cells import Cell, CellStore
from graphham.evaluate.hierarchy_peers import PEERS
from graphham.evaluate.paper_figures import (
    cooccurrence_figure,
    gap_figure,
    map_figure,
    save_figure,
    surface_figure,
    surfaces,
)
from graphham.evaluate.reproduce import reproduce
from graphham.evaluate.results import results_text, write_results
from graphham.evaluate.studies import load_study, settings_for, study_names
from graphham.evaluate.summaries import gather, read_summaries
from graphham.methods.registry import method_names
from graphham.system.console import Screen

REPOSITORY = Path(__file__).resolve().parents[2]
RESULTS = REPOSITORY / "experiments" / "results"


def test_every_study_names_known_methods_and_can_be_quick() -> None:
    names = study_names()
    paper = {f"table{n}" for n in (1, 2, 3, 4)} | {f"figure{n}" for n in (3, 4, 5, 6)}
    assert paper | {"groups", "hierarchy"} <= set(names)
    known = {*method_names(), *PEERS, "data"}
    for name in names:
        whole, quick = load_study(name), load_study(name, quick=True)
        assert {cell.method for cell in whole.cells} <= known
        assert len({cell.key for cell in whole.cells}) == len(whole.cells)
        assert 0 < len(quick.cells) <= len(whole.cells)


def test_table2_holds_three_seeds_of_five_folds_and_shares_cells_with_table4() -> None:
    cells = load_study("table2", datasets=["cora"]).cells
    ours = [c for c in cells if c.method == "graphham" and c.protocol == "p2"]
    assert {(c.seed, c.fold) for c in ours} == {(s, f) for s in range(3) for f in range(5)}
    ablation = {c.key for c in load_study("table4", datasets=["cora"]).cells}
    assert {c.key for c in ours} <= ablation


def test_choices_narrow_a_study() -> None:
    study = load_study("table2", datasets=["cora"], methods=["sgc"], seeds=[7], budget=2)
    assert {(c.graph, c.method, c.seed, c.budget) for c in study.cells} == {("cora", "sgc", 7, 2)}
    links = load_study("table3", datasets=["cora"], methods=["logreg", "smoothed"]).cells
    assert {c.method for c in links} == {"smoothed"}
    with pytest.raises(InputError, match="no cells"):
        load_study("hierarchy", methods=["gat"])
    with pytest.raises(InputError, match="debian"):
        load_study("table2", datasets=["debian"])
    with pytest.raises(InputError, match="table9"):
        load_study("table9")
    grid = load_study("figure5").cells
    assert {"groups": [12, 5]} in [dict(c.settings) for c in grid]
    assert len({c.key for c in grid}) == 45


def test_settings_of_one_graph_go_on_top() -> None:
    known = {
        "classify": {"graphham": {"any": {"dim": 64, "settings": {"a": 1}},
                                  "pubmed": {"settings": {"b": 2}}}}
    }  # fmt: skip
    assert settings_for(known, "classify", "graphham", "cora") == {"dim": 64, "settings": {"a": 1}}
    found = settings_for(known, "classify", "graphham", "pubmed")
    assert found == {"dim": 64, "settings": {"a": 1, "b": 2}}
    assert settings_for(known, "links", "graphham", "pubmed") == {}


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
            whole["hierarchy"] = {"nesting": 1.0, "nesting_evidence": 0.91, "used_share": 0.8}
        store.write(cell, whole, {})
    for seed in range(2):
        cell = Cell("hierarchy", "cora", "embed", "graphham", seed)
        codes = np.arange(60) % (3 + seed)
        whole = {"status": "done", "metrics": {"nmi_1": 0.5}, "versions": versions}
        store.write(cell, whole, {"level_1": codes})
    return store


def test_results_say_what_cells_say_and_admit_losses(tmp_path: Path) -> None:
    fake_results(tmp_path)
    count, paths = gather(tmp_path)
    assert (count, len(paths)) == (52, 4)
    path = write_results(tmp_path, tmp_path / "RESULTS.md")
    text = path.read_text()
    assert "`graphham reproduce table2`" in text
    loss = next(line for line in text.splitlines() if "| gat " in line and "+0.0" in line)
    assert loss.startswith("| cora  | p2")
    goal = next(line for line in text.splitlines() if "used share" in line)
    assert "**no**" in goal
    assert "Stability over seeds" in text
    # Cells measured elsewhere stay when this machine has none of them.
    before = read_summaries(tmp_path)
    for cell in (tmp_path / "cells").rglob("cell.json"):
        cell.unlink()
    gather(tmp_path)
    assert read_summaries(tmp_path) == before
    assert results_text(tmp_path) == text


def test_cells_with_other_settings_do_not_enter_a_table(tmp_path: Path) -> None:
    store = fake_results(tmp_path)
    gather(tmp_path)
    text = results_text(tmp_path)
    stray = Cell("classify", "cora", "p2", "graphham", 0, 0, settings={"dim": 8})
    whole = {"status": "done", "metrics": {"accuracy": 0.1, "macro_f1": 0.1}, "versions": {}}
    store.write(stray, whole, {})
    gather(tmp_path)
    assert results_text(tmp_path) == text


def test_results_of_the_repository_are_up_to_date() -> None:
    """What CI checks: RESULTS.md is what the stored summaries say, word for word."""
    if not read_summaries(RESULTS):
        pytest.skip("no summaries are stored yet")
    assert (REPOSITORY / "RESULTS.md").read_text() == results_text(RESULTS)


def test_without_cells_there_are_no_results(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no finished cells"):
        results_text(tmp_path)


def portrait() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    fine = draw.integers(6, size=90)
    return {
        "map": draw.normal(size=(90, 2)),
        "level_1": fine,
        "level_2": fine // 2,
        "label": draw.integers(-1, 3, size=90),
        "concentration": draw.random(90),
        "degrees": draw.integers(1, 9, size=90),
        "gap_1": draw.random(90) / 50,
        "gap_2": draw.random(90),
    }


def test_figures_show_their_data(tmp_path: Path) -> None:
    arrays, classes = portrait(), ["a", "b", "c"]
    heat = cooccurrence_figure(arrays, "toy", classes)
    shown = sum(int(text.get_text()) for text in heat.axes[0].texts)
    assert shown == 90
    assert [t.get_text() for t in heat.axes[0].get_yticklabels()] == list("012345")
    panels = map_figure(arrays, "toy", classes)
    drawn = sum(len(c.get_offsets()) for c in panels.axes[0].collections)
    assert drawn == 90
    assert [t.get_text() for t in panels.axes[2].get_legend().get_texts()] == classes
    gaps = gap_figure({"toy": arrays})
    assert sum(patch.get_height() for patch in gaps.axes[1].patches[:-1]) == 90
    first, second = (save_figure(heat, tmp_path / n, "x") for n in ("one", "two"))
    assert [p.suffix for p in first] == [".png", ".svg"]
    assert first[0].read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(InputError, match="portrait"):
        gap_figure({})
    assert second[1].stat().st_size > 1000


def test_surfaces_are_means_over_cells() -> None:
    def cell(settings: dict[str, object], accuracy: float, fold: int) -> dict[str, object]:
        made = Cell("classify", "facebook", "p2", "graphham", 0, fold, settings=settings)
        return {"cell": made.to_dict(), "status": "done", "metrics": {"accuracy": accuracy}}

    pairs = {"loss.must_link_weight": 0.5, "loss.cannot_link_weight": 0.1}
    records = [
        cell({"groups": [12, 5]}, 0.9, 0),
        cell({"groups": [12, 5]}, 0.92, 1),
        cell({"groups": [8, 3]}, 0.8, 0),
        cell({"settings": pairs}, 0.7, 0),
    ]
    counts, weights = surfaces(records)
    assert (counts.rows, counts.columns) == ((8, 12), (3, 5))
    assert counts.values == [[0.8, None], [None, pytest.approx(0.91)]]
    assert weights.row_name.startswith("gamma")
    assert "0.910" in {t.get_text() for t in surface_figure([counts, weights]).axes[0].texts}


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
