"""Checkpoints of several processes: each writes its own rows, the first switches the pointer.

The run folder must be on a file system that all processes see. Rows are stored with their range, so
a job resumes on any number of processes: each reads the parts that overlap its own range.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from graphham.errors import InputError
from graphham.parallel.ranks import Ranks
from graphham.parallel.row_shards import RowShards
from graphham.training import checkpoints
from graphham.training.checkpoints import CheckpointStore


def save_together(
    run: CheckpointStore | None,
    ranks: Ranks,
    arrays: dict[str, Any],
    meta: dict[str, Any],
    tables: list[RowShards],
) -> None:
    """Write a checkpoint; every process calls this with the same state.

    Args:
        run: The run folder, on the first process.
        ranks: The processes.
        arrays: What every process holds alike; the first one writes it.
        meta: Meta data.
        tables: Context tables of which every process holds its own rows.
    """
    if not tables:
        if run is not None:
            run.save_checkpoint(arrays, meta)
        ranks.wait()
        return
    place = None
    if run is not None:
        place = [str(run.partial), checkpoints.next_number(run.partial)]
    place = ranks.tell(place)
    if place is None:
        return  # nobody keeps a run
    folder, number = Path(place[0]), int(place[1])
    own: dict[str, Any] = {}
    for level, table in enumerate(tables):
        own |= {f"table.{level}.weight": table.weight, f"table.{level}.squares": table.squares}
    part = checkpoints.write_part(folder, number, ranks.rank, own)
    part |= {"first": tables[0].first, "last": tables[0].last}
    parts = ranks.collect(part)
    if run is not None:
        run.save_checkpoint(arrays, {**meta, "parts": parts}, number)
    ranks.wait()


def load_together(
    run: CheckpointStore | None, ranks: Ranks, tables: list[RowShards]
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Read the last checkpoint on every process and fill in the own rows of the tables."""
    where = ranks.tell(None if run is None else str(run.partial))
    if where is None:
        return None
    folder = Path(where)
    checkpoint = checkpoints.load_checkpoint(folder)
    if checkpoint is None or not tables:
        return checkpoint
    for part in checkpoint[1].get("parts", []):
        low = max(int(part["first"]), tables[0].first)
        high = min(int(part["last"]), tables[0].last)
        if low >= high:
            continue
        rows = checkpoints.read_part(folder, part)
        for level, table in enumerate(tables):
            each = table.per_node
            there = slice((low - int(part["first"])) * each, (high - int(part["first"])) * each)
            here = slice((low - table.first) * each, (high - table.first) * each)
            table.weight[here] = torch.from_numpy(rows[f"table.{level}.weight"][there])
            table.squares[here] = torch.from_numpy(rows[f"table.{level}.squares"][there])
    return checkpoint


def check_shared(ranks: Ranks, folder: Path) -> None:
    """Refuse a run folder that another process does not see."""
    if not all(ranks.collect(folder.is_dir())):
        raise InputError(
            f"not every process of this job sees {folder}; put --out on a file system that all "
            f"machines share"
        )
