"""The groups of a run: a block model fitted to the training graph before the network is trained."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import adjusted_mutual_info_score

from graphham.config.resolved import ResolvedConfig
from graphham.graph.graph import Graph
from graphham.groups.block_model import BlockFit, chance_share
from graphham.groups.group_map import GroupInputs, GroupMap, fit_from
from graphham.groups.group_tree import group_tree, trees_above
from graphham.model.inputs import NodeInputs
from graphham.model.spectral import leading_directions
from graphham.parallel.ranks import ALONE, Ranks
from graphham.sampling.keys import derive_key
from graphham.training.structure import MANY_NODES, StructureSearch

Floats = npt.NDArray[np.float32]
# Finest groups beyond which no tree is joined anew: it takes their cube.
_MOST_JOINED = 512
# Beyond so many nodes one start of each kind must do: the groups hardly depend on it any more.
_FEW_STARTS_FROM = 50_000
# Where the first starts disagree on a graph that no search looks at, so many more of each kind are
# made: fits of small graphs are cheap.
_SURE = 0.9  # least mean agreement (AMI) of the first starts
_STARTS = 24
_NODES_A_START = 100  # fewer on small graphs, where a fit is all overhead
_DIRECTIONS = 32  # main directions of all their groups
_TREES = 8  # cuts of them
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

    def chance(self) -> float:
        """Return the share of the links that join any two nodes, whatever their groups."""
        links = self.inputs.links
        return chance_share(
            self.map.model.tables[0], self.map.known, links.out_degrees, links.in_degrees
        )

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
    is_large, is_open = graph.num_nodes > _FEW_STARTS_FROM, config.groups_from == "graph"
    given = None
    is_many = config.task == "embed" and graph.num_nodes > MANY_NODES
    if search is not None and (is_open or is_many):
        given = search.start(config.groups, seen.smooth, derive_key(key, "found"))
    fits: list[BlockFit] = []
    if given is None or not (is_large and is_open):
        # Of a large graph k-means finds far worse groups than a search, for twice its time.
        fits += fit_from(seen, config.groups, key, 1 if is_large else 2, **_ablation(config))
    if given is not None:
        codes, parents = given
        fits.append(seen.fit(codes, parents, **_ablation(config)))
    best = max(fits, key=lambda fit: fit.bound)
    if given is None and _is_unsure(fits, graph, config, ranks):
        best = _agreed(fits, seen, config, key)
        fits.append(best)
    is_found = given is not None and best is fits[-1]
    if not is_found and not is_large:
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


def _is_unsure(fits: list[BlockFit], graph: Graph, config: ResolvedConfig, ranks: Ranks) -> bool:
    """Whether groups are the result, and starts that ought to give the same ones do not."""
    if config.task != "embed" or config.groups[0] == 1 or graph.num_nodes > MANY_NODES:
        return False
    codes = [fit.memberships.argmax(1) for fit in fits]
    pairs = itertools.combinations(codes, 2)
    agreement = float(np.mean([adjusted_mutual_info_score(*pair) for pair in pairs] or [1.0]))
    return bool(ranks.tell(agreement < _SURE))


def _agreed(fits: list[BlockFit], seen: GroupInputs, config: ResolvedConfig, key: Any) -> BlockFit:
    """Return the groups that many fits agree on, fitted once more.

    Many fits are nearly as good and differ; the best of them is another one for every seed. Nodes
    that are together in most of them are together in the main directions of all their groups.
    """
    ablation = _ablation(config)
    starts = min(_STARTS, max(1, len(seen.own) // _NODES_A_START))
    many = [*fits, *fit_from(seen, config.groups, derive_key(key, "many"), starts, **ablation)]
    told = np.concatenate([np.sqrt(level) for fit in many for level in fit.levels()], axis=1)
    told -= told.mean(0)
    directions = leading_directions(
        lambda x: told @ x, lambda x: told.T @ x, told.shape, _DIRECTIONS, derive_key(key, "main")
    )
    points = told @ directions
    trees = [group_tree(points, config.groups, derive_key(key, "agreed", k)) for k in range(_TREES)]
    agreed = [seen.fit(codes, parents, **ablation) for codes, parents in trees]
    return max(agreed, key=lambda fit: fit.bound)


def _with_better_tree(best: BlockFit, seen: GroupInputs, config: ResolvedConfig) -> BlockFit:
    """Return a fit with the tree above its finest groups joined anew.

    Mean field moves nodes, never a group to another parent: coarse groups would stay where k-means
    cut them. Of that tree and two joined from the fitted groups the best fit is kept.
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
    return max(fits, key=lambda fit: fit.bound)


def _ablation(config: ResolvedConfig) -> dict[str, bool]:
    return {"uses_links": config.model.group_links, "is_nested": config.is_nested}
