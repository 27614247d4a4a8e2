"""GraphHAM: node embeddings with a nested hierarchy of latent groups.

The public names are loaded when first used, so importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from graphham.system import hooks
from graphham.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from graphham.datasets import load_dataset
    from graphham.datasets.open_source import as_graph
    from graphham.errors import InputError
    from graphham.estimator import GraphHAM, load, open_explorer
    from graphham.graph.graph import Graph
    from graphham.graph.planted import planted_hierarchy
    from graphham.io import read_graph
    from graphham.model.attention import MembershipAttention
    from graphham.results.neighbor_index import NeighborIndex
    from graphham.results.run_folder import Run

__all__ = [
    "Graph",
    "GraphHAM",
    "InputError",
    "MembershipAttention",
    "NeighborIndex",
    "Run",
    "__version__",
    "as_graph",
    "load",
    "load_dataset",
    "open_explorer",
    "open_run",
    "planted_hierarchy",
    "read_graph",
]

_HOMES = {
    "Graph": "graphham.graph.graph",
    "GraphHAM": "graphham.estimator",
    "load": "graphham.estimator",
    "open_explorer": "graphham.estimator",
    "InputError": "graphham.errors",
    "MembershipAttention": "graphham.model.attention",
    "NeighborIndex": "graphham.results.neighbor_index",
    "Run": "graphham.results.run_folder",
    "as_graph": "graphham.datasets.open_source",
    "load_dataset": "graphham.datasets",
    "planted_hierarchy": "graphham.graph.planted",
    "read_graph": "graphham.io",
}


def open_run(path: str | Path) -> Run:
    """Open a run folder to read its tables; nothing large is loaded until asked for."""
    from graphham.results.run_folder import Run

    return Run.open(path)


def _open_explorer(*arguments: Any) -> Any:
    from graphham.estimator import open_explorer

    return open_explorer(*arguments)


hooks.open_explorer = _open_explorer


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'graphham' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value  # the next access does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
