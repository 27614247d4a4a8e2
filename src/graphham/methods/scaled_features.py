"""Scaled features for the baselines: the same steps as GraphHAM's own inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from torch import Tensor

from graphham.config.settings import InputConfig
from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.kernels import SparseMatrix
from graphham.model.inputs import FeatureMap, NodeInputs, fit_inputs
from graphham.model.spectral import main_directions
from graphham.sampling.keys import derive_key

_SCALINGS = ("auto", "none", "row", "tfidf", "standard")


def fit_features(
    graph: Graph, scaling: str = "auto", structural_dim: int = 128, seed: int = 0
) -> tuple[FeatureMap, NodeInputs]:
    """Find how to scale a graph's features, and scale them.

    Args:
        graph: The training graph; structural features are made for one without any.
        scaling: As ``inputs.scaling`` of GraphHAM.
        structural_dim: Width of structural features.
        seed: The run's seed.
    """
    if graph.features is None and not graph.num_stored:
        raise InputError("the graph has neither features nor edges; give one of them")
    if scaling not in _SCALINGS:
        raise InputError(f"scaling must be one of {', '.join(_SCALINGS)}, got {scaling!r}")
    config = InputConfig.model_validate({"scaling": scaling, "structural_dim": structural_dim})
    fitted, inputs, _ = fit_inputs(graph, config, seed)
    return fitted, inputs


def as_matrix(inputs: NodeInputs) -> Any:
    """Return ``(num_nodes, num_features)`` inputs as a SciPy CSR matrix or a dense array."""
    x = inputs.features
    if isinstance(x, SparseMatrix):
        return sp.csr_matrix((x.values, x.indices, x.indptr), shape=x.shape)
    return (x if isinstance(x, Tensor) else x.to_tensor()).numpy()


def scaled_features(graph: Graph, scaling: str = "auto", seed: int = 0) -> Any:
    """Return a graph's scaled features as a SciPy CSR matrix or a dense array."""
    return as_matrix(fit_features(graph, scaling, seed=seed)[1])


def reduced(x: Any, dim: int, seed: int) -> Any:
    """Return ``x`` along its ``dim`` main directions, float32, zero-padded to ``dim`` columns."""
    directions = main_directions(x, dim, derive_key(seed, "reduce"))[:, :dim]
    found = np.asarray(x @ directions, dtype=np.float32)
    out = np.zeros((found.shape[0], dim), dtype=np.float32)
    out[:, : found.shape[1]] = found
    return out
