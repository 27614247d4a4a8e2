"""The face for Python users: one load for runs of every method, one way to look at a fit."""

from pathlib import Path

import numpy as np
import pytest

import graphham as gh
from graphham.errors import InputError
from graphham.methods import DeepWalk
from tests.reference.graphs import planted

GRAPH = planted().graph
SMALL = {"walks": 2, "walk_length": 8, "dim": 8}


def test_loading_returns_the_method_that_the_folder_holds(tmp_path: Path) -> None:
    model = gh.GraphHAM(groups=(6, 2), dim=16, epochs=2).fit(GRAPH)
    model.save(tmp_path / "ham")
    walks = DeepWalk(**SMALL).fit(GRAPH)
    walks.save(tmp_path / "walks")
    assert type(gh.load(tmp_path / "ham")) is gh.GraphHAM
    loaded = gh.load(tmp_path / "walks")
    assert type(loaded) is DeepWalk
    assert loaded.get_params() == walks.get_params()
    with pytest.raises(InputError, match="holds the method deepwalk, not graphham"):
        gh.GraphHAM.load(tmp_path / "walks")


def test_a_fit_in_no_folder_is_looked_at_in_a_temporary_one() -> None:
    pytest.importorskip("fastapi")
    walks = DeepWalk(**SMALL).fit(GRAPH)
    with pytest.raises(InputError, match=r"call explore\(\) first"):
        walks.selection()
    with walks.explore(open_browser=False) as running:
        place = running.explorer.view.run.path
        assert place.is_dir()
        assert running.explorer.overview()["levels"] == []
        running.explorer.select({"lasso": "-99,-99;99,-99;99,99;-99,99"})
        chosen = walks.selection()
    assert chosen["id"].to_pylist() == GRAPH.ids.tolist()
    assert "concentration" not in chosen.column_names
    assert np.isfinite(chosen["map_x"].to_numpy()).all()
