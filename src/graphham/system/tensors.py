"""Between tensors and the arrays that compiled loops read: views, new ones, and who runs what."""

from __future__ import annotations

import os

import numpy as np
import torch
from torch import Tensor

from graphham.system.jit import Array, frozen


def runs_reference(*tensors: Tensor) -> bool:
    """Say whether the plain torch versions serve these tensors."""
    if os.environ.get("GRAPHHAM_OPS") == "reference":
        return True
    return any(t.device.type != "cpu" or t.dtype != torch.float32 for t in tensors)


def readable(tensor: Tensor) -> Array:
    """Return a contiguous read-only array of a CPU tensor, shared where it can be."""
    return frozen(tensor.detach().numpy())


def new_tensor(*shape: int) -> Tensor:
    """Return an uninitialised float32 CPU tensor, whatever torch's defaults are set to."""
    return torch.empty(shape, dtype=torch.float32, device="cpu")


def empty_table(rows: int, width: int, device: torch.device | str = "cpu") -> Tensor:
    """Return an uninitialised ``(rows, width)`` float32 table."""
    if torch.device(device).type == "cpu":
        # Numpy asks the system for large pages, without which most look-ups wait twice.
        return torch.from_numpy(np.empty((rows, width), dtype=np.float32))
    return torch.empty(rows, width, device=device)
