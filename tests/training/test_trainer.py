"""The training loop: repeatable, resumable from any moment, and stopped cleanly at any moment."""

import numpy as np
import pytest
import torch

from graphham.methods.fitting import fit_graph
from graphham.methods.prepared import prepare
from graphham.methods.run_fitting import fit_to_run
from graphham.methods.starting import make_model
from graphham.results.hierarchy import nesting_score
from graphham.results.run_writer import Run
from graphham.training.epochs import Silent
from graphham.training.plan import plan_fit
from graphham.training.trainer import Trainer, make_optimizer
from tests.reference.graphs import multi_labelled, planted, small_config, with_features

GRAPH = planted().graph
SAMPLED = {"train.batch": "sampled", "train.batch_size": 64, "train.fanouts": (5, 4)}


def assert_same(one, other):
    np.testing.assert_array_equal(one.embedding, other.embedding)
    for a, b in zip(one.memberships + one.groups, other.memberships + other.groups, strict=True):
        np.testing.assert_array_equal(a, b)


def losses(history):
    return [{k: v for k, v in record.items() if k != "seconds"} for record in history]


class Bomb(Silent):
    """A listener that ends training after some epoch, one way or another."""

    def __init__(self, epoch, error):
        self.epoch, self.error, self.notes, self.ended, self.start = epoch, error, [], None, None

    def on_start(self, total_epochs, start_epoch):
        self.start = start_epoch

    def on_epoch(self, epoch, record):
        if epoch == self.epoch:
            raise self.error

    def on_note(self, text):
        self.notes.append(text)

    def on_end(self, status):
        self.ended = status


class KilledError(BaseException):
    """Stands for a process that is gone: nobody catches it."""


CASES = {
    "few labels": {
        "task": "classify",
        "train.validation_share": 0.85,
        "train.evaluate_every": 1,
    },
    "default": {},
    "sampled": SAMPLED,
    "tables": {
        "loss.context": "skipgram",
        "loss.context_table": "full",
        "loss.walks": 2,
        "model.straight_through": True,
    },
    "sampled tables": {
        **SAMPLED,
        "loss.context": "skipgram",
        "loss.context_table": "factored",
        "loss.walks": 2,
    },
    "classify": {"task": "classify", "train.evaluate_every": 1},
    "teacher": {
        "task": "classify",
        "train.evaluate_every": 1,
        "loss.teacher_weight": 1.0,
        "model.class_steps": 3,
    },
    "doubted teacher": {
        "task": "classify",
        "train.evaluate_every": 1,
        "loss.context_weight": 1e5,
        "loss.doubt_teacher": True,
    },
    "groups of the layers": {"model.membership_input": "state"},
    "dirichlet": {"model.dirichlet": True, "model.membership_input": "state"},
    "paper": {"preset": "paper", "loss.walks": 2},
    "held-out links": {"train.validation_edges": 0.1, "train.evaluate_every": 1},
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_seed_gives_the_same_fit_and_another_seed_another(case):
    torch.manual_seed(0)
    first = fit_graph(GRAPH, small_config(CASES[case]))
    torch.manual_seed(1)  # global streams must not matter
    np.random.seed(1)  # noqa: NPY002
    again = fit_graph(GRAPH, small_config(CASES[case]))
    assert_same(first.result, again.result)
    assert losses(first.history) == losses(again.history)
    other = fit_graph(GRAPH, small_config(CASES[case], seed=1))
    assert not np.array_equal(first.result.embedding, other.result.embedding)


@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_the_number_of_workers_does_not_matter(form):
    graph = GRAPH if form == "sparse" else with_features(GRAPH, GRAPH.features.toarray())
    settings = {**SAMPLED, "train.batch_size": 32, "train.epochs": 4}
    fits = [
        fit_graph(graph, small_config(settings, {"train.workers": workers})).result
        for workers in (0, 1, 4)
    ]
    assert_same(fits[0], fits[1])
    assert_same(fits[0], fits[2])


@pytest.mark.parametrize("case", CASES)
def test_a_killed_run_resumes_to_the_same_bits(case, tmp_path):
    config = small_config(CASES[case], {"train.checkpoint_every": 0, "train.epochs": 6})
    whole = fit_to_run(GRAPH, config, tmp_path / "whole")
    for epoch in (2, 4) if case in ("default", "classify") else (5,):
        out = tmp_path / f"killed{epoch}"
        with pytest.raises(KilledError):
            fit_to_run(GRAPH, config, out, listener=Bomb(epoch, KilledError()))
        assert not out.exists()
        heard = Bomb(None, None)
        run = fit_to_run(GRAPH, config, out, resume=True, listener=heard)
        # The epoch at whose end the process died was not saved yet.
        assert heard.start == epoch - 1
        assert_same(run.result(), whole.result())
        assert losses(run.metrics) == losses(whole.metrics)
        for name, value in whole.state("torch").items():
            assert torch.equal(run.state("torch")[name], value), name
        assert run.summary["training"]["best_epoch"] == whole.summary["training"]["best_epoch"]
        assert run.summary["status"] == "complete"


@pytest.mark.parametrize("case", ["default", "classify", "paper"])
@pytest.mark.parametrize("epoch", [1, 3, 6])
def test_an_interrupt_leaves_a_usable_run_that_can_go_on(case, epoch, tmp_path):
    config = small_config(CASES[case])
    heard = Bomb(epoch, KeyboardInterrupt())
    run = fit_to_run(GRAPH, config, tmp_path / "run", listener=heard)
    assert run.summary["status"] == heard.ended == "interrupted"
    assert any("stopped" in note for note in heard.notes)
    result = run.result().validate()
    assert np.isfinite(result.embedding).all()
    assert len(run.metrics) == epoch
    if config.model.membership_input == "block":
        assert nesting_score(*result.groups) == pytest.approx(1)
    resumed = fit_to_run(GRAPH, config, tmp_path / "run", resume=True)
    assert resumed.summary["status"] == "complete"
    assert [record["epoch"] for record in resumed.metrics] == list(range(1, 7))
    assert_same(resumed.result(), fit_graph(GRAPH, config).result)


@pytest.mark.parametrize("case", ["default", "classify", "sampled"])
@pytest.mark.parametrize("at", [0.1, 0.45, 0.55])
def test_an_interrupt_in_the_middle_of_an_epoch(case, at, tmp_path, monkeypatch):
    config = small_config(CASES[case], {"train.epochs": 4, "train.average": 0.9})
    per_epoch = 3 if case == "sampled" else 1
    fatal = int(at * 4 * per_epoch)
    calls = []
    loss = Trainer._loss

    def interrupted(self, *arguments):
        calls.append(1)
        if len(calls) == fatal + 1:
            raise KeyboardInterrupt
        return loss(self, *arguments)

    monkeypatch.setattr(Trainer, "_loss", interrupted)
    run = fit_to_run(GRAPH, config, tmp_path / "run")
    assert run.summary["status"] == "interrupted"
    assert nesting_score(*run.result().groups) == pytest.approx(1)
    monkeypatch.undo()
    resumed = fit_to_run(GRAPH, config, tmp_path / "run", resume=True)
    assert_same(resumed.result(), fit_graph(GRAPH, config).result)


class Scripted:
    """A validator whose scores are given in advance; it remembers the states it saw."""

    def __init__(self, scores):
        self.scores, self.seen = list(scores), []

    def score(self, model, batch):
        self.seen.append({k: v.clone() for k, v in model.state_dict().items()})
        value = self.scores[len(self.seen) - 1]
        return value, 0.0


def make_trainer(validator=None, listener=None, **settings):
    plan = plan_fit(GRAPH, small_config(settings))
    config = plan.config
    prepared = prepare(GRAPH, config)
    model, tables = make_model(GRAPH, config, prepared, plan.table)
    return Trainer(model, GRAPH, prepared.inputs, config, tables, None, validator, None, listener)


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_the_best_state_is_restored_and_patience_ends_training(average):
    validator = Scripted([0.1, 0.5, 0.9, 0.2, 0.3, 0.8, 0.7])
    trainer = make_trainer(
        validator,
        **{
            "train.epochs": 20,
            "train.evaluate_every": 2,
            "train.patience": 6,
            "train.average": average,
        },
    )
    assert trainer.fit() == "complete"
    # Scores at epochs 2, 4, 6 (best), 8, 10, 12: six without a better one.
    assert trainer.best_epoch == 6
    assert len(trainer.history) == 12
    scored = [record["epoch"] for record in trainer.history if "validation" in record]
    assert scored == [2, 4, 6, 8, 10, 12]
    for name, value in trainer.model.state_dict().items():
        assert torch.equal(value, validator.seen[2][name]), name


def test_without_a_validator_the_last_state_stays():
    trainer = make_trainer(**{"train.epochs": 5})
    trainer.fit()
    last = make_trainer(**{"train.epochs": 5})
    for epoch in range(5):
        last.take_epoch(epoch)
    for name, value in trainer.model.state_dict().items():
        assert torch.equal(value, last.model.state_dict()[name])


def test_the_running_average_is_a_mean_first_and_forgets_later():
    trainer = make_trainer(**{"train.epochs": 9, "train.average": 0.6})
    states = []
    for epoch in range(9):
        trainer.take_epoch(epoch)
        trainer.average.update(trainer.model, trainer.updates(epoch))
        states.append({k: v.clone() for k, v in trainer.model.state_dict().items()})
    expected = {k: v.double() for k, v in states[0].items()}
    for count, state in enumerate(states[1:], 1):
        keep = min(0.6, count / (count + 1))  # the mean of two, then less and less of the old
        expected = {k: keep * v + (1 - keep) * state[k].double() for k, v in expected.items()}
    for name, value in trainer.average.state.items():
        torch.testing.assert_close(value.double(), expected[name], atol=1e-5, rtol=1e-4)


def test_training_lowers_the_loss_and_reports_its_parts():
    fitted = fit_graph(GRAPH, small_config({"train.epochs": 20}))
    history = fitted.history
    assert [record["epoch"] for record in history] == list(range(1, 21))
    for record in history:
        parts = [record[k] for k in ("context", "nesting_loss", "balance") if k in record]
        assert record["loss"] == pytest.approx(sum(parts), rel=1e-5)
        assert 1 <= record["used_2"] <= 2
        assert record["seconds"] >= 0
    assert history[-1]["context"] < 0.92 * history[0]["context"]


def test_the_temperature_falls_from_one_end_to_the_other():
    trainer = make_trainer(**{"train.epochs": 11, "model.tau": 2.0, "model.tau_end": 0.5})
    values = [trainer.tau(epoch) for epoch in range(11)]
    assert values[0] == 2.0
    assert values[5] == pytest.approx(1.0)
    assert values[10] == pytest.approx(0.5)
    single = make_trainer(**{"train.epochs": 1})
    assert single.tau(0) == single.config.model.tau


def test_only_transformations_and_the_classifier_decay():
    graph = multi_labelled(GRAPH)
    plan = plan_fit(
        graph,
        small_config(
            {
                "task": "classify",
                "train.weight_decay": 0.1,
                "model.residual": True,
                "model.class_groups": True,
            }
        ),
    )
    model, _ = make_model(graph, plan.config, prepare(graph, plan.config), plan.table)
    decayed, free = make_optimizer(model, plan.config).param_groups
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.1, 0.0)
    names = {id(p): name for name, p in model.named_parameters()}
    assert {names[id(p)] for p in decayed["params"]} == {
        "layers.0.weight",
        "layers.0.shortcut",
        "layers.1.weight",
        "layers.1.shortcut",
        "classifier.weight",
        "class_odds",
    }
    assert len(decayed["params"]) + len(free["params"]) == len(names)


def test_a_forced_collapse_is_noticed_by_the_fit():
    """The paper's constraint alone, far too strong: the upper level empties and the user hears."""
    heard = Bomb(None, None)
    settings = {
        "preset": "paper",
        "loss.walks": 1,
        "loss.must_link_weight": 1e4,
        "loss.context_weight": 0.0,
        "train.epochs": 25,
        "train.lr": 0.05,
        "groups": (6, 4),
    }
    fitted = fit_graph(GRAPH, small_config(settings), listener=heard)
    assert fitted.summary["hierarchy"]["used_2"] == 1
    assert any("only 1 of the 4 groups of level 2" in note for note in heard.notes)
    assert fitted.summary["notes"]


def test_a_run_says_what_happened(tmp_path):
    run = fit_to_run(GRAPH, small_config({"task": "classify"}), tmp_path / "run")
    assert Run.open(run.path).summary["training"]["epochs"] == 6
    assert [r["epoch"] for r in run.metrics] == [1, 2, 3, 4, 5, 6]


def test_nodes_without_labels_learn_from_what_their_groups_say():
    settings = {"task": "classify", "train.evaluate_every": 1}
    rows = np.arange(0, GRAPH.num_nodes, 6)
    few = fit_graph(GRAPH, small_config(settings), train_rows=rows)
    assert few.config.loss.teacher_weight == 3.0
    assert few.config.model.class_steps == 10
    assert all(record["teacher"] > 0 for record in few.history)
    many = fit_graph(GRAPH, small_config(settings))
    assert 0 < many.config.loss.teacher_weight < 3.0
    assert 0 < many.history[-1]["teacher"] < few.history[-1]["teacher"]
    without = fit_graph(GRAPH, small_config(settings | {"loss.teacher_weight": 0.0}))
    assert "teacher" not in without.history[-1]


def test_memberships_stay_what_the_block_model_said():
    """Training moves the network; the groups were fitted before it."""
    fitted = fit_graph(GRAPH, small_config({"train.epochs": 3}))
    groups = prepare(GRAPH, fitted.config).groups
    held = groups.map
    rows = held.rows(held.known, fitted.inputs.features)
    np.testing.assert_array_equal(fitted.inputs.memberships, rows)
    tables = groups.link_tables()
    for level, (table, odds) in enumerate(zip(tables, held.model.tables, strict=True)):
        np.testing.assert_array_equal(fitted.encoder.model.layer(level).pair_score, table)
        # A link that groups make likelier is no chance with a higher probability.
        assert (table <= 0).all()
        assert (np.diff(table.ravel()[odds.ravel().argsort()]) >= 0).all()
    np.testing.assert_array_equal(fitted.encoder.model.link_table, tables[0])
    np.testing.assert_array_equal(fitted.encoder.model.layer(0).likeness, np.float32(held.likeness))
    longer = fit_graph(GRAPH, small_config({"train.epochs": 6}))
    for one, other in zip(fitted.result.groups, longer.result.groups, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(fitted.result.embedding, longer.result.embedding)


def test_a_fit_that_has_settled_stops_and_a_resumed_one_at_the_same_place(tmp_path):
    settings = {"train.epochs": 40, "train.settle": 0.05, "train.checkpoint_every": 0.0}
    whole = fit_graph(GRAPH, small_config(settings))
    stopped = len(whole.history)
    assert 10 <= stopped < 40
    last = [np.mean([r["loss"] for r in whole.history[a:b]]) for a, b in ((-10, -5), (-5, None))]
    assert last[0] - last[1] < 0.05 * last[0]
    config = small_config(settings)
    with pytest.raises(KilledError):
        fit_to_run(GRAPH, config, tmp_path / "r", listener=Bomb(stopped - 2, KilledError()))
    run = fit_to_run(GRAPH, config, tmp_path / "r", resume=True)
    assert_same(run.result(), whole.result)
    on = fit_graph(GRAPH, small_config({**settings, "train.settle": 0.0, "train.epochs": 20}))
    assert len(on.history) == 20
