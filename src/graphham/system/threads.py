"""One thread for all arithmetic, so that results do not depend on how many cores a machine has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def single_threaded() -> Iterator[None]:
    """Run torch and NumPy's matrix products on one thread; serves as a decorator too.

    A product split over several threads is summed in another order and differs in the last bits.
    """
    import torch
    from threadpoolctl import threadpool_limits

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(threads)
