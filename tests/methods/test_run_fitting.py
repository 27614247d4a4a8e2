"""Fits that end in a run folder: resumed on their own graph, repeated by their settings."""

import numpy as np
import pytest

from graphham.config.resolved import read_resolved
from graphham.config.settings import make_config
from graphham.errors import InputError
from graphham.methods.run_fitting import fit_to_run
from graphham.training.epochs import Silent
from tests.reference.graphs import planted, small_config, without_features

GRAPH = planted().graph


def test_a_run_is_resumed_on_its_own_graph_only(tmp_path):
    class Stop(Silent):
        def on_epoch(self, epoch, record):
            raise KeyboardInterrupt

    fit_to_run(GRAPH, small_config(), tmp_path / "run", listener=Stop())
    other = GRAPH.without_edges(GRAPH.edge_list()[:3])
    with pytest.raises(InputError, match="started on another graph"):
        fit_to_run(other, small_config(), tmp_path / "run", resume=True)
    # Its own settings win over those given now.
    run = fit_to_run(GRAPH, small_config({"train.epochs": 2}), tmp_path / "run", resume=True)
    assert len(run.metrics) == 6
    # A finished run is what resuming it would have led to, and stays as it is.
    finished = fit_to_run(GRAPH, small_config(), tmp_path / "run", resume=True)
    assert finished.metrics == run.metrics
    with pytest.raises(InputError, match="started on another graph"):
        fit_to_run(other, small_config(), tmp_path / "run", resume=True)
    with pytest.raises(InputError, match="exists already"):
        fit_to_run(GRAPH, small_config(), tmp_path / "run")
    replaced = fit_to_run(GRAPH, small_config({"seed": 5}), tmp_path / "run", overwrite=True)
    assert replaced.config["seed"] == 5


def test_the_config_of_a_run_repeats_it(tmp_path):
    run = fit_to_run(without_features(GRAPH), small_config({"seed": 3}), tmp_path / "one")
    again = fit_to_run(without_features(GRAPH), make_config(run.config), tmp_path / "two")
    assert again.config == run.config
    assert read_resolved(run.config).to_dict() == {
        k: v for k, v in run.config.items() if k != "graph"
    }
    np.testing.assert_array_equal(again.embedding, run.embedding)


def test_a_bad_plan_leaves_no_folder(tmp_path):
    with pytest.raises(InputError):
        fit_to_run(GRAPH, small_config({"groups": (500, 2)}), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
