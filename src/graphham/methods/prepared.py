"""What is known of a training graph before there is a network: its inputs and its groups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphham.config.resolved import ResolvedConfig
from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.graph.mapped_features import MappedFeatures
from graphham.model.inputs import FeatureMap, NodeInputs, fit_inputs
from graphham.model.link_columns import LinkColumns
from graphham.parallel.graph_access import graph_access
from graphham.parallel.ranks import ALONE, Ranks
from graphham.training.run_groups import FittedGroups, fit_run_groups
from graphham.training.structure import StructureSearch


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
