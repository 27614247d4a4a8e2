"""Every method the paper compares, and honest floors, behind one ``fit``.

The classes are loaded when first used, so importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

from graphham.methods.registry import class_modules

_HOMES = {**class_modules(), "Method": "base"}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'graphham.methods' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"graphham.methods.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
