"""The processes of one job: who they are, which nodes are theirs, and how they exchange arrays.

Everything goes through torch.distributed (gloo between processors, NCCL between CUDA devices). With
one process nothing is exchanged and the same code runs. Only arrays and JSON travel, never pickles.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphham.errors import InputError
from graphham.graph.spans import SPAN, span_bounds

# How long a process waits for the others before it takes them for dead.
_PATIENCE = timedelta(minutes=30)


class LostPeerError(InputError):
    """Another process of the job is gone or no longer answers."""


@dataclass(frozen=True)
class Ranks:
    """One process's place in a job.

    Args:
        rank: Number of this process, from 0.
        count: Number of processes.
        device: Where tensors must be to be exchanged.
        one_host: Whether all processes are on one machine and compute on its processor, so that
            they can share memory.
    """

    rank: int = 0
    count: int = 1
    device: str = "cpu"
    one_host: bool = False

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and talks to the user."""
        return self.rank == 0

    def bounds(self, total: int, span: int = SPAN) -> list[int]:
        """Return ``count + 1`` bounds that cut ``total`` rows into ranges of whole spans."""
        return span_bounds(total, self.count, span)

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
            with self.talking():
                dist.broadcast(moved, rank)
            if moved is not part and rank != self.rank:
                part.copy_(moved)

    def gather(self, values: Tensor) -> list[Tensor]:
        """Return every process's tensor of the same shape, in the order of ranks."""
        return self.gathering(values).result()

    def gathering(self, values: Tensor) -> Gathering:
        """Begin to :meth:`gather`; there is time for other things until the others have come."""
        if self.count == 1:
            return Gathering(self, None, [values], values.device)
        import torch.distributed as dist

        local = values.contiguous().to(self.device)
        parts = [torch.empty_like(local) for _ in range(self.count)]
        with self.talking():
            work = dist.all_gather(parts, local, async_op=True)
        return Gathering(self, work, parts, values.device)

    def exchange(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Send ``parts[r]`` to process r; return what each process sent to this one, in order.

        Args:
            parts: One tensor per process, of the same type and width; lengths may differ.
        """
        got, counts = self.deliver(parts)
        return list(torch.split(got, counts))

    def swap(self, parts: Sequence[Tensor]) -> Tensor:
        """Do as :meth:`exchange`, and return what came in one piece."""
        return self.deliver(parts)[0]

    def deliver(self, parts: Sequence[Tensor]) -> tuple[Tensor, list[int]]:
        """Do as :meth:`swap`, and say how much came from each process."""
        if self.count == 1:
            return parts[0], [len(parts[0])]
        import torch.distributed as dist

        device = parts[0].device
        lengths = torch.tensor([len(part) for part in parts], device=self.device)
        arriving = torch.empty_like(lengths)
        with self.talking():
            dist.all_to_all_single(arriving, lengths)
            counts = [int(n) for n in arriving]
            sent = torch.cat(list(parts)).to(self.device)
            got = sent.new_empty(sum(counts), *sent.shape[1:])
            dist.all_to_all_single(got, sent, counts, [len(part) for part in parts])
        return got.to(device), counts

    def tell(self, values: Any = None) -> Any:
        """Return to every process what the first one says; plain JSON values only."""
        return self.collect(values)[0]

    def collect(self, values: Any) -> list[Any]:
        """Return what every process says, in the order of ranks; plain JSON values only."""
        if self.count == 1:
            return [values]
        text = np.frombuffer(json.dumps(values).encode(), dtype=np.uint8)
        lengths = [int(n) for n in self.gather(torch.tensor([len(text)]))]
        padded = torch.zeros(max(lengths), dtype=torch.uint8)
        padded[: len(text)] = torch.from_numpy(text.copy())
        parts = zip(self.gather(padded), lengths, strict=True)
        return [json.loads(bytes(part[:length].numpy())) for part, length in parts]

    def share_array(self, values: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
        """Return to every process the array that the first one gives."""
        if self.count == 1:
            assert values is not None
            return values
        import torch.distributed as dist

        about = None if values is None else [list(values.shape), str(values.dtype)]
        shape, dtype = self.tell(about)
        source = np.zeros(shape, dtype) if not self.is_first else np.ascontiguousarray(values)
        moved = torch.from_numpy(source).to(self.device)
        if source.size:
            with self.talking():
                dist.broadcast(moved, 0)
        shared: npt.NDArray[Any] = moved.cpu().numpy()
        return shared

    def wait(self) -> None:
        """Return when every process has come this far."""
        self.gather(torch.zeros(1))

    @contextlib.contextmanager
    def talking(self) -> Iterator[None]:
        """Turn a broken connection into one sentence, whatever is done within."""
        try:
            yield
        except RuntimeError as error:
            raise LostPeerError(
                f"another process of this job ended or no longer answers, so process {self.rank} "
                f"of {self.count} stops as well; --resume goes on from the last checkpoint"
            ) from error


class Gathering:
    """Tensors on their way from all processes to all."""

    def __init__(self, ranks: Ranks, work: Any, parts: list[Tensor], device: torch.device) -> None:
        self._ranks, self._work, self._parts, self._device = ranks, work, parts, device

    def is_done(self) -> bool:
        """Whether all have come, so that nobody has to wait for the result."""
        return self._work is None or bool(self._work.is_completed())

    def result(self) -> list[Tensor]:
        """Wait for the others; return every process's tensor, in the order of ranks."""
        if self._work is not None:
            with self._ranks.talking():
                self._work.wait()
        return [part.to(self._device) for part in self._parts]


ALONE = Ranks()


def is_job() -> bool:
    """Whether torchrun (or ``fit --processes``) started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


@contextlib.contextmanager
def joined(device: str = "cpu") -> Iterator[Ranks]:
    """Join the job that the environment describes; alone without one.

    Args:
        device: The device of the run; CUDA devices talk through NCCL.
    """
    if not is_job():
        yield ALONE
        return
    import torch.distributed as dist

    is_cuda = device.startswith("cuda")
    try:
        dist.init_process_group("nccl" if is_cuda else "gloo", timeout=_PATIENCE)
    except (RuntimeError, ValueError) as error:
        raise LostPeerError(
            "the processes of this job did not find each other; check MASTER_ADDR and "
            "MASTER_PORT, or how torchrun was started"
        ) from error
    where = "cpu"
    if is_cuda:
        where = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
        torch.cuda.set_device(where)
    try:
        count = dist.get_world_size()
        one_host = device == "cpu" and os.environ.get("LOCAL_WORLD_SIZE") == str(count)
        yield Ranks(dist.get_rank(), count, where, one_host)
    finally:
        with contextlib.suppress(RuntimeError):
            dist.destroy_process_group()
