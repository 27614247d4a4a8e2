"""Name every random draw: one seed and the purpose of the draw give one key, and the key the bits.

No draw uses global state, a worker number or the order in which batches happen to be made, so a run
repeats exactly on any number of workers.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch


def derive_key(seed: int | np.integer[Any], *parts: int | np.integer[Any] | str) -> np.uint64:
    """Return the 64-bit key of one purpose.

    Args:
        seed: The run's seed, or a key to derive further keys from.
        *parts: What the draw is for, such as ``"neighbors", epoch``; numbers and text differ
            (``1`` is not ``"1"``) and so does their order.
    """
    digest = hashlib.blake2b(digest_size=8)
    for part in (seed, *parts):
        if isinstance(part, str):
            text = part.encode()
            digest.update(b"s%d:" % len(text) + text)
        elif isinstance(part, int | np.integer):
            digest.update(b"i%d;" % int(part))
        else:
            raise TypeError(f"a key is made of whole numbers and text, not {type(part).__name__}")
    return np.uint64(int.from_bytes(digest.digest(), "little"))


def numpy_generator(key: int | np.integer[Any]) -> np.random.Generator:
    """Return a fresh NumPy generator that depends on the key alone."""
    return np.random.default_rng(int(key))


def torch_generator(
    key: int | np.integer[Any], device: torch.device | str = "cpu"
) -> torch.Generator:
    """Return a fresh torch generator on ``device`` that depends on the key alone."""
    import torch

    return torch.Generator(device=device).manual_seed(int(key))
