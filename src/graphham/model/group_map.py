"""From a graph's nodes to their memberships: which inputs groups look at, the start, the fit.

Groups look at the main directions of a node's own features (not averaged over neighbours: links
have their own say in the block model) and, where that describes links and features better, at the
same directions averaged over a few steps of the graph. No label is asked.
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
from graphham.kernels import SparseMatrix
from graphham.model.block_model import (
    BlockFit,
    BlockModel,
    GraphLinks,
    Links,
    Views,
    fit_block_model,
    softmax_rows,
    sum_levels,
)
from graphham.model.feature_rows import FeatureRows
from graphham.model.group_tree import group_tree
from graphham.model.inputs import averaged
from graphham.parallel.ranks import ALONE, Ranks
from graphham.sampling.keys import derive_key

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]
STEPS = 3  # steps of averaging behind the smoothed view
_OWN = 12.0  # evidence of a perfect match where only own features are looked at
_BOTH = (8.0, 8.0)  # and where the smoothed ones are looked at too
_STRUCTURE = 4.0  # positions made from links repeat what the links say


@dataclass(frozen=True, eq=False)
class GroupMap:
    """The fitted steps from scaled features and links to memberships; saved with the model.

    Args:
        basis: ``(num_features, d)`` main directions of the scaled features.
        center: ``(d,)`` mean of the smoothed unit vectors over the training nodes.
        scales: Evidence of a perfect match in each view: own features, and smoothed ones.
        model: The block model.
        known: ``(training nodes, K_1)`` finest memberships they ended with.
        graph: Fingerprint of the training graph.
    """

    basis: Floats
    center: Floats
    scales: tuple[float, ...]
    model: BlockModel
    known: Floats
    graph: str

    @property
    def groups(self) -> tuple[int, ...]:
        """Number of groups per level, fine to coarse."""
        return self.model.groups

    def views(self, features: Any, graph: Graph, ranks: Ranks = ALONE) -> Views:
        """Return what the groups look at of every node."""
        own = main_parts(features, self.basis)
        views = [unit_rows(own)]
        if len(self.scales) > 1:
            smooth = smoothed(own, graph, ranks)
            views.append(unit_rows(smooth - self.center))
        return Views.join(views, self.scales)

    def apply(
        self, features: Any, graph: Graph, known_rows: Codes, ranks: Ranks = ALONE
    ) -> torch.Tensor:
        """Return ``(num_nodes, sum of K_l)`` memberships of all levels, fine to coarse.

        Nodes of the training graph start where training left them and stay there while the graph
        is the same; others start from what their features say.

        Args:
            features: Scaled features of every node.
            graph: The nodes and their links.
            known_rows: ``(num_nodes,)`` training row of each node, -1 for new ones.
            ranks: The processes that hold the parts of a split graph.
        """
        if graph.fingerprint() == self.graph:
            return self.all_levels(self.known)
        x = self.views(features, graph, ranks).x
        start = softmax_rows(self.model.feature_evidence(x))
        is_known = known_rows >= 0
        start[is_known] = self.known[known_rows[is_known]]
        return self.all_levels(self.model.infer(x, GraphLinks(graph, ranks), start))

    def all_levels(self, finest: Floats) -> torch.Tensor:
        """Return ``(num_nodes, sum of K_l)`` memberships of every level from the finest."""
        levels = sum_levels(finest, self.model.parents)
        return torch.from_numpy(np.concatenate(levels, axis=1))

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays to save."""
        own: dict[str, npt.NDArray[Any]] = {
            "basis": self.basis,
            "center": self.center,
            "scales": np.array(self.scales, dtype=np.float32),
            "known": self.known,
            "graph": np.frombuffer(self.graph.encode(), dtype=np.uint8),
        }
        return {f"groups.{name}": a for name, a in own.items()} | self.model.state()

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> GroupMap:
        """Rebuild from saved arrays."""
        names = ("basis", "center", "scales", "known", "graph")
        basis, center, scales, known, graph = (np.asarray(state[f"groups.{n}"]) for n in names)
        return cls(
            basis,
            center,
            tuple(float(scale) for scale in scales),
            BlockModel.from_state(state),
            known,
            bytes(graph).decode(),
        )


@dataclass(frozen=True, eq=False)
class GroupInputs:
    """What every candidate start and view of a fit is made from.

    Args:
        own: ``(num_nodes, d)`` unit main directions of own features.
        smooth: ``(num_nodes, d)`` the same averaged over a few steps, centred, unit rows.
        center: ``(d,)`` what was subtracted.
        links: The links.
        is_structural: Whether the features were made from the links.
    """

    own: Floats
    smooth: Floats
    center: Floats
    links: Links
    is_structural: bool = False

    @classmethod
    def of(
        cls,
        features: Any,
        basis: Floats,
        graph: Graph,
        is_structural: bool,
        ranks: Ranks = ALONE,
    ) -> GroupInputs:
        """Look at a training graph."""
        own = main_parts(features, basis)
        smooth = smoothed(own, graph, ranks)
        center = smooth.mean(0)
        smooth = unit_rows(smooth - center)
        return cls(unit_rows(own), smooth, center, GraphLinks(graph, ranks), is_structural)

    def view_scales(self) -> list[tuple[float, ...]]:
        """Return the views worth trying, as scales of own and smoothed features."""
        if self.is_structural:
            return [(_STRUCTURE,)]
        return [(_OWN,), _BOTH]

    def join(self, scales: Sequence[float]) -> Views:
        """Return the views of given scales."""
        return Views.join([self.own, self.smooth][: len(scales)], scales)


@dataclass(frozen=True)
class Candidate:
    """A way to begin: which views are evidence, and what the first cut looks at."""

    scales: tuple[float, ...]
    starts: str
    seed: int


def fit_candidate(
    inputs: GroupInputs,
    candidate: Candidate,
    groups: Sequence[int],
    key: Any,
    **ablation: bool,
) -> BlockFit:
    """Fit one candidate from its own start."""
    points = inputs.smooth if candidate.starts == "smooth" else inputs.own
    place = derive_key(key, "start", candidate.seed, candidate.starts)
    codes, parents = group_tree(points, groups, place)
    return fit_block_model(inputs.join(candidate.scales), inputs.links, codes, parents, **ablation)


def fit_groups(
    inputs: GroupInputs,
    groups: Sequence[int],
    key: Any,
    seeds: int = 2,
    given: tuple[Codes, list[Codes]] | None = None,
    **ablation: bool,
) -> tuple[tuple[float, ...], BlockFit, list[BlockFit]]:
    """Fit the groups of a training graph: several starts and views, the best kept.

    The views are compared by what links and own features are told by the groups of every level,
    each in units of the best candidate; the starts of one view by their bound.

    Args:
        inputs: What there is to look at.
        groups: Groups per level, fine to coarse.
        key: Decides every random choice.
        seeds: Starts of each kind.
        given: A further start: finest groups, and the parents of each level but the last.
        **ablation: As of :func:`graphham.model.block_model.fit_block_model`.

    Returns:
        The views' scales and the fit that was chosen, and the fits of all candidates.
    """
    tried: list[tuple[Candidate, BlockFit]] = []
    for scales in inputs.view_scales():
        for starts in ("own", "smooth"):
            for seed in range(seeds):
                one = Candidate(scales, starts, seed)
                tried.append((one, fit_candidate(inputs, one, groups, key, **ablation)))
        if given is not None:
            fit = fit_block_model(inputs.join(scales), inputs.links, *given, **ablation)
            tried.append((Candidate(scales, "given", 0), fit))
    # Of each view and kind of start, the one with the highest bound.
    best: dict[tuple[Any, str], tuple[Candidate, BlockFit]] = {}
    for one, fit in tried:
        place = one.scales, one.starts
        if place not in best or fit.bound > best[place][1].bound:
            best[place] = one, fit
    finalists = list(best.values())
    told = np.array([_told(inputs.own, fit) for _, fit in finalists])
    score = (told / np.maximum(told.max(0), 1e-9)).sum(1)
    chosen, fit = finalists[int(score.argmax())]
    return chosen.scales, fit, [fit for _, fit in tried]


def _told(own: Floats, fit: BlockFit) -> list[float]:
    """Return per level the nats that groups tell of links, then of own features."""
    features = [_feature_gain(own, level) for level in fit.levels()]
    return [max(0.0, gain) for gain in fit.link_gain] + features


def _feature_gain(own: Floats, memberships: Floats) -> float:
    """Return n/2 sum_r ln(v0_r / v1_r): variance of each direction, and what is left of it."""
    n = len(own)
    sizes = memberships.sum(0)
    means = (memberships.T @ own) / np.maximum(sizes, 1e-9)[:, None]
    mean = own.mean(0)
    total = (own.astype(np.float64) ** 2).mean(0) - mean.astype(np.float64) ** 2
    between = (sizes[:, None] * (means - mean).astype(np.float64) ** 2).sum(0) / n
    left = np.maximum(total - between, 1e-3 * total + 1e-12)
    return float(0.5 * n * np.log((total + 1e-12) / left).sum())


def main_parts(features: Any, basis: Floats) -> Floats:
    """Return ``(num_nodes, d)`` features along the main directions."""
    weight = torch.from_numpy(basis)
    if isinstance(features, SparseMatrix):
        return FeatureRows(features).matmul(weight).numpy()
    if isinstance(features, MappedFeatures):
        return np.asarray(features.matmul(weight))
    out: Floats = (features.float() @ weight).numpy()
    return out


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
