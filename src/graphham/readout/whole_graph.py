"""A whole graph as one batch, and what the groups of every level look at in it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphham.graph.graph import Graph
from graphham.graph.neighborhoods import Block
from graphham.model.inputs import NodeInputs
from graphham.model.network import Batch, GraphHAMNet


def full_batch(model: GraphHAMNet, inputs: NodeInputs, graph: Graph) -> Batch:
    """Return the batch in which every node attends to all its neighbours."""
    block = Block.full(graph, model.settings.self_edge)
    device = next(model.parameters()).device
    degrees = torch.from_numpy(graph.degrees().astype(np.float32)).to(device)
    inputs = inputs.to(device)
    blocks = [block] * len(model.groups)
    return Batch(blocks, inputs.rows(None), inputs.diffused_rows(None), degrees)


def level_states(model: GraphHAMNet, batch: Batch) -> list[npt.NDArray[np.float32]]:
    """Return per level the ``(num_nodes, width)`` vectors its groups look at, noise-free.

    The running centres are set to the exact means first, so that seeds and later passes agree.
    """
    model.eval()
    out: list[npt.NDArray[np.float32]] = []
    with torch.no_grad():
        for level in range(1, len(model.groups)):
            previous = model.encode(batch)[level - 1].output
            center = torch.nn.functional.normalize(previous, dim=1).mean(0)
            model.get_buffer(f"center_{level}").copy_(center)
        for one in model.encode(batch):
            assert isinstance(one.membership_states, Tensor)
            out.append(one.membership_states.cpu().numpy())
    return out
