"""The groups of a run: a block model fitted to the training graph before the network is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from graphham.config.resolved import ResolvedConfig
from graphham.graph.graph import Graph
from graphham.model.block_model import BlockFit
from graphham.model.group_map import GroupInputs, GroupMap, fit_from
from graphham.model.group_tree import trees_above
from graphham.model.inputs import NodeInputs
from graphham.parallel.ranks import ALONE, Ranks
from graphham.sampling.keys import derive_key
from graphham.training.structure import MANY_NODES, StructureSearch

Floats = npt.NDArray[np.float32]
# Finest groups beyond which no tree is joined anew: it takes their cube.
_MOST_JOINED = 512
# Beyond so many nodes one start of each kind must do: the groups hardly depend on it any more.
_FEW_STARTS_FROM = 50_000
# How many times as many groups the finest fit of the teacher has, and the nodes each needs.
_FINER = 4
_FEWEST_MEMBERS = 8


@dataclass(frozen=True, eq=False)
class FittedGroups:
    """The groups of a training graph.

    Args:
        map: From nodes to memberships.
        inputs: What the fits looked at.
        fits: The fits of all starts, then the best one under a better tree, if any.
        key: What further fits draw from.
    """

    map: GroupMap
    inputs: GroupInputs
    fits: list[BlockFit]
    key: Any

    def committee(self, config: ResolvedConfig) -> list[BlockFit]:
        """Return the fits whose mean teaches nodes without labels: finer and coarser ones.

        Few large groups have many labels each but mix classes, many small ones the reverse; which
        is better differs from graph to graph and grows with the number of labels. The mean over
        all sizes is about as good as the best of them.
        """
        count = len(self.inputs.own)
        is_large = count > _FEW_STARTS_FROM
        most = 0 if is_large else count // _FEWEST_MEMBERS
        seeds = 1 if is_large else 2
        fits = list(self.fits)
        for finest in _sizes(config.groups[0], config.groups[-1], most):
            groups = (finest, *(number for number in config.groups if number < finest))
            key = derive_key(self.key, "committee", finest)
            fits += fit_from(self.inputs, groups, key, seeds, **_ablation(config))
        return fits


def _sizes(finest: int, coarsest: int, most: int) -> list[int]:
    """Return numbers of groups above and below the finest level's, each half of the one before."""
    finer = [_FINER * finest // 2**step for step in range(_FINER.bit_length() - 1)]
    sizes = [size for size in finer if size <= most]
    while finest > coarsest:
        finest = max(finest // 2, coarsest)
        sizes.append(finest)
    return sizes


def fit_run_groups(
    graph: Graph,
    inputs: NodeInputs,
    basis: Floats,
    is_structural: bool,
    config: ResolvedConfig,
    ranks: Ranks = ALONE,
    search: StructureSearch | None = None,
) -> FittedGroups:
    """Fit the groups of a training graph.

    Args:
        graph: The training graph.
        inputs: Inputs of its nodes.
        basis: ``(num_features, d)`` main directions of the features.
        is_structural: Whether the features were made from links.
        config: Resolved settings.
        ranks: The processes that hold the parts of a split graph; all get the same.
        search: Groups found before; a fit also starts from those where they have the same number.
    """
    key = derive_key(config.seed, "groups")
    seen = GroupInputs.of(inputs.features, basis, graph, is_structural, ranks)
    seeds = 1 if graph.num_nodes > _FEW_STARTS_FROM else 2
    fits = fit_from(seen, config.groups, key, seeds, **_ablation(config))
    given = None
    is_many = config.task == "embed" and graph.num_nodes > MANY_NODES
    if search is not None and (config.groups_from == "graph" or is_many):
        given = search.start(config.groups)
    if given is not None:
        codes, parents = given
        fits.append(seen.fit(codes, parents, **_ablation(config)))
    best = max(fits, key=lambda fit: fit.bound)
    is_found = given is not None and best is fits[-1]
    if not is_found and graph.num_nodes <= _FEW_STARTS_FROM:
        better = _with_better_tree(best, seen, config)
        if better is not best:
            best = better
            fits.append(best)
    there = GroupMap(basis, seen.scale, best.model, best.memberships, graph.fingerprint())
    if ranks.count > 1:
        # Machines may round differently, and k-means makes other groups of the last digit.
        state = {name: ranks.share_array(array) for name, array in there.state().items()}
        there = GroupMap.from_state(state)
    return FittedGroups(there, seen, fits, key)


def _with_better_tree(best: BlockFit, seen: GroupInputs, config: ResolvedConfig) -> BlockFit:
    """Return a fit with the tree above its finest groups joined anew.

    Mean field moves nodes, never a group to another parent: coarse groups would stay where k-means
    cut them. Of that tree and two joined from the fitted groups the one is kept whose upper levels
    say most of links and of features, each in units of the best one.
    """
    ablation = _ablation(config)
    if len(config.groups) == 1 or config.groups[0] > _MOST_JOINED or not all(ablation.values()):
        return best
    codes = best.memberships.argmax(1)
    hard = np.zeros_like(best.memberships)
    hard[np.arange(len(codes)), codes] = 1.0
    leaving, arriving = seen.links.sums(hard)
    between = (hard.T @ leaving).astype(np.float64)
    if arriving is not None:
        between = between + between.T
    trees = trees_above(codes, between, seen.own, config.groups)
    fits = [best, *(seen.fit(codes, tree, **ablation) for tree in trees)]
    links = np.array([sum(fit.link_gain[1:]) for fit in fits])
    features = np.array([_feature_gain(fit, seen.own) for fit in fits])
    worth = links / max(links.max(), 1e-12) + features / max(features.max(), 1e-12)
    return fits[int(worth.argmax())]


def _feature_gain(fit: BlockFit, own: Floats) -> float:
    """Return the nats that the upper levels' means save on features."""
    gain = 0.0
    for level in fit.levels()[1:]:
        codes = level.argmax(1)
        sizes = np.maximum(np.bincount(codes, minlength=level.shape[1]), 1)
        sums = np.zeros((level.shape[1], own.shape[1]))
        np.add.at(sums, codes, own)
        inside = np.square(own - (sums / sizes[:, None])[codes]).mean(0)
        gain += len(own) / 2 * float(np.log((own.var(0) + 1e-9) / (inside + 1e-9)).sum())
    return gain


def _ablation(config: ResolvedConfig) -> dict[str, bool]:
    return {"uses_links": config.model.group_links, "is_nested": config.is_nested}
