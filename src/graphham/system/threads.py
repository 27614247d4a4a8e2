"""One thread for all arithmetic, so that results do not depend on how many cores a machine has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from graphham.system.peak_memory import resource

# Libraries that start threads of their own when they are loaded, or with their first product.
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_ROOM = 8 << 30


def start_few_threads() -> None:
    """Let libraries begin with one thread where the process has little room (``ulimit -v``).

    Each thread sets room aside, and OpenBLAS waits forever for one that could not be started. This
    must run before NumPy is loaded; what the user has set stays.
    """
    if resource is None:
        return
    limits = (
        resource.getrlimit(getattr(resource, name))[0] for name in ("RLIMIT_AS", "RLIMIT_DATA")
    )
    if any(limit != resource.RLIM_INFINITY and limit < _ROOM for limit in limits):
        for name in _THREADS:
            os.environ.setdefault(name, "1")


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
