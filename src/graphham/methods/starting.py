"""The network where training begins: its parameters, and group vectors where nodes are."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from graphham.config.resolved import ResolvedConfig
from graphham.graph.graph import Graph
from graphham.methods.prepared import Prepared
from graphham.model.context import ContextTable
from graphham.model.inputs import NodeInputs
from graphham.model.network import GraphHAMNet, activate
from graphham.parallel.graph_access import graph_access
from graphham.parallel.ranks import ALONE, Ranks
from graphham.parallel.row_shards import RowShards
from graphham.sampling.keys import derive_key, numpy_generator, torch_generator
from graphham.training.make_network import network_settings

# Nodes from which the start of the groups is read when a sampled fit cannot look at all of them.
_SPREAD_NODES = 4096


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
