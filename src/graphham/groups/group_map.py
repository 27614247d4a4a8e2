"""From a graph's nodes to their memberships: which inputs groups look at, the start, the fit.

Groups look at the main directions of a node's own features, not averaged over neighbours: links
have their own say in the block model, and averages would count them twice and hide that neighbours
differ. Averages over a few steps of the graph only serve as one of the places to start from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from graphham.graph.graph import Graph
from graphham.graph.mapped_features import MappedFeatures
from graphham.groups.block_model import (
    BlockFit,
    BlockModel,
    GraphLinks,
    Links,
    fit_block_model,
    softmax_rows,
    sum_levels,
)
from graphham.groups.group_tree import group_tree
from graphham.kernels import SparseMatrix
from graphham.model.feature_rows import FeatureRows
from graphham.model.inputs import averaged
from graphham.parallel.ranks import ALONE, Ranks
from graphham.sampling.keys import derive_key

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]
STEPS = 3  # steps of averaging behind the smoothed features
_OWN = 12.0  # evidence of a perfect match
_STRUCTURE = 4.0  # and of positions that were made from links, which repeat what links say


@dataclass(frozen=True, eq=False)
class GroupMap:
    """The fitted steps from scaled features and links to memberships; saved with the model.

    Args:
        basis: ``(num_features, d)`` main directions of the scaled features.
        scale: Evidence of a perfect match of a node and a group.
        model: The block model.
        known: ``(training nodes, K_1)`` finest memberships they ended with.
        graph: Fingerprint of the training graph.
        likeness: By how much the log odds of a link rise with the cosine of both ends' features,
            beyond what their groups say, and the mean cosine of links; ``None`` where group
            attention does not look at features.
    """

    basis: Floats
    scale: float
    model: BlockModel
    known: Floats
    graph: str
    likeness: tuple[float, float] | None = None

    @property
    def groups(self) -> tuple[int, ...]:
        """Number of groups per level, fine to coarse."""
        return self.model.groups

    def evidence(self, features: Any) -> Floats:
        """Return ``(num_nodes, K_1)`` what own features say of the finest groups."""
        own = unit_rows(main_parts(features, self.basis)) * np.float32(self.scale**0.5)
        return self.model.feature_evidence(own)

    def apply(
        self, features: Any, graph: Graph, known_rows: Codes, ranks: Ranks = ALONE
    ) -> torch.Tensor:
        """Return :meth:`rows` of all nodes: memberships, and behind them what likeness reads.

        Nodes of the training graph start where training left them and stay there while the graph
        is the same; others start from what their features say.

        Args:
            features: Scaled features of every node.
            graph: The nodes and their links.
            known_rows: ``(num_nodes,)`` training row of each node, -1 for new ones.
            ranks: The processes that hold the parts of a split graph.
        """
        if self._is_training_graph(graph, known_rows):
            return self.rows(self.known[known_rows], features)
        own = self.evidence(features)
        start = softmax_rows(own.copy())
        is_known = known_rows >= 0
        start[is_known] = self.known[known_rows[is_known]]
        return self.rows(self.model.infer(own, GraphLinks(graph, ranks), start), features)

    def _is_training_graph(self, graph: Graph, known_rows: Codes) -> bool:
        """Whether these are the training nodes and links, be it in another order."""
        if len(known_rows) != len(self.known) or (known_rows < 0).any():
            return False
        if np.array_equal(known_rows, np.arange(len(known_rows))):
            return graph.fingerprint() == self.graph
        return graph.permuted(np.argsort(known_rows)).fingerprint() == self.graph

    def rows(self, finest: Floats, features: Any) -> torch.Tensor:
        """Return what layers read of the groups.

        Args:
            finest: ``(num_nodes, K_1)`` memberships.
            features: Scaled features of the same nodes.

        Returns:
            ``(num_nodes, sum of K_l + d)`` memberships of every level, fine to coarse, then the
            unit main directions of own features; d is 0 without likeness.
        """
        levels = self.all_levels(finest)
        if self.likeness is None:
            return levels
        x = unit_rows(main_parts(features, self.basis))
        return torch.cat([levels, torch.from_numpy(x)], dim=1)

    def all_levels(self, finest: Floats) -> torch.Tensor:
        """Return ``(num_nodes, sum of K_l)`` memberships of every level from the finest."""
        levels = sum_levels(finest, self.model.parents)
        return torch.from_numpy(np.concatenate(levels, axis=1))

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays to save."""
        own: dict[str, npt.NDArray[Any]] = {
            "basis": self.basis,
            "scale": np.array([self.scale], dtype=np.float32),
            "known": self.known,
            "graph": np.frombuffer(self.graph.encode(), dtype=np.uint8).copy(),
        }
        if self.likeness is not None:
            own["likeness"] = np.array(self.likeness, dtype=np.float32)
        return {f"groups.{name}": a for name, a in own.items()} | self.model.state()

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> GroupMap:
        """Rebuild from saved arrays."""
        names = ("basis", "scale", "known", "graph")
        basis, scale, known, graph = (np.asarray(state[f"groups.{name}"]) for name in names)
        model = BlockModel.from_state(state)
        like = state.get("groups.likeness")
        likeness = None if like is None else (float(like[0]), float(like[1]))
        return cls(basis, float(scale[0]), model, known, bytes(graph).decode(), likeness)


@dataclass(frozen=True, eq=False)
class GroupInputs:
    """What every fit of a training graph's groups is made from.

    Args:
        own: ``(num_nodes, d)`` unit main directions of own features.
        smooth: ``(num_nodes, d)`` the same averaged over a few steps, centred, unit rows.
        links: The links.
        scale: Evidence of a perfect match of a node and a group.
    """

    own: Floats
    smooth: Floats
    links: Links
    scale: float

    @classmethod
    def of(
        cls,
        features: Any,
        basis: Floats,
        graph: Graph,
        is_structural: bool,
        ranks: Ranks = ALONE,
    ) -> GroupInputs:
        """Look at a training graph.

        Args:
            features: Scaled features of every node.
            basis: ``(num_features, d)`` their main directions.
            graph: The graph.
            is_structural: Whether the features were made from the links.
            ranks: The processes that hold the parts of a split graph.
        """
        own = main_parts(features, basis)
        smooth = smoothed(own, graph, ranks)
        smooth = unit_rows(smooth - smooth.mean(0))
        scale = _STRUCTURE if is_structural else _OWN
        return cls(unit_rows(own), smooth, GraphLinks(graph, ranks), scale)

    def fit(self, codes: Codes, parents: Sequence[Codes], **ablation: bool) -> BlockFit:
        """Fit the block model from given groups."""
        return fit_block_model(self.own, self.scale, self.links, codes, parents, **ablation)


def fit_from(
    inputs: GroupInputs, groups: Sequence[int], key: Any, seeds: int, **ablation: bool
) -> list[BlockFit]:
    """Fit from nested k-means on own and on smoothed features, several times each."""
    fits: list[BlockFit] = []
    for starts, points in (("own", inputs.own), ("smooth", inputs.smooth)):
        for seed in range(seeds):
            codes, parents = group_tree(points, groups, derive_key(key, "start", starts, seed))
            fits.append(inputs.fit(codes, parents, **ablation))
    return fits


def main_parts(features: Any, basis: Floats) -> Floats:
    """Return ``(num_nodes, d)`` features along the main directions."""
    weight = torch.from_numpy(over_columns(basis, features.shape[1]))
    if isinstance(features, SparseMatrix):
        return FeatureRows(features).matmul(weight).numpy()
    if isinstance(features, MappedFeatures):
        return np.asarray(features.matmul(weight))
    out: Floats = (features.float() @ weight).numpy()
    return out


def over_columns(basis: Floats, width: int) -> Floats:
    """Return directions of own features as directions of all inputs; those of links are behind."""
    more = width - len(basis)
    return basis if not more else np.pad(basis, ((0, more), (0, 0)))


def smoothed(x: Floats, graph: Graph, ranks: Ranks = ALONE) -> Floats:
    """Return unit rows averaged over a few steps of a node and its neighbours."""
    out = torch.from_numpy(x)
    for _ in range(STEPS):
        out = averaged(out, graph, ranks)
    return unit_rows(out.numpy())


def unit_rows(x: Floats) -> Floats:
    """Return rows of length 1; zero rows stay zero."""
    lengths = np.linalg.norm(x, axis=1, keepdims=True)
    out: Floats = (x / np.maximum(lengths, 1e-12)).astype(np.float32)
    return out
