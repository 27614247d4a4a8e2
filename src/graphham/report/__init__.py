"""Look at a run: figures as plain functions, and a report that is one file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphham.report.html import write_report
    from graphham.report.view import RunView

__all__ = ["RunView", "write_report"]

_HOMES = {"write_report": "graphham.report.html", "RunView": "graphham.report.view"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'graphham.report' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
