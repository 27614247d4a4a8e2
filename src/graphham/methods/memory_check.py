"""Say what a fit will need before it starts, and refuse what cannot fit."""

from __future__ import annotations

from graphham.errors import InputError
from graphham.system.memory_limit import available_memory

_GIB = 1 << 30


def check_memory(method: str, needed: int, limit_gib: float | None, advice: str) -> None:
    """Refuse a fit whose arrays would not fit into memory.

    Args:
        method: Name of the method.
        needed: Estimated bytes of all arrays alive at once.
        limit_gib: The user's limit; what the machine has free when ``None``.
        advice: What to change, such as ``"lower dim"``.

    Raises:
        InputError: The estimate is above the limit.
    """
    if limit_gib is not None and not limit_gib > 0:
        raise InputError(
            f"memory_gib must be above 0, got {limit_gib!r}; leave it out for no limit"
        )
    free = available_memory() if limit_gib is None else limit_gib * _GIB
    if free is not None and needed > free:
        raise InputError(
            f"the method {method} would need about {needed / _GIB:.2f} GiB of memory here but "
            f"{free / _GIB:.2f} GiB are {'free' if limit_gib is None else 'allowed'}; {advice}"
        )
