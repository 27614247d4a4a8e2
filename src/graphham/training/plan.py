"""What a fit is going to do: look at graph and labels, resolve the settings, estimate memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import scipy.sparse as sp
import torch

from graphham.config.memory import check_memory_suffices, estimate_memory
from graphham.config.resolve import explain_resolved, leaves_links_open, resolve
from graphham.config.resolved import GraphFacts, ResolvedConfig
from graphham.config.settings import RunConfig
from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.model.inputs import suitable_scaling, words_per_node
from graphham.parallel.ranks import ALONE, Ranks
from graphham.system.memory_limit import available_memory
from graphham.training.label_checks import (
    link_agreement,
    links_tell,
    neighbors_tell,
    own_features_help,
)
from graphham.training.structure import MANY_NODES, StructureSearch, search_structure
from graphham.training.supervision import Truth


@dataclass(frozen=True)
class Plan:
    """What a fit is going to do, decided before it starts.

    Args:
        config: Settings with nothing left open.
        memory_bytes: Estimated peak memory of training.
        notes: What was decided, in words.
        search: Whether the graph has groups, and how many.
    """

    config: ResolvedConfig
    memory_bytes: int
    notes: tuple[str, ...]
    search: StructureSearch

    @property
    def table(self) -> str:
        """Which context vectors are used: ``inductive``, ``factored`` or ``full``."""
        return self.config.loss.context_table

    def lines(self) -> list[str]:
        """Return the plan as readable lines."""
        config = self.config
        levels = " > ".join(str(count) for count in config.groups)
        batch = (
            "the whole graph per step"
            if config.train.batch == "full"
            else f"{config.train.batch_size} targets per step"
            + (f" in {config.train.shards} shards, " if config.train.shards > 1 else ", ")
            + "x".join(str(config.fanout(i)) for i in range(config.num_layers))
            + " sampled neighbours"
        )
        most = "at most " if config.train.settle else ""
        layers = "1 layer" if config.num_layers == 1 else f"{config.num_layers} layers"
        epochs = "1 epoch" if config.train.epochs == 1 else f"{config.train.epochs} epochs"
        return [
            f"task {config.task}, preset {config.preset}, {layers}, "
            f"groups {levels}, dim {config.dim}, seed {config.seed}",
            f"{most}{epochs}, {batch}, about "
            f"{max(self.memory_bytes / (1 << 30), 0.1):.1f} GiB of memory",
            *self.notes,
        ]


def plan_fit(
    graph: Graph,
    settings: RunConfig,
    train_rows: Any = None,
    validation_rows: Any = None,
    ranks: Ranks = ALONE,
    is_run: bool = False,
) -> Plan:
    """Settle everything the settings left open, and estimate memory.

    Args:
        graph: The graph.
        settings: What the user gave.
        train_rows: Rows whose labels may be trained on, for what is decided by labels.
        validation_rows: Rows whose labels decide early stopping.
        ranks: The processes that fit together; all of them plan.
        is_run: Whether a summary will be written, which says whether the graph has groups even
            where their number was given.

    Raises:
        InputError: The graph and the settings do not fit together, or not into memory.
    """
    if graph.num_nodes < 2:
        raise InputError(f"the graph has {graph.num_nodes} node; a hierarchy needs at least two")
    if graph.num_stored == 0:
        raise InputError("the graph has no edges between different nodes; give at least one")
    facts = graph_facts(graph, settings, train_rows, validation_rows, ranks)
    # Before the search, which is work already, and after it, with the groups that it found.
    facts = replace(facts, free_memory=_free_memory(settings.device, ranks))
    check_memory_suffices(resolve(settings, facts), facts)
    is_open = settings.groups is None or graph.num_nodes > MANY_NODES
    if (is_open and settings.task == "embed") or is_run or settings.groups_from == "graph":
        search = search_structure(graph, settings)
    else:
        search = StructureSearch(None, "the number of groups was given")
    # Machines may round differently; the first process's answer is everybody's.
    found = ranks.tell(search.groups(settings.layers))
    facts = replace(facts, found_groups=None if found is None else tuple(found))
    config = resolve(settings, facts)
    check_memory_suffices(config, facts)
    notes = explain_resolved(settings, facts)
    notes = notes if search.found is None else (*notes, search.sentence())
    return Plan(config, estimate_memory(config, facts), notes, search)


def graph_facts(
    graph: Graph, settings: RunConfig, train_rows: Any, validation_rows: Any, ranks: Ranks
) -> GraphFacts:
    """Measure what :func:`graphham.config.resolve.resolve` has to know.

    What takes time is measured only where an open setting depends on it. Labels are looked at only
    with ``task = "classify"``; they must not shape an unsupervised result.
    """
    x: Any = graph.features
    measured: dict[str, Any] = {}
    if settings.inputs.scaling == "auto":
        found = suitable_scaling(graph)
        if graph.part is not None and found == "tfidf":
            found = "row"  # how rare a word is in the whole graph, no part knows
        # The parts of a split graph may differ; the first process decides for all.
        measured["scaling"] = ranks.tell(found)
    if x is not None:
        measured["words_per_node"] = ranks.tell(words_per_node(graph))
    if settings.task == "classify" and graph.labels is not None:
        share = settings.train.validation_share
        truth = Truth.split(graph.labels, settings.seed, share, train_rows, validation_rows)
        measured["num_classes"] = len(graph.labels.classes)
        measured["has_few_labels"] = truth.is_few
        measured["is_multi"] = truth.is_multi
        marks = truth.targets[truth.training] if truth.is_multi else truth.training
        measured["labels_per_class"] = float(marks.sum()) / max(measured["num_classes"], 1)
        # The parts of a split graph may differ here too.
        agreement = ranks.tell(link_agreement(graph, truth))
        if agreement is not None:
            measured["agreement"], measured["agreement_error"] = agreement
        if settings.model.residual is None:
            measured["own_features_help"] = own_features_help(
                graph, settings.inputs, truth, settings.seed
            )
        if settings.inputs.link_rows is None and settings.model.membership_input == "block":
            measured["neighbors_tell"] = neighbors_tell(
                graph, settings.inputs, truth, settings.seed
            )
        # Where links are inputs they tell.
        has_rows = settings.inputs.link_rows or measured.get("neighbors_tell")
        if leaves_links_open(settings) and not has_rows:
            told = links_tell(graph, settings.inputs, truth, settings.seed)
            measured["links_tell"] = ranks.tell(told)
    return GraphFacts(
        num_nodes=graph.num_nodes,
        num_stored=graph.num_stored,
        num_features=graph.num_features,
        num_feature_values=int(x.nnz) if sp.issparse(x) else 0,
        is_sparse=sp.issparse(x),
        is_directed=graph.directed,
        **measured,
    )


def _free_memory(device: str, ranks: Ranks) -> int | None:
    """Return the bytes that the process with the least room can still take."""
    rooms = [available_memory()]
    if device.startswith("cuda"):
        rooms.append(int(torch.cuda.mem_get_info(device)[0]))
    known = [room for rooms in ranks.collect(rooms) for room in rooms if room is not None]
    return min(known) if known else None
