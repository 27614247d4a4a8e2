"""The processes of one job: who they are, which nodes are theirs, and how they exchange arrays.

Everything goes through torch.distributed (gloo between processors, NCCL between CUDA devices). With
one process nothing is exchanged and the same code runs. Only arrays and JSON travel, never pickles.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

# Nodes are handed out in whole spans of this many rows, so that every span is computed by the same
# calls on the same rows, whoever computes it, and gives the same bits.
SPAN = 8192


@dataclass(frozen=True)
class Ranks:
    """One process's place in a job.

    Args:
        rank: Number of this process, from 0.
        count: Number of processes.
        device: Where tensors must be to be exchanged.
    """

    rank: int = 0
    count: int = 1
    device: str = "cpu"

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and talks to the user."""
        return self.rank == 0

    def bounds(self, total: int, span: int = SPAN) -> list[int]:
        """Return ``count + 1`` bounds that cut ``total`` rows into ranges of whole spans."""
        spans = -(-total // span)
        return [min(total, span * (spans * r // self.count)) for r in range(self.count + 1)]

    def own_range(self, total: int, span: int = SPAN) -> tuple[int, int]:
        """Return the first row of this process and one past its last."""
        bounds = self.bounds(total, span)
        return bounds[self.rank], bounds[self.rank + 1]

    def share_rows(self, values: npt.NDArray[Any], span: int = SPAN) -> None:
        """Fill in, in place, the rows of ``values`` that other processes have computed."""
        if self.count == 1:
            return
        import torch.distributed as dist

        bounds = self.bounds(len(values), span)
        for rank in range(self.count):
            low, high = bounds[rank], bounds[rank + 1]
            if low == high:
                continue
            part = torch.from_numpy(values[low:high])
            moved = part.to(self.device)
            dist.broadcast(moved, rank)
            if moved is not part and rank != self.rank:
                part.copy_(moved)

    def gather(self, values: Tensor) -> list[Tensor]:
        """Return every process's tensor of the same shape, in the order of ranks."""
        if self.count == 1:
            return [values]
        import torch.distributed as dist

        held = values.contiguous().to(self.device)
        parts = [torch.empty_like(held) for _ in range(self.count)]
        dist.all_gather(parts, held)
        return [part.to(values.device) for part in parts]

    def exchange(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Send ``parts[r]`` to process r; return what each process sent to this one, in order.

        Args:
            parts: One tensor per process, of the same type and width; lengths may differ.
        """
        if self.count == 1:
            return [parts[0]]
        import torch.distributed as dist

        device = parts[0].device
        lengths = torch.tensor([len(part) for part in parts], device=self.device)
        arriving = torch.empty_like(lengths)
        dist.all_to_all_single(arriving, lengths)
        counts = [int(n) for n in arriving]
        sent = torch.cat(list(parts)).to(self.device)
        got = sent.new_empty(sum(counts), *sent.shape[1:])
        dist.all_to_all_single(got, sent, counts, [len(part) for part in parts])
        return list(got.to(device).split(counts))

    def tell(self, values: Any = None) -> Any:
        """Return to every process what the first one says; plain JSON values only."""
        if self.count == 1:
            return values
        import torch.distributed as dist

        text = json.dumps(values).encode() if self.is_first else b""
        length = torch.tensor([len(text)], device=self.device)
        dist.broadcast(length, 0)
        held = torch.zeros(int(length), dtype=torch.uint8)
        if self.is_first:
            held = torch.from_numpy(np.frombuffer(text, dtype=np.uint8).copy())
        held = held.to(self.device)
        dist.broadcast(held, 0)
        return json.loads(bytes(held.cpu().numpy()))

    def wait(self) -> None:
        """Return when every process has come this far."""
        if self.count > 1:
            self.gather(torch.zeros(1))


ALONE = Ranks()
