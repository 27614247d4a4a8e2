"""A whole graph as one batch."""

from __future__ import annotations

from graphham.graph.graph import Graph
from graphham.graph.neighborhoods import Block
from graphham.model.inputs import NodeInputs
from graphham.model.network import Batch, GraphHAMNet


def full_batch(model: GraphHAMNet, inputs: NodeInputs, graph: Graph) -> Batch:
    """Return the batch in which every node attends to all its neighbours."""
    block = Block.full(graph, model.settings.self_edge)
    device = next(model.parameters()).device
    inputs = inputs.to(device)
    blocks = [block] * len(model.groups)
    return Batch(blocks, inputs.rows(None), inputs.memberships)
