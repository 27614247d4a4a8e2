"""Take away from graphham what Windows does not have: the whole suite can run like that.

``GRAPHHAM_TEST_AS_WINDOWS=1 pytest ...`` does it; other packages still get what they import.
"""

import builtins
import os
from typing import Any

import pytest

MODULES = frozenset({"resource", "fcntl"})
FUNCTIONS = ("sysconf", "pwrite", "memfd_create")
needs_locks = pytest.mark.skipif(
    bool(os.environ.get("GRAPHHAM_TEST_AS_WINDOWS")), reason="nothing here can lock a file"
)


def hide() -> None:
    """Hide modules from graphham, and functions of ``os`` from everyone."""
    usual = builtins.__import__

    def refusing(name: str, globals: Any = None, *more: Any, **named: Any) -> Any:
        importer = (globals or {}).get("__name__", "")
        if name in MODULES and importer.split(".")[0] == "graphham":
            raise ImportError(f"no module named {name!r} on this system")
        return usual(name, globals, *more, **named)

    builtins.__import__ = refusing
    for function in FUNCTIONS:
        if hasattr(os, function):
            delattr(os, function)
