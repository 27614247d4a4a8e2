"""How much memory training takes, estimated before it starts."""

from __future__ import annotations

from graphham.config.resolved import GraphFacts, ResolvedConfig
from graphham.config.settings import TrainConfig
from graphham.errors import InputError

_GIB = 1 << 30
# What Python, torch and the compiled kernels take before a graph is there.
_PROGRAM_BYTES = 350 << 20
# What libraries and compiled loops still take once a graph is there; with less the linear algebra
# library ends or hangs the process without a word.
_LIBRARY_BYTES = 256 << 20
# What is reckoned with where the system does not say.
_USUAL_ROOM = 8 * _GIB
# The estimate is made to be enough, not to be met: fits take a third of its working memory at least
# (measured from 20,000 nodes to 2.4 million).
_LEAST_WORKING_SHARE = 0.25


def estimate_memory(config: ResolvedConfig, facts: GraphFacts) -> int:
    """Return the estimated peak bytes of training, constants measured on real fits.

    Args:
        config: Resolved settings.
        facts: The size of the graph.
    """
    n, stored, groups = facts.num_nodes, facts.num_stored, config.groups
    heads, dim = config.model.heads, config.layer_dims[0]
    width = facts.num_features or config.inputs.structural_dim
    data = 24 * facts.num_feature_values if facts.is_sparse else 12 * n * width
    if config.inputs.link_rows:
        sides = 2 if facts.is_directed else 1
        data += 24 * sides * stored + (0 if facts.is_sparse else 24 * n * width)
        # Weights, gradients and both of Adam's moments of every column.
        data += 16 * n * sides * heads * dim * (2 if config.model.residual else 1)
    kept = config.inputs.group_dim + sum(groups) + config.likeness_dim(n, not facts.num_features)
    data += 12 * stored + 12 * n * kept
    if config.loss.context_table != "inductive":
        each = sum(groups) if config.loss.context_table == "full" else len(groups)
        data += 4 * n * dim * each
    per_node, per_edge = _step_bytes(config)
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
        working = _whole_graph_bytes(config, facts)
    return _PROGRAM_BYTES + data + working


def _step_bytes(config: ResolvedConfig) -> tuple[int, int]:
    """Return what a training step takes per node and per edge it looks at."""
    groups, heads, dim = config.groups, config.model.heads, config.layer_dims[0]
    per_node = len(groups) * (40 * heads * dim + 24 * dim) + 60 * sum(groups)
    return per_node, len(groups) * (24 * heads + 24)


def _whole_graph_bytes(config: ResolvedConfig, facts: GraphFacts) -> int:
    """Return what a training step over the whole graph takes."""
    per_node, per_edge = _step_bytes(config)
    return facts.num_nodes * per_node + (facts.num_stored + facts.num_nodes) * per_edge


def memory_room(train: TrainConfig, facts: GraphFacts) -> int:
    """Return the peak bytes that training may be estimated at: as the user said, or what is free.

    Args:
        train: What the user said.
        facts: What is free besides what the program has taken already.
    """
    if train.memory_gib:
        return int(train.memory_gib * _GIB)
    return _USUAL_ROOM if facts.free_memory is None else facts.free_memory + _PROGRAM_BYTES


def least_memory(config: ResolvedConfig, facts: GraphFacts) -> int:
    """Return the bytes without which a fit cannot end, besides the program and the graph.

    Args:
        config: Resolved settings.
        facts: The size of the graph.
    """
    n, total = facts.num_nodes, sum(config.groups)
    # Vectors, what groups look at and memberships, once each, and context tables.
    kept = config.dim + config.inputs.group_dim + total
    kept += config.likeness_dim(n, not facts.num_features)
    data = _LIBRARY_BYTES + 4 * n * kept
    if config.loss.context_table != "inductive":
        each = total if config.loss.context_table == "full" else len(config.groups)
        # Processes that train together share the rows out; there are at most as many as shards.
        data += 4 * n * config.layer_dims[0] * each // config.train.shards
    if config.train.batch == "full":
        data += int(_LEAST_WORKING_SHARE * _whole_graph_bytes(config, facts))
    return data


def check_memory_suffices(config: ResolvedConfig, facts: GraphFacts) -> None:
    """Refuse a fit that cannot fit into what is free, unless the user said what there is.

    Raises:
        InputError: It cannot.
    """
    needed, free = least_memory(config, facts), facts.free_memory
    if free is None or config.train.memory_gib or needed <= free:
        return
    what = "whole-graph steps" if config.train.batch == "full" else "sampled steps"
    advice = "--set train.batch=sampled, " if config.train.batch == "full" else ""
    raise InputError(
        f"{facts.num_nodes:,} nodes with {what}, dim {config.dim} and {sum(config.groups):,} "
        f"groups need at least {needed:,} bytes ({needed / _GIB:.2f} GiB) of memory and {free:,} "
        f"({free / _GIB:.2f} GiB) are free; use {advice}a smaller --dim, fewer --groups or a "
        f"larger machine, or --set train.memory_gib to try all the same"
    )
