"""What a lower package may call of a higher one: the package itself puts it here on import.

A fitted model offers ``explore()``, but the explorer stands on methods and is no part of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Opens the explorer of a fitted model; set by ``graphham/__init__.py``.
open_explorer: Callable[..., Any]
