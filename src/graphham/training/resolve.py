"""What a fit is going to do, settled before it starts: groups, rates, batches and memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import scipy.sparse as sp

from graphham.config.settings import RunConfig
from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.training.label_checks import link_agreement, own_features_help
from graphham.training.supervision import Truth

_GIB = 1 << 30
# Sampled steps after which quality stops growing on the graphs we tried; larger graphs pass fewer
# times over their nodes.
_SAMPLED_STEPS = 6000
# Full context tables beyond this take more memory than they are worth (A2).
_FULL_TABLE_BYTES = 256 << 20


@dataclass(frozen=True)
class Habits:
    """What a kind of fit does unless it is told otherwise.

    Dropout rates are a rate for small graphs, its fall with each tenfold of nodes, and a floor.
    """

    feature_dropout: tuple[float, float, float]
    edge_dropout: tuple[float, float, float]
    dropout: tuple[float, float, float]
    weight_decay: float
    lr: float
    epochs: int
    context_weight: float
    init: str
    class_steps: int
    guess_weight: float


_HABITS = {
    "embed": Habits(
        (0.8, 0.5, 0.2), (0.5, 0.35, 0.1), (0.5, 0.0, 0.5), 0.0, 0.01, 80, 1.0, "svd", 0, 0.0
    ),
    "classify": Habits(
        (0.7, 0.7, 0.1), (0.3, 0.35, 0.1), (0.5, 0.35, 0.1), 5e-4, 0.02, 150, 0.2, "glorot", 0, 0.0
    ),
    # Contexts teach what few labels cannot; without them and strong penalties the network learns
    # its handful of labels by heart.
    "few": Habits(
        (0.8, 0.5, 0.2), (0.3, 0.35, 0.1), (0.7, 0.3, 0.3), 5e-3, 0.01, 300, 1.0, "svd", 10, 3.0
    ),
}
# Where neighbours often differ, spreading scores and trusting contexts teaches what is wrong.
_HABITS["few, neighbours differ"] = replace(
    _HABITS["few"], context_weight=0.2, class_steps=0, guess_weight=0.0
)
# Share of equal labels among linked nodes (with its error) from which neighbours are trusted.
_AGREE = 0.6


@dataclass(frozen=True)
class Plan:
    """What a fit is going to do, decided before it starts.

    Args:
        config: Settings with nothing left open.
        memory_bytes: Estimated peak memory of training.
        table: ``inductive``, ``factored`` or ``full`` context vectors.
        notes: What was decided, in words.
    """

    config: RunConfig
    memory_bytes: int
    table: str
    notes: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return the plan as readable lines."""
        config = self.config
        assert config.groups is not None
        levels = " > ".join(str(count) for count in config.groups)
        batch = (
            "the whole graph per step"
            if config.train.batch == "full"
            else f"{config.train.batch_size} targets per step"
            + (f" in {config.train.shards} shards, " if config.train.shards > 1 else ", ")
            + "x".join(str(config.fanout(i)) for i in range(config.num_layers))
            + " sampled neighbours"
        )
        return [
            f"task {config.task}, preset {config.preset}, {config.num_layers} layers, "
            f"groups {levels}, dim {config.dim}, seed {config.seed}",
            f"{config.num_epochs} epochs, {batch}, about "
            f"{max(self.memory_bytes / _GIB, 0.1):.1f} GiB of memory",
            *self.notes,
        ]


def plan_fit(
    graph: Graph, config: RunConfig, train_rows: Any = None, validation_rows: Any = None
) -> Plan:
    """Settle everything the settings left open, and estimate memory.

    Args:
        graph: The graph.
        config: Settings.
        train_rows: Rows whose labels may be trained on, for what is decided by labels.
        validation_rows: Rows whose labels decide early stopping.

    Raises:
        InputError: The graph and the settings do not fit together.
    """
    n = graph.num_nodes
    if n < 2:
        raise InputError(f"the graph has {n} node; a hierarchy needs at least two")
    if graph.num_stored == 0:
        raise InputError("the graph has no edges between different nodes; give at least one")
    notes: list[str] = []
    if config.task == "classify" and graph.labels is None:
        raise InputError("--task classify needs labels; give --labels FILE:column")
    groups = config.groups
    if groups is None:
        groups, why = default_groups(graph, config)
        notes.append(why)
    if groups[0] > n:
        raise InputError(
            f"{groups[0]:,} groups were asked for but the graph has only {n:,} nodes; "
            f"ask for fewer with --groups"
        )
    train = config.train
    habits = _HABITS[config.task]
    residual = config.model.residual
    if config.task == "classify" and graph.labels is not None:
        share = train.validation_share
        truth = Truth.split(graph.labels, config.seed, share, train_rows, validation_rows)
        if truth.is_few:
            habits = _HABITS["few"]
            agree = link_agreement(graph, truth)
            if agree is not None and sum(agree) < _AGREE:
                habits = _HABITS["few, neighbours differ"]
                notes.append(
                    f"few nodes have labels, and only {agree[0]:.0%} of the links between them "
                    f"join equal ones: scores are not spread along links"
                )
            else:
                notes.append("few nodes have labels: more rests on contexts, and scores are spread")
        if residual is None:
            residual = own_features_help(graph, config.inputs, truth, config.seed)
            if residual:
                notes.append("own features help the validation labels: residual paths are on")
    updates = _filled(
        train,
        lr=habits.lr,
        feature_dropout=_by_size(n, *habits.feature_dropout),
        edge_dropout=_by_size(n, *habits.edge_dropout),
        dropout=_by_size(n, *habits.dropout),
        weight_decay=float(f"{habits.weight_decay * min(1.0, 2708 / n):.2g}"),
    )
    memory = estimate_memory(graph, config, groups)
    if train.batch == "full" and train.shards > 1:
        raise InputError(
            f"train.shards = {train.shards} cuts sampled batches, but train.batch is 'full'; use "
            f"train.batch = 'sampled', or one process and one shard"
        )
    if train.batch == "auto" and train.shards > 1:
        updates["batch"] = "sampled"
    elif train.batch == "auto":
        updates["batch"] = "full" if memory <= train.memory_gib * _GIB else "sampled"
    if train.epochs is None:
        steps = min(-(-n // train.batch_size), train.epoch_steps or n)
        most = habits.epochs if train.epoch_steps is None else _SAMPLED_STEPS
        sampled = min(most, max(4, -(-_SAMPLED_STEPS // steps)))
        is_sampled = updates.get("batch", train.batch) == "sampled"
        updates["epochs"] = sampled if is_sampled else habits.epochs
    table = config.loss.context_table
    if table == "auto":
        size = 4 * n * config.layer_dim * sum(groups)
        table = "inductive"
        if config.loss.context == "skipgram":
            table = "full" if size <= _FULL_TABLE_BYTES else "factored"
    if table != "inductive" and config.loss.context == "infonce":
        raise InputError(
            f"loss.context_table = {table!r} goes with loss.context = 'skipgram'; the contrastive "
            f"loss encodes its contexts"
        )
    resolved = config.model_copy(
        update={
            "groups": tuple(groups),
            "layers": len(groups),
            "train": train.model_copy(update=updates),
            "loss": config.loss.model_copy(
                update={
                    "context_table": table,
                    **_filled(
                        config.loss,
                        context_weight=habits.context_weight,
                        guess_weight=habits.guess_weight,
                    ),
                }
            ),
            "model": config.model.model_copy(
                update={
                    "residual": bool(residual),
                    **_filled(config.model, init=habits.init, class_steps=habits.class_steps),
                }
            ),
        }
    )
    if resolved.train.batch == "sampled":
        memory = estimate_memory(graph, resolved, groups)
    if graph.features is None:
        notes.append("the graph has no features; structural ones are made from its links")
    return Plan(RunConfig.model_validate(resolved.model_dump()), memory, table, tuple(notes))


def default_groups(graph: Graph, config: RunConfig) -> tuple[tuple[int, ...], str]:
    """Choose the number of groups per level, and say why.

    With ``classify`` the coarsest level gets one group per class; otherwise about the fourth root
    of the number of nodes, since labels must not shape an unsupervised result. Each finer level
    has 2.4 times as many, the paper's ratio of 12 to 5.
    """
    top = round(graph.num_nodes**0.25)
    why = f"{graph.num_nodes:,} nodes"
    if config.task == "classify" and graph.labels is not None:
        top = len(graph.labels.classes)
        why = f"{top} classes"
    top = min(max(top, 2), 64, graph.num_nodes)
    counts = [top]
    for _ in range(config.layers - 1):
        counts.append(min(round(2.4 * counts[-1]), graph.num_nodes))
    chosen = tuple(counts[::-1])
    return chosen, f"groups chosen from {why}; --groups sets them"


def estimate_memory(graph: Graph, config: RunConfig, groups: tuple[int, ...]) -> int:
    """Return the estimated peak bytes of training, constants measured on real fits."""
    n, stored = graph.num_nodes, graph.num_stored
    heads, dim = config.model.heads, config.layer_dim
    width = graph.num_features or config.inputs.structural_dim
    x: Any = graph.features
    held = 24 * int(x.nnz) if sp.issparse(x) else 12 * n * width
    held += 12 * stored + 16 * n * config.inputs.diffusion_dim
    if config.loss.context_table in ("factored", "full"):
        each = sum(groups) if config.loss.context_table == "full" else len(groups)
        held += 4 * n * dim * each
    per_node = len(groups) * (40 * heads * dim + 24 * dim) + 60 * sum(groups)
    per_edge = len(groups) * (24 * heads + 24)
    if config.train.batch == "sampled":
        reach = config.train.batch_size
        edges = 0
        for layer in range(len(groups)):
            edges += reach * config.fanout(layer)
            reach = min(n, reach * (1 + config.fanout(layer)))
        working = reach * per_node + min(edges, stored * len(groups)) * per_edge
        # The read-out at the end takes all nodes at once, without gradients.
        working = max(working, n * len(groups) * (12 * heads * dim) + stored * 24 * heads)
    else:
        working = n * per_node + (stored + n) * per_edge
    return 350 * (1 << 20) + held + working


def _filled(section: Any, **values: Any) -> dict[str, Any]:
    """Return those values whose settings were left open."""
    return {name: value for name, value in values.items() if getattr(section, name) is None}


def _by_size(nodes: int, small: float, fall: float, least: float) -> float:
    """Return a dropout rate that falls with the logarithm of the graph's size.

    Small graphs overfit their features and links; large ones only lose information. The line runs
    through what worked best on Cora (2,708 nodes) and on graphs of twenty thousand nodes.
    """
    return round(min(small, max(least, small - fall * math.log10(nodes / 2708))), 3)
