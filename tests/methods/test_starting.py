"""The network where training begins: groups near nodes, tables of the kind that was planned."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from graphham.methods.fitting import fit_graph
from graphham.methods.prepared import prepare
from graphham.methods.starting import make_model
from graphham.training.plan import plan_fit
from tests.reference.graphs import planted, small_config, with_features

GRAPH = planted().graph


def test_groups_start_near_nodes_of_a_very_wide_table():
    """A hundred thousand columns: nothing of that size squared may be made."""
    rng = np.random.default_rng(0)
    x = sp.random(180, 100_000, 1e-4, "csr", np.float32, rng)
    graph = with_features(GRAPH, x)
    plan = plan_fit(graph, small_config({"preset": "paper"}))
    prepared = prepare(graph, plan.config)
    inputs = prepared.inputs
    model, _ = make_model(graph, plan.config, prepared, plan.table)
    vectors = model.layer(0).group_embedding.detach().numpy()
    scaled = sp.csr_matrix(
        (inputs.features.values, inputs.features.indices, inputs.features.indptr), x.shape
    )
    cosines = vectors @ scaled.T
    cosines /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert (cosines.max(1) > 0.95).all()
    spread = model.layer(0).affinities(inputs.rows(None)).std().detach()
    assert float(spread) == pytest.approx(1, abs=0.05)


def test_random_groups_on_request():
    config = small_config({"model.group_init": "random"})
    one = fit_graph(GRAPH, config)
    two = fit_graph(GRAPH, config)
    np.testing.assert_array_equal(one.result.embedding, two.result.embedding)


@pytest.mark.parametrize("table", ["inductive", "factored", "full"])
def test_context_tables_are_of_the_kind_that_was_planned(table):
    settings = {"loss.context_table": table}
    if table != "inductive":
        settings["loss.context"] = "skipgram"
    plan = plan_fit(GRAPH, small_config(settings))
    prepared = prepare(GRAPH, plan.config)
    model, tables = make_model(GRAPH, plan.config, prepared, plan.table)
    again, _ = make_model(GRAPH, plan.config, prepared, plan.table)
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)
    each = {"inductive": [], "factored": [1, 1], "full": list(plan.config.groups)}[table]
    assert [made.weight.shape[0] for made in tables] == [n * GRAPH.num_nodes for n in each]
