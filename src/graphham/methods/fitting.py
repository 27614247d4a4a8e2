"""From a graph and settings to a finished fit: prepare, train, read out, write."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from graphham.config.resolve import CLASSIFY_CONTEXTS
from graphham.config.resolved import ResolvedConfig
from graphham.config.settings import RunConfig
from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.graph.mapped_features import MappedFeatures
from graphham.methods.base import library_versions
from graphham.model.context import ContextTable
from graphham.model.inputs import FeatureMap, NodeInputs, fit_inputs
from graphham.model.link_columns import LinkColumns
from graphham.model.network import GraphHAMNet, activate
from graphham.parallel.graph_access import graph_access
from graphham.parallel.partitioned_graph import check_split
from graphham.parallel.ranks import ALONE, Ranks
from graphham.parallel.row_shards import RowShards
from graphham.results.encoder import Encoder
from graphham.results.result import FitResult
from graphham.results.run_writer import (
    RunWriter,
    finished_run,
    graph_facts,
    resume_run,
    start_run,
)
from graphham.results.scores import collapse_notes
from graphham.sampling.keys import derive_key, numpy_generator, torch_generator
from graphham.system.memory_limit import naming_short_memory
from graphham.system.peak_memory import peak_memory
from graphham.system.threads import single_threaded
from graphham.training.class_shares import class_weights
from graphham.training.epochs import Listener, Silent
from graphham.training.make_network import network_settings
from graphham.training.plan import Plan, plan_fit
from graphham.training.run_groups import FittedGroups, fit_run_groups
from graphham.training.shared_checkpoints import check_shared
from graphham.training.step import check_shards
from graphham.training.structure import StructureSearch
from graphham.training.supervision import Truth
from graphham.training.teacher import teach
from graphham.training.trainer import Trainer
from graphham.training.validation import LabelValidator, LinkValidator, Validator

if TYPE_CHECKING:
    from graphham.results.run_folder import Run

_UNTAUGHT = (
    "groups did not teach classes, and contexts weigh less: {:.3f} of the validation labels are "
    "predicted so, {:.3f} otherwise"
)
# Nodes from which the start of the groups is read when a sampled fit cannot look at all of them.
_SPREAD_NODES = 4096


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


@dataclass(frozen=True, eq=False)
class Prepared:
    """What is known of a training graph before the network is.

    Args:
        features: Fitted steps from the graph to inputs.
        inputs: Inputs of every node.
        groups: The block model, where memberships come from one.
        directions: ``(num_features, at most layer_dims[0])`` what the first layer starts from.
    """

    features: FeatureMap
    inputs: NodeInputs
    groups: FittedGroups | None
    directions: Any


def prepare(
    graph: Graph,
    config: ResolvedConfig,
    ranks: Ranks = ALONE,
    search: StructureSearch | None = None,
) -> Prepared:
    """Scale the features of a training graph and fit its groups."""
    is_block = config.model.membership_input == "block"
    directions = config.layer_dims[0] if config.model.init == "svd" else 0
    width = max(directions, config.inputs.group_dim) if is_block else directions
    features, inputs, lead = fit_inputs(
        graph, config.inputs, config.seed, width, ranks, has_unit_rows=is_block
    )
    start = lead[:, :directions]
    if not is_block:
        return Prepared(features, inputs, None, start)
    basis = np.ascontiguousarray(lead[:, : config.inputs.group_dim])
    groups = fit_run_groups(graph, inputs, basis, features.is_structural, config, ranks, search)
    joined: Any = inputs.features
    if graph_access(graph).is_whole and not isinstance(joined, MappedFeatures):
        links = LinkColumns.fit(graph, joined, basis, config.inputs.link_rows)
        if not links.is_empty:
            features, joined = replace(features, links=links), links.join(joined, graph)
    elif config.inputs.link_rows:
        raise InputError(
            "inputs.link_rows makes columns of links, which needs the whole graph and its features "
            "in memory; leave it out"
        )
    inputs = NodeInputs(joined, groups.map.rows(groups.map.known, joined))
    return Prepared(features, inputs, groups, start)


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


def fit_to_run(
    graph: Graph,
    settings: RunConfig,
    out: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
    ranks: Ranks = ALONE,
    about: Mapping[str, Any] | None = None,
) -> Run:
    """Fit a graph and write the run folder.

    Args:
        graph: The graph.
        settings: What the user gave; a resumed run keeps its own.
        out: The run folder; must not exist unless resumed or overwritten.
        resume: Go on with an unfinished run; one that is finished is returned as it is.
        overwrite: Replace an existing run.
        listener: Who hears about progress.
        ranks: The processes that fit together; the first one writes the folder.
        about: Which form of GraphHAM this is, for the summary.
    """
    from graphham.config.settings import make_config
    from graphham.results.run_folder import Run

    plan: Plan | None = None
    writer: RunWriter | None = None
    if resume:
        done = finished_run(out) if ranks.is_first else None
        if done is not None:
            _check_same_graph(done.config, graph)
        if ranks.tell(done is not None):
            return Run.open(out)
        writer = resume_run(out) if ranks.is_first else None
        settings = make_config(ranks.tell(None if writer is None else writer.config))
        if writer is not None:
            _check_same_graph(writer.config, graph)
    else:
        if settings.train.shards == 1:
            # What makes the numbers is settled once; the run can go on with fewer processes.
            train = settings.train.model_copy(update={"shards": ranks.count})
            settings = settings.model_copy(update={"train": train})
        check_shards(settings.train.shards, ranks)
        check_split(graph, settings, ranks)
        with single_threaded():
            plan = plan_fit(graph.validate(), settings, ranks=ranks, is_run=True)
        if ranks.is_first:
            facts = graph_facts(graph)
            writer = start_run(out, {**plan.config.to_dict(), "graph": facts}, overwrite)
    with contextlib.ExitStack() as held:
        if writer is not None:
            held.enter_context(writer)
        if ranks.count > 1:
            check_shared(ranks, Path(ranks.tell(None if writer is None else str(writer.partial))))
        fitted = fit_graph(
            graph,
            settings,
            run=writer,
            resume=resume,
            listener=listener,
            plan=plan,
            ranks=ranks,
            is_run=True,
        )
        if writer is not None:
            writer.finish(
                fitted.result,
                fitted.state,
                graph,
                {**fitted.summary, "method": about or {"name": "graphham", "settings": {}}},
                status=fitted.status,
                keep_checkpoint=fitted.status == "interrupted",
            )
        ranks.wait()
        return Run.open(out)


def start_parameters(
    model: GraphHAMNet,
    config: ResolvedConfig,
    inputs: NodeInputs,
    graph: Graph,
    directions: Any,
    ranks: Ranks = ALONE,
) -> None:
    """Draw the parameters and put group vectors where nodes are (A13)."""
    from graphham.model.feature_rows import FeatureRows
    from graphham.readout.whole_graph import full_batch

    generator = torch_generator(derive_key(config.seed, "parameters"))
    model.reset_parameters(generator, directions)
    if config.model.group_init == "random" or model.has_block_groups:
        return
    # A sampled fit never holds the whole graph: a few thousand nodes tell the spread as well.
    is_whole = config.train.batch != "sampled" or graph.num_nodes <= _SPREAD_NODES
    is_whole = is_whole and graph_access(graph).is_whole
    batch = full_batch(model, inputs, graph) if is_whole else None
    draw = numpy_generator(derive_key(config.seed, "group start"))
    with torch.no_grad():
        model.eval()
        for level, count in enumerate(model.groups):
            chosen = np.sort(draw.choice(graph.num_nodes, count, replace=False))
            vectors = model.layer(level).group_embedding
            if batch is not None:
                held = model.encode(batch)[level].x
                if isinstance(held, FeatureRows):
                    picked = inputs.rows(chosen).to_dense()
                else:
                    picked = held[torch.from_numpy(chosen)]
            else:
                others = np.setdiff1d(draw.choice(graph.num_nodes, _SPREAD_NODES), chosen)
                rows = np.concatenate([chosen, others])
                held = _sampled_states(model, config, inputs, graph, rows, level, ranks)
                picked = (held.to_dense() if isinstance(held, FeatureRows) else held)[:count]
            jitter = torch.randn(picked.shape, generator=generator)
            vectors.copy_(picked + 0.01 * picked.std(correction=0) * jitter)
            scale = model.layer(level).log_scale
            if scale is not None:
                # Dot products of sparse rows are tiny; unit spread lets memberships differ.
                spread = model.layer(level).affinities(held).std()
                scale.copy_(-(spread.clamp_min(1e-6).log()))


def _sampled_states(
    model: GraphHAMNet,
    config: ResolvedConfig,
    inputs: NodeInputs,
    graph: Graph,
    rows: Any,
    level: int,
    ranks: Ranks,
) -> Any:
    """Return what a level's groups look at of some nodes, from sampled neighbourhoods."""
    from graphham.model.network import Batch

    key = derive_key(config.seed, "group start", level)
    fanouts = [config.fanout(layer) for layer in range(level)]
    # A level's groups look at its own input, which the layers below have made.
    sampler = graph_access(graph, ranks).sampler()
    blocks = sampler.sample_blocks(rows, fanouts, key, config.model.self_edge)
    sources = blocks[0].source_rows if blocks else rows
    device = next(model.parameters()).device
    features = inputs.rows(sources).to(device)
    if not blocks:
        return features
    memberships = inputs.membership_rows(sources).to(device)
    last = model.encode(Batch(blocks, features, memberships))[-1].output
    return activate(last, config.model.activation)  # encode leaves its last layer linear


def make_model(
    graph: Graph, config: ResolvedConfig, prepared: Prepared, table: str, ranks: Ranks = ALONE
) -> tuple[GraphHAMNet, list[Any]]:
    """Return the network where training begins, and its context tables."""
    tables: list[Any] = []
    if table != "inductive":
        for level, count in enumerate(config.groups):
            dim = config.layer_dims[level]
            if config.train.shards > 1:
                each = count if table == "full" else 1
                key = derive_key(config.seed, "table", level)
                made = RowShards(graph.num_nodes, each, dim, key, ranks, config.device)
                tables.append(made)
                continue
            rows = graph.num_nodes * (count if table == "full" else 1)
            generator = torch_generator(derive_key(config.seed, "table", level), config.device)
            tables.append(ContextTable.start(rows, dim, generator))
    num_classes = 0
    if config.task == "classify" and graph.labels is not None:
        num_classes = len(graph.labels.classes)
    model = GraphHAMNet(
        network_settings(config),
        prepared.inputs.num_features,
        num_classes,
        tables or None,
        table == "full",
    )
    model = model.to(config.device)
    start_parameters(model, config, prepared.inputs, graph, prepared.directions, ranks)
    if prepared.groups is not None:
        fitted = prepared.groups
        model.take_link_tables(fitted.link_tables(), fitted.map.likeness)
    return model, tables


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


def _check_same_graph(config: Mapping[str, Any], graph: Graph) -> None:
    known = config.get("graph", {}).get("fingerprint")
    if known is not None and known != graph.fingerprint():
        raise InputError(
            f"the run was started on another graph than {graph.name!r}; resume it with the same "
            f"edges and features, or start a new run"
        )
