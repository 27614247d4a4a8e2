"""Every method the paper compares, and honest floors, behind one ``fit``.

The classes are loaded when first used, so importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "AdamicAdar": "untrained",
    "Asp2Vec": "asp2vec",
    "CommonNeighbors": "untrained",
    "DeepMinCut": "deepmincut",
    "DeepMinCutFeatures": "deepmincut",
    "DeepWalk": "deepwalk",
    "GAT": "gat",
    "GNE": "gne",
    "GraphHAMMethod": "ham",
    "GraphSAGE": "sage",
    "GraphSTONE": "graphstone",
    "HGCN": "hgcn",
    "LogisticRegression": "linear",
    "MLP": "linear",
    "Method": "base",
    "PlainFeatures": "untrained",
    "SmoothedFeatures": "untrained",
    "SmoothedRegression": "linear",
    "SpaceNE": "spacene",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'graphham.methods' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"graphham.methods.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
