"""What a step of several processes sends, by arithmetic from the settings."""

from __future__ import annotations

from dataclasses import dataclass

from graphham.model.network import GraphHAMNet
from graphham.training.step import PARTS


@dataclass(frozen=True)
class Traffic:
    """Bytes one process receives per step.

    Args:
        gradients: Rows of dense gradients, running means and loss parts of the other processes.
        tables: Context vectors fetched and gradients of own rows, for tables with free vectors.
    """

    gradients: int
    tables: int


def step_traffic(
    model: GraphHAMNet,
    shards: int,
    processes: int,
    context_rows: int = 0,
    pairs: int = 0,
    anchors: int = 0,
) -> Traffic:
    """Return what a step sends to one process.

    Args:
        model: The network.
        shards: ``train.shards``.
        processes: Number of processes.
        context_rows: Distinct context nodes of one shard and level; 0 without tables.
        pairs: Pairs of a target and a context of one shard and level.
        anchors: Targets of one shard.
    """
    dense = sum(p.numel() for p in model.parameters() if p.requires_grad)
    own = -(-shards // processes)
    others = processes - 1
    width = model.settings.layer_dims[0]
    away = others / processes
    # Vectors come for the row numbers (8 bytes) of those this process is asked for. Gradients come
    # as pairs of 16 bytes with the targets of all shards.
    fetched = away * context_rows * own * (4 * width + 8)
    told = away * pairs * own * 16 + others * own * anchors * 4 * width
    tables = int((fetched + told) * len(model.groups))
    return Traffic(4 * (dense + PARTS) * own * others, tables)
