"""How likely two nodes are linked: several clues, weighed by what held-out links say.

The network's cosines are the main clue. The words two nodes share exactly, the neighbours they have
in common and how many links each has are others that no vector of moderate width keeps. A logistic
regression on links that the network never saw (the validation links) learns what each is worth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from graphham.graph.graph import Graph
from graphham.methods.link_cosines import cosines
from graphham.methods.sparse_dots import SparseRows, smoothed_rows

Rows = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]

_FEATURES = ("own", "smoothed", "twice")
_ARRAYS = ("center", "spread", "knots", "weight")
# Where the lines may bend, as shares of the held-out links below.
_BENDS = (0.05, 0.15, 0.3, 0.5, 0.7, 0.9)
_PENALTY = 0.03  # inverse; Cora holds out about two hundred links for ninety terms


@dataclass(frozen=True, eq=False)
class LinkClues:
    """What speaks for a link between two nodes of one graph.

    Args:
        features: Unit rows of the features, as they are and averaged over neighbours once and
            twice; empty for a graph without features.
        shared: Neighbours with weights whose products add up to the Adamic-Adar score.
        degrees: ``(num_nodes,)`` log(1 + degree).
    """

    features: list[SparseRows]
    shared: SparseRows
    degrees: Doubles

    @classmethod
    def of(cls, graph: Graph) -> LinkClues:
        """Collect the clues that need no training."""
        from graphham.methods.scaled_features import scaled_features
        from graphham.methods.untrained import shared_neighbors

        features: list[SparseRows] = []
        if graph.features is not None:
            x = scaled_features(graph)
            features = [
                SparseRows(smoothed_rows(x, graph, steps)) for steps in range(len(_FEATURES))
            ]
        shared = SparseRows(shared_neighbors(graph))
        return cls(features, shared, np.log1p(graph.degrees().astype(np.float64)))

    def between(self, pairs: Rows, layers: list[Any]) -> Doubles:
        """Return ``(count, clues)`` for ``(count, 2)`` pairs of rows.

        Args:
            pairs: Rows of the two nodes.
            layers: ``(num_nodes, layer_dim)`` vectors of each layer of the network.
        """
        ends = self.degrees[pairs]
        found = [cosines(vectors, pairs) for vectors in layers]
        found += [rows.dots(pairs) for rows in self.features]
        found += [np.log1p(self.shared.dots(pairs)), ends.min(1), ends.max(1)]
        return np.stack(found, axis=1)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays to save."""
        arrays: dict[str, npt.NDArray[Any]] = {"links.degrees": self.degrees}
        named = {"shared": self.shared, **dict(zip(_FEATURES, self.features, strict=False))}
        for name, rows in named.items():
            arrays |= {f"links.{name}.{key}": value for key, value in rows.state().items()}
        return arrays

    @classmethod
    def from_state(cls, state: Any) -> LinkClues:
        """Rebuild from saved arrays."""

        def rows(name: str) -> SparseRows:
            prefix = f"links.{name}."
            return SparseRows.from_state(
                {key.removeprefix(prefix): v for key, v in state.items() if key.startswith(prefix)}
            )

        features = [rows(name) for name in _FEATURES if f"links.{name}.rows.data" in state]
        return cls(features, rows("shared"), np.asarray(state["links.degrees"]))


@dataclass(frozen=True, eq=False)
class LinkWeights:
    """What the clues are worth: bent lines of each, and products of two.

    A clue need not count evenly over its range (the first shared neighbour says more than the
    tenth), and what one says may depend on another (a small cosine between two hubs).

    Args:
        center: ``(clues,)`` mean of each clue.
        spread: ``(clues,)`` deviation of each clue.
        knots: ``(bends, clues)`` values at which a clue's worth may change its slope.
        weight: ``(terms,)`` weight of each term.
    """

    center: Doubles
    spread: Doubles
    knots: Doubles
    weight: Doubles

    @classmethod
    def learn(cls, clues: Doubles, is_link: npt.NDArray[np.bool_]) -> LinkWeights:
        """Fit a logistic regression.

        Args:
            clues: ``(pairs, clues)``.
            is_link: ``(pairs,)`` which pairs are links.
        """
        from sklearn.linear_model import LogisticRegression

        spread = clues.std(0)
        knots = np.quantile(clues[is_link], _BENDS, axis=0)
        start = cls(clues.mean(0), np.where(spread > 1e-9, spread, 1.0), knots, np.empty(0))
        model = LogisticRegression(C=_PENALTY, max_iter=3000)
        model.fit(start.terms(clues), is_link)
        return cls(start.center, start.spread, knots, model.coef_[0].astype(np.float64))

    def terms(self, clues: Doubles) -> Doubles:
        """Return the ``(pairs, terms)`` that are weighed: clues, bends and products."""
        scaled = (clues - self.center) / self.spread
        bends = [np.maximum(clues - knot, 0) / self.spread for knot in self.knots]
        products = [scaled[:, [i]] * scaled[:, i:] for i in range(scaled.shape[1])]
        return np.concatenate([scaled, *bends, *products], axis=1)

    def score(self, clues: Doubles) -> Doubles:
        """Return the ``(pairs,)`` log odds up to a constant."""
        scores: Doubles = self.terms(clues) @ self.weight
        return scores

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays to save."""
        return {f"links.{name}": getattr(self, name) for name in _ARRAYS}

    @classmethod
    def from_state(cls, state: Any) -> LinkWeights:
        """Rebuild from saved arrays."""
        return cls(*(np.asarray(state[f"links.{name}"]) for name in _ARRAYS))
