"""Floors for links that learn nothing: a sparse vector per node, compared pair by pair.

The vector is a node's features, its features averaged with its neighbours', or its list of
neighbours; the score is a dot product. ``embedding_`` holds the same vectors along their main
directions, for whoever wants dense ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphham.errors import InputError
from graphham.graph.graph import Graph
from graphham.methods.base import FitRequest, Method, Rows
from graphham.methods.parameters import keyword_settings
from graphham.methods.scaled_features import reduced, scaled_features
from graphham.methods.sparse_dots import SparseRows, smoothed_rows, unit_rows

_LINKS = frozenset({"links"})


class SparseMethod(Method):
    """A method whose score is the dot product of two sparse rows.

    Args:
        seed: Decides the main directions of ``embedding_`` to rounding.
        dim: Width of ``embedding_``.
    """

    tasks: ClassVar[frozenset[str]] = _LINKS

    def _rows(self, graph: Graph) -> Any:
        """Return the ``(num_nodes, width)`` sparse vectors."""
        raise NotImplementedError

    def _fit(self, request: FitRequest) -> None:
        self._held = SparseRows(self._rows(request.graph))
        self.embedding_ = reduced(self._held.matrix, self.dim, self.seed)

    def _score_links(self, pairs: Rows) -> npt.NDArray[np.float64]:
        return self._held.dots(pairs)

    def _state(self) -> dict[str, Any]:
        return self._held.state()

    def _restore(self, state: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> None:
        self._held = SparseRows.from_state(state)


@keyword_settings
class SmoothedFeatures(SparseMethod):
    """Cosine of features averaged over each node and its neighbours; no training at all.

    Args:
        scaling: ``auto``, ``none``, ``row``, ``tfidf`` or ``standard`` features.
        steps: How often features are averaged.
        **settings: Those of :class:`SparseMethod`.
    """

    name: ClassVar[str] = "smoothed"

    scaling: str = "auto"
    steps: int = 1

    def _candidates(self, task: str) -> list[dict[str, Any]]:
        return [{}, {"steps": 2}, {"scaling": "row"}, {"scaling": "row", "steps": 2}]

    def _rows(self, graph: Graph) -> Any:
        if self.steps < 0:
            raise InputError(f"steps must not be negative, got {self.steps}")
        return smoothed_rows(scaled_features(graph, self.scaling, self.seed), graph, self.steps)


class SmoothedDirections(SmoothedFeatures):
    """Cosine of smoothed features reduced to ``dim`` main directions.

    Args:
        **settings: Those of :class:`SmoothedFeatures`.
    """

    name: ClassVar[str] = "smoothed-svd"

    def _score_links(self, pairs: Rows) -> npt.NDArray[np.float64]:
        return Method._score_links(self, pairs)


@keyword_settings
class PlainFeatures(SmoothedFeatures):
    """Cosine of features, without the graph.

    Args:
        **settings: Those of :class:`SmoothedFeatures`, ``steps`` excepted.
    """

    name: ClassVar[str] = "features"

    steps: int = field(default=0, init=False)

    def _candidates(self, task: str) -> list[dict[str, Any]]:
        return [{}, {"scaling": "row"}, {"scaling": "none"}]

    def _rows(self, graph: Graph) -> Any:
        if graph.features is None:
            raise InputError(
                "the method features compares features but the graph has none; "
                "give features or choose common-neighbors"
            )
        return unit_rows(scaled_features(graph, self.scaling, self.seed))


class CommonNeighbors(SparseMethod):
    """Number of neighbours that two nodes share (in a directed graph: point to both).

    Args:
        **settings: Those of :class:`SparseMethod`.
    """

    name: ClassVar[str] = "common-neighbors"

    def _rows(self, graph: Graph) -> Any:
        return _neighbors(graph, np.ones(graph.num_stored, dtype=np.float32))


class AdamicAdar(SparseMethod):
    """Shared neighbours k, each counting 1 / log(degree of k) (Adamic and Adar, 2003).

    Args:
        **settings: Those of :class:`SparseMethod`.
    """

    name: ClassVar[str] = "adamic-adar"

    def _rows(self, graph: Graph) -> Any:
        return shared_neighbors(graph)


def shared_neighbors(graph: Graph) -> Any:
    """Return rows whose dot products are the Adamic-Adar scores of pairs of nodes."""
    # A shared neighbour is linked to at least these two nodes, so the logarithm is not zero; each
    # of the two rows carries the square root of its share.
    seen = np.bincount(graph.indices, minlength=graph.num_nodes)
    share = 1 / np.sqrt(np.log(np.maximum(seen, 2)))
    return _neighbors(graph, share[graph.indices].astype(np.float32))


def _neighbors(graph: Graph, values: npt.NDArray[np.float32]) -> Any:
    shape = (graph.num_nodes, graph.num_nodes)
    return sp.csr_matrix((values, graph.indices, graph.indptr), shape=shape)
