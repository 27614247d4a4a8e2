"""Shards of a batch and row ranges of a table, in one process."""

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.methods.fitting import fit_graph
from graphham.methods.prepared import prepare
from graphham.methods.starting import make_model
from graphham.parallel.ranks import Ranks
from graphham.training.plan import plan_fit
from graphham.training.trainer import Trainer
from tests.reference.graphs import planted, small_config

GRAPH = planted().graph
SHARDED = {
    "train.batch": "sampled",
    "train.batch_size": 50,
    "train.fanouts": (5, 4),
    "train.shards": 3,
}


def test_a_fit_in_shards_finds_the_planted_groups():
    settings = {**SHARDED, "train.epochs": 30}
    result = fit_graph(GRAPH, small_config(settings)).result
    again = fit_graph(GRAPH, small_config({**settings, "train.workers": 3})).result
    np.testing.assert_array_equal(result.embedding, again.embedding)
    from sklearn.metrics import normalized_mutual_info_score

    assert normalized_mutual_info_score(GRAPH.labels.codes, result.groups[0]) > 0.8


def test_the_whole_graph_per_step_is_not_cut():
    with pytest.raises(InputError, match=r"train.shards = 3 cuts sampled batches"):
        plan_fit(GRAPH, small_config({"train.batch": "full", "train.shards": 3}))
    plan = plan_fit(GRAPH, small_config({"train.shards": 3}))
    assert plan.config.train.batch == "sampled"


def test_more_processes_than_shards_are_refused():
    config = plan_fit(GRAPH, small_config(SHARDED)).config
    prepared = prepare(GRAPH, config)
    model, tables = make_model(GRAPH, config, prepared, "inductive")
    with pytest.raises(InputError, match="4 processes cannot share 3 shards"):
        Trainer(model, GRAPH, prepared.inputs, config, tables, ranks=Ranks(0, 4))


def test_traffic_counts_what_a_step_really_packs(monkeypatch):
    from graphham.training import step as shards
    from graphham.training.traffic import step_traffic

    sizes = []
    begin = Ranks.gathering
    monkeypatch.setattr(
        Ranks, "gathering", lambda self, v: sizes.append(v.nbytes) or begin(self, v)
    )
    config = small_config({**SHARDED, "train.epochs": 1})
    fitted = fit_graph(GRAPH, config)
    found = step_traffic(fitted.encoder.model, shards=3, processes=4)
    assert shards.PARTS == 32
    # Alone, one process packs all three shards; of four, each gets one shard from three others.
    assert found.gradients == max(sizes)
    assert step_traffic(fitted.encoder.model, 3, 1).gradients == 0


def test_idle_moments_draw_the_steps_to_come_in_their_order():
    from graphham.training.step import _Ahead

    drawn = []
    steps = _Ahead(lambda index: drawn.append(index) or [index], 5)
    source = iter(steps)
    assert next(source) == [0]
    assert [steps.draw(), steps.draw(), steps.draw()] == [True, True, False]
    assert drawn == [0, 1, 2]  # two wait, and no more
    assert [next(source), next(source), next(source)] == [[1], [2], [3]]
    assert steps.draw()
    assert not steps.draw()  # there are no more
    assert list(source) == [[4]]
    assert drawn == [0, 1, 2, 3, 4]
