"""Figures show their data."""

from pathlib import Path

import numpy as np
import pytest

from experiments.paper_figures import (
    cooccurrence_figure,
    gap_figure,
    map_figure,
    save_figure,
    surface_figure,
    surfaces,
)
from graphham.errors import InputError
from graphham.evaluate.cells import Cell


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
        made = Cell("classify", "facebook", "folds", "graphham", 0, fold, settings=settings)
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
