"""A model that reads who the neighbours are is saved, loaded, and reads graphs with new nodes."""

from pathlib import Path

import numpy as np
import pytest

from experiments.planted_cases import planted_graph
from graphham.config.settings import make_config
from graphham.graph.graph import build_graph
from graphham.methods.run_fitting import fit_to_run
from graphham.results.encoder import embed_graph


@pytest.mark.parametrize("batch", ["full", "sampled"])
def test_a_saved_model_reads_known_and_new_nodes(tmp_path: Path, batch: str) -> None:
    graph, _ = planted_graph("copied-directed", 2)
    settings = make_config(
        {
            "task": "classify",
            "groups": (6, 3),
            "inputs.link_rows": True,
            "train.epochs": 2,
            "train.batch": batch,
        }
    )
    run = fit_to_run(graph, settings, tmp_path / "run")
    again = embed_graph(run, graph)
    np.testing.assert_allclose(again.embedding, run.result().embedding, atol=1e-5)
    a, b = graph.edge_list().T
    x = np.asarray(graph.features)
    more = build_graph(
        np.append(a, [2000, 0]),
        np.append(b, [0, 2000]),
        2001,
        directed=True,
        features=np.concatenate([x, x[:1]]),
        ids=[*graph.ids, "new"],
    )
    found = embed_graph(run, more)
    assert np.isfinite(found.embedding).all()
    assert found.embedding[2000].any()
