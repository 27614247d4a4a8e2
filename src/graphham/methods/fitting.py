"""From a graph and settings to a finished fit: prepare, train, read out."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from graphham.config.resolve import CLASSIFY_CONTEXTS
from graphham.config.resolved import ResolvedConfig
from graphham.config.settings import RunConfig
from graphham.graph.graph import Graph
from graphham.methods.base import library_versions
from graphham.methods.prepared import Prepared, prepare
from graphham.methods.starting import make_model
from graphham.model.inputs import NodeInputs
from graphham.model.network import GraphHAMNet
from graphham.parallel.graph_access import graph_access
from graphham.parallel.partitioned_graph import check_split
from graphham.parallel.ranks import ALONE, Ranks
from graphham.results.encoder import Encoder
from graphham.results.result import FitResult
from graphham.results.run_writer import RunWriter, graph_facts
from graphham.results.scores import collapse_notes
from graphham.sampling.keys import derive_key, numpy_generator
from graphham.system.memory_limit import naming_short_memory
from graphham.system.peak_memory import peak_memory
from graphham.system.threads import single_threaded
from graphham.training.class_shares import class_weights
from graphham.training.epochs import Listener, Silent
from graphham.training.plan import Plan, plan_fit
from graphham.training.supervision import Truth
from graphham.training.teacher import teach
from graphham.training.trainer import Trainer
from graphham.training.validation import LabelValidator, LinkValidator, Validator

_UNTAUGHT = (
    "groups did not teach classes, and contexts weigh less: {:.3f} of the validation labels are "
    "predicted so, {:.3f} otherwise"
)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A finished fit.

    Args:
        result: Vectors, groups and memberships of every node.
        config: The resolved settings.
        encoder: The network and what it needs to read other graphs.
        inputs: Inputs of the training nodes.
        graph: The training graph.
        history: One record per epoch.
        summary: What ``summary.json`` says.
        status: ``complete`` or ``interrupted``.
    """

    result: FitResult
    config: ResolvedConfig
    encoder: Encoder
    inputs: NodeInputs
    graph: Graph
    history: list[dict[str, Any]]
    summary: dict[str, Any]
    status: str

    @property
    def state(self) -> dict[str, Any]:
        """The tensors of ``model.safetensors``."""
        return self.encoder.state()


def fit_graph(
    graph: Graph,
    settings: RunConfig,
    *,
    run: RunWriter | None = None,
    resume: bool = False,
    listener: Listener | None = None,
    train_rows: Any = None,
    validation_rows: Any = None,
    plan: Plan | None = None,
    ranks: Ranks = ALONE,
    is_run: bool = False,
) -> Fitted:
    """Fit GraphHAM to a graph.

    Args:
        graph: The graph; its labels are trained on only with ``task = "classify"``.
        settings: What the user gave; what they leave open is decided here.
        run: Where metrics and checkpoints go while training.
        resume: Go on from the run's last checkpoint.
        listener: Who hears about progress.
        train_rows: Rows whose labels may be trained on; all known ones when not given.
        validation_rows: Rows whose labels decide early stopping.
        plan: What :func:`plan_fit` settled, where the caller has asked already.
        ranks: The processes that fit together; every one gets the whole answer.
        is_run: Whether the summary is for a run folder.
    """
    check_split(graph, settings, ranks)
    hear: Listener = listener or Silent()
    began = time.perf_counter()
    with single_threaded(), contextlib.ExitStack() as held:
        if plan is None:
            plan = plan_fit(graph.validate(), settings, train_rows, validation_rows, ranks, is_run)
        config = plan.config
        held.enter_context(naming_short_memory(plan.memory_bytes))
        hear.on_plan(plan)
        work, validator, truth = _held_out(graph, config, train_rows, validation_rows)
        prepared = prepare(work, config, ranks, plan.search)
        inputs = prepared.inputs
        trained = time.perf_counter()
        task = _Task(work, plan, prepared, truth, validator, ranks)
        trainer = task.trainer(config, run, listener)
        status = trainer.fit(resume)
        extra = []
        if config.loss.doubt_teacher and truth and validator and status == "complete":
            hear.on_note("training a second network that groups do not teach, to compare")
            other = task.trainer(without_teacher(config), None, None)
            status = other.fit()
            if status == "complete" and _is_better(other, trainer):
                extra.append(_UNTAUGHT.format(other.best_validation, trainer.best_validation))
                trainer, config = other, other.config
        model = trainer.model
        trained = time.perf_counter() - trained
        encoder = _reader(graph, config, model, prepared)
        if work is not graph:
            # Held-out links only decided when to stop; the result is about the graph as given.
            inputs = encoder.inputs_of(graph, graph.ids)
        result = encoder.read(graph, inputs, ranks, is_fitted_to=True)
        result = result.refuse_not_finite(trainer.rates()).validate()
    notes = [*_result_notes(result, config, graph), *extra]
    if plan.search.found is False:
        notes.append(plan.search.sentence())
    for note in notes:
        hear.on_note(note)
    notes += trainer.last_good.notes()  # heard when it happened
    summary = {
        "graph": graph_facts(graph),
        "structure": plan.search.facts(),
        "hierarchy": result.metrics,
        "model": encoder.facts(),
        "training": {**_training_facts(trainer, plan), "seconds": trained},
        "cost": {
            "seconds": time.perf_counter() - began,
            "peak_memory_bytes": peak_memory(),
            "estimated_memory_bytes": plan.memory_bytes,
        },
        "notes": notes,
        "versions": library_versions(),
    }
    return Fitted(result, config, encoder, inputs, graph, trainer.history, summary, status)


@dataclass(frozen=True, eq=False)
class _Task:
    """What a network is trained for; more than one may be.

    Args:
        graph: The graph that is trained on.
        plan: What was settled before.
        prepared: Inputs and groups.
        truth: Labels, with ``task = "classify"``.
        validator: What scores the network.
        ranks: The processes that train together.
    """

    graph: Graph
    plan: Plan
    prepared: Prepared
    truth: Truth | None
    validator: Validator | None
    ranks: Ranks

    def trainer(
        self, config: ResolvedConfig, run: RunWriter | None, listener: Listener | None
    ) -> Trainer:
        """Return the training of a new network, with the groups as teacher where they teach."""
        graph, truth, groups = self.graph, self.truth, self.prepared.groups
        model, tables = make_model(graph, config, self.prepared, self.plan.table, self.ranks)
        trainer = Trainer(
            model,
            graph,
            self.prepared.inputs,
            config,
            tables,
            truth,
            self.validator,
            run,
            listener,
            self.ranks,
        )
        if truth is not None and groups is not None and config.loss.teacher_weight:
            assert graph.labels is not None
            classes = len(graph.labels.classes)
            weights = class_weights(truth, classes)
            said = teach(groups.committee(config), truth, classes, weights)
            trainer.learn_from(torch.from_numpy(self.ranks.share_array(said.numpy())))
        return trainer


def without_teacher(config: ResolvedConfig) -> ResolvedConfig:
    """Return settings with which groups teach nothing, and contexts weigh as with many labels."""
    weight = min(config.loss.context_weight, CLASSIFY_CONTEXTS)
    loss = config.loss.model_copy(update={"context_weight": weight, "teacher_weight": 0.0})
    return config.model_copy(update={"loss": loss})


def _is_better(other: Trainer, trainer: Trainer) -> bool:
    """Whether another network predicts the validation labels better, by more than luck may do.

    That is a standard error of the difference; otherwise groups and contexts, which know more than
    two hundred labels do, are the better bet.
    """
    gain = (_hits(other) - _hits(trainer)).double()
    return bool(gain.mean() > gain.std(correction=0) / len(gain) ** 0.5)


def _hits(trainer: Trainer) -> torch.Tensor:
    """Return ``(validation labels,)`` which of them the network predicts."""
    validator, truth = trainer.validator, trainer.truth
    assert isinstance(validator, LabelValidator)
    assert truth is not None
    validator.score(trainer.model, trainer.whole())
    assert validator.logits is not None
    logits, targets = validator.logits[truth.validation], truth.targets[truth.validation]
    if truth.is_multi:
        return ((logits > 0) == (targets > 0)).float().mean(1)
    return (logits.argmax(1) == targets).float()


def _result_notes(result: FitResult, config: ResolvedConfig, graph: Graph) -> list[str]:
    """Return what a person should know about the groups."""
    notes = collapse_notes(result.groups, config.groups)
    if not graph_access(graph).is_whole:
        notes.append("groups of a split store have no typical features: nobody has seen all nodes")
    return notes


def _training_facts(trainer: Trainer, plan: Plan) -> dict[str, Any]:
    """Return what the summary says about a finished training, but for how long it took."""
    return {
        "epochs": len(trainer.history),
        "best_epoch": trainer.best_epoch,
        "validation": trainer.best_validation,
        "rollbacks": trainer.last_good.rollbacks,
        "batch": plan.config.train.batch,
        "context_table": plan.table,
    }


def _reader(
    graph: Graph,
    config: ResolvedConfig,
    model: GraphHAMNet,
    prepared: Prepared,
) -> Encoder:
    """Return the network as a reader of graphs, with the classes it predicts, if any."""
    labels = graph.labels if config.task == "classify" else None
    groups = None if prepared.groups is None else prepared.groups.map
    if labels is None:
        return Encoder(model, prepared.features, config, (), False, groups)
    classes, is_multi = labels.classes, labels.is_multi
    return Encoder(model, prepared.features, config, classes, is_multi, groups)


def _held_out(
    graph: Graph, config: ResolvedConfig, train_rows: Any, validation_rows: Any
) -> tuple[Graph, Validator | None, Truth | None]:
    """Return the graph to train on, what scores the network, and the labels it may see."""
    train = config.train
    if config.task == "classify":
        assert graph.labels is not None
        share = train.validation_share
        truth = Truth.split(graph.labels, config.seed, share, train_rows, validation_rows)
        return graph, LabelValidator(truth) if len(truth.validation) else None, truth
    if not train.validation_edges:
        return graph, None, None
    edges = graph.edge_list()
    if len(edges) < 2:
        return graph, None, None
    generator = numpy_generator(derive_key(config.seed, "validation edges"))
    count = max(1, int(train.validation_edges * len(edges)))
    held = edges[np.sort(generator.permutation(len(edges))[:count])]
    return graph.without_edges(held), LinkValidator(held, graph, config.seed), None
