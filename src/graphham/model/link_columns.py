"""What links add to a node's own inputs: who its neighbours are, and what points at it.

A layer averages over the links that leave a node. Two things are lost by that. Where links have a
direction, nobody hears of those that arrive; their sources' mean features are columns of their own.
And an average of features does not say *who* the neighbours are, which on some graphs is what
matters: a node's links can be columns too, one per training node. The first layer's weights of
these columns are vectors Q_j, and a node reads the sum of its neighbours' (a regression on rows of
the adjacency matrix, of the layer's rank); links that leave and that arrive have their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from graphham.graph.graph import Graph
from graphham.kernels import SparseMatrix

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class LinkColumns:
    """The fitted steps from links to further input columns; saved with the model.

    Args:
        basis: ``(num_features, d)`` main directions along which arriving features are averaged; no
            columns where links have no direction.
        scale: What the averages are multiplied with.
        links: ``(1 or 2, training nodes)`` what a link to each training node, and one from it,
            counts; no rows where nobody asks who the neighbours are.
    """

    basis: Floats
    scale: float
    links: Floats

    @classmethod
    def fit(cls, graph: Graph, features: Any, basis: Floats, has_rows: bool) -> LinkColumns:
        """Look at a training graph.

        Args:
            graph: The graph, whole.
            features: Its scaled features.
            basis: ``(num_features, d)`` their main directions.
            has_rows: Whether links become columns.
        """
        scale = 1.0
        basis = basis if graph.directed else basis[:, :0]
        if graph.directed:
            arrived = _arriving(graph) @ _parts(features, basis)
            # Unit rows on average, as own features have.
            scale = 1 / max(float(np.sqrt(np.square(arrived).sum(1).mean())), 1e-12)
        links = np.zeros((0, graph.num_nodes), dtype=np.float32)
        if has_rows:
            links = np.stack([_worth(each) for each in _relations(graph)])
        return cls(np.ascontiguousarray(basis), scale, links)

    @classmethod
    def none(cls, num_features: int = 0) -> LinkColumns:
        """Return steps that add nothing."""
        empty = np.zeros((num_features, 0), dtype=np.float32)
        return cls(empty, 1.0, np.zeros((0, 0), dtype=np.float32))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is added."""
        return not self.basis.shape[1] and not len(self.links)

    def join(
        self, features: Any, graph: Graph, known_rows: npt.NDArray[np.int64] | None = None
    ) -> SparseMatrix | Tensor:
        """Return features with the columns of links behind them.

        Args:
            features: Scaled features of every node.
            graph: The nodes and their links.
            known_rows: ``(num_nodes,)`` training row of each node, -1 for new ones, whose links
                nobody has learned to read; the training graph itself when not given.
        """
        parts: list[Any] = [_plain(features)]
        if self.basis.shape[1]:
            arrived = _arriving(graph) @ _parts(features, self.basis)
            parts.append((arrived * np.float32(self.scale)).astype(np.float32))
        if len(self.links):
            parts += self._rows(graph, known_rows)
        if not any(sp.issparse(part) for part in parts):
            return torch.from_numpy(np.concatenate(parts, axis=1))
        return SparseMatrix.from_scipy(sp.hstack(parts, format="csr", dtype=np.float32))

    def _rows(self, graph: Graph, known_rows: npt.NDArray[np.int64] | None) -> list[Any]:
        """Return per relation ``(num_nodes, training nodes)`` a node's links."""
        found: list[Any] = []
        for worth, relation in zip(self.links, _relations(graph), strict=True):
            rows = relation
            if known_rows is not None:
                known = np.flatnonzero(known_rows >= 0)
                ends = (np.ones(len(known), dtype=np.float32), (known, known_rows[known]))
                rows = relation @ sp.csr_matrix(ends, shape=(graph.num_nodes, len(worth)))
            found.append(rows @ sp.diags(worth))
        return found

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays to save."""
        return {
            "links.basis": self.basis,
            "links.scale": np.array([self.scale], dtype=np.float32),
            "links.worth": self.links,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> LinkColumns:
        """Rebuild from saved arrays; runs from before there were any add nothing."""
        if "links.worth" not in state:
            return cls.none()
        names = ("basis", "scale", "worth")
        basis, scale, worth = (np.asarray(state[f"links.{name}"]) for name in names)
        return cls(basis, float(scale[0]), worth)


def link_rows(graph: Graph) -> sp.csr_matrix:
    """Return ``(num_nodes, 1 or 2 times num_nodes)`` every node's links, rare ends counting more.

    Of a directed graph those that leave come first, then those that arrive.
    """
    parts = [each @ sp.diags(_worth(each)) for each in _relations(graph)]
    return sp.csr_matrix(sp.hstack(parts, format="csr", dtype=np.float32))


def _relations(graph: Graph) -> list[sp.csr_matrix]:
    """Return the links that leave every node and, with directions, those that arrive."""
    leaving = graph.adjacency().astype(np.float32)
    if graph.weights is not None and leaving.nnz:
        leaving = leaving / np.float32(leaving.data.mean(dtype=np.float64))
    leaving = sp.csr_matrix(leaving)
    return [leaving, sp.csr_matrix(leaving.T)] if graph.directed else [leaving]


def _arriving(graph: Graph) -> sp.csr_matrix:
    """Return the ``(num_nodes, num_nodes)`` mean over the nodes whose links arrive."""
    arriving = _relations(graph)[1]
    total = np.asarray(arriving.sum(1)).ravel()
    return sp.csr_matrix(sp.diags(1 / np.where(total > 0, total, 1.0)) @ arriving)


def _worth(relation: sp.csr_matrix) -> Floats:
    """Return ``(num_nodes,)`` what a link to each node counts, as rare words count more.

    Rows have unit length on average; how many links a node has stays visible.
    """
    count = relation.shape[0]
    reached = np.bincount(relation.indices, minlength=count)
    rarity = np.log((1 + count) / (1 + reached)) + 1
    squares = np.square(relation.data * rarity[relation.indices]).sum(dtype=np.float64)
    mean = squares / max(int((np.diff(relation.indptr) > 0).sum()), 1)
    worth: Floats = (rarity / max(mean**0.5, 1e-12)).astype(np.float32)
    return worth


def _plain(features: Any) -> Any:
    if isinstance(features, SparseMatrix):
        entries = (features.values, features.indices, features.indptr)
        return sp.csr_matrix(entries, shape=features.shape)
    return features.numpy()


def _parts(features: Any, basis: Floats) -> Floats:
    """Return ``(num_nodes, d)`` features along given directions."""
    along: Floats = np.asarray(_plain(features) @ basis, dtype=np.float32)
    return along
