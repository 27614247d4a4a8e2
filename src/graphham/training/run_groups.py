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
from graphham.groups.block_model import BlockFit, chance_share, reason_table
from graphham.groups.group_map import GroupInputs, GroupMap, fit_from
from graphham.groups.group_tree import group_tree, trees_above
from graphham.groups.link_tree import link_tree
from graphham.model.inputs import NodeInputs
from graphham.model.spectral import leading_directions
from graphham.parallel.graph_access import graph_access
from graphham.parallel.ranks import ALONE, Ranks
from graphham.sampling.keys import derive_key, numpy_generator
from graphham.training.structure import MANY_NODES, StructureSearch

Floats = npt.NDArray[np.float32]
# Finest groups beyond which no tree is joined anew: it takes their cube.
_MOST_JOINED = 512
# Beyond so many nodes one start of each kind must do: the groups hardly depend on it any more.
_FEW_STARTS_FROM = 50_000
# Stored links up to which such graphs are also cut by their links, a few copies of which it holds.
_MOST_LINKS = 20_000_000
# Where the first starts disagree on a graph that no search looks at, so many more of each kind are
# made: fits of small graphs are cheap.
_SURE = 0.9  # least mean agreement (AMI) of the first starts
_STARTS = 24
_NODES_A_START = 100  # fewer on small graphs, where a fit is all overhead
_DIRECTIONS = 32  # main directions of all their groups
_TREES = 8  # cuts of them, and of the graph by its links alone
# How many times as many groups the finest fit of the teacher has, and the nodes each needs.
_FINER = 4
_FEWEST_MEMBERS = 8
# The slope of likeness: links it is found from at most, pairs looked at together, steps of Newton's
# method, and the pull to 0, which is worth about four pairs.
_MOST_PAIRS = 1_000_000
_PAIRS_AT_ONCE = 1 << 16
_NEWTON_STEPS = 12
_RIDGE = 1.0


@dataclass(frozen=True, eq=False)
class FittedGroups:
    """The groups of a training graph.

    Args:
        map: From nodes to memberships.
        inputs: What the fits looked at.
        fits: The fits of all starts, then the best one under a better tree, if any.
        key: What further fits draw from.
        linked: The graph, where fits start from its links alone too.
    """

    map: GroupMap
    inputs: GroupInputs
    fits: list[BlockFit]
    key: Any
    linked: Graph | None = None

    def link_tables(self) -> list[Floats]:
        """Return per level ``(K_l, K_l)`` the log probability that a link is no chance."""
        links = self.inputs.links
        model = self.map.model
        chance = chance_share(model.tables[0], self.map.known, links.out_degrees, links.in_degrees)
        return [reason_table(table, chance) for table in model.tables]

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
            if self.linked is not None:
                fits += _from_links(self.linked, self.inputs, groups, config, key, 1)
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
    linked = None
    if is_large and given is None and _is_small_enough(graph):
        linked = graph
        fits += _from_links(linked, seen, config.groups, config, key, 1)
    if given is not None:
        codes, parents = given
        fits.append(seen.fit(codes, parents, **_ablation(config)))
    best = max(fits, key=lambda fit: fit.bound)
    if given is None and _is_unsure(fits, graph, config, ranks):
        more = [_agreed(fits, seen, config, key)]
        if graph_access(graph).is_whole:
            more += _from_links(graph, seen, config.groups, config, key, _TREES)
        best = max(more, key=lambda fit: fit.bound)
        fits.append(best)
    is_found = given is not None and best is fits[-1]
    if not is_found and not is_large:
        better = _with_better_tree(best, seen, config)
        if better is not best:
            best = better
            fits.append(best)
    likeness = None
    if config.likeness_dim(graph.num_nodes, is_structural):
        likeness = find_likeness(seen, best, graph, derive_key(key, "likeness"), ranks)
    there = GroupMap(basis, seen.scale, best.model, best.memberships, graph.fingerprint(), likeness)
    if ranks.count > 1:
        # Machines may round differently, and k-means makes other groups of the last digit.
        state = {name: ranks.share_array(array) for name, array in there.state().items()}
        there = GroupMap.from_state(state)
    return FittedGroups(there, seen, fits, key, linked)


def find_likeness(
    seen: GroupInputs, fit: BlockFit, graph: Graph, key: Any, ranks: Ranks = ALONE
) -> tuple[float, float] | None:
    """Return what the cosine of both ends' own features adds to the log odds of a link.

    Logistic regression of links against pairs drawn as degrees would, where what the groups say of
    a pair, pi_i T pi_j, is taken for granted. No label is asked.

    Args:
        seen: What the groups were fitted to.
        fit: The groups.
        graph: The training graph, or this process's part.
        key: Draws the pairs.
        ranks: The processes that hold the parts; all get the same.

    Returns:
        The slope, and the mean cosine of links; ``None`` without links.
    """
    own = graph.own_rows()
    starts = np.asarray(graph.indptr[own.start : own.stop + 1], dtype=np.int64)
    ends = np.asarray(graph.indices[starts[0] : starts[-1]], dtype=np.int64)
    source = np.repeat(np.arange(own.start, own.stop), np.diff(starts))
    reach = np.cumsum(seen.links.in_degrees, dtype=np.float64)
    kept = source != ends
    stride = max(1, graph.num_stored // _MOST_PAIRS)
    kept &= np.arange(starts[0], starts[-1]) % stride == 0
    source, ends = source[kept], ends[kept]
    if not len(reach) or reach[-1] <= 0:
        return None
    # Every process draws for all links, so that a link's pair does not depend on who has it.
    draws = numpy_generator(key).random(graph.num_stored)[starts[0] : starts[-1]][kept]
    drawn = np.minimum(np.searchsorted(reach, draws * reach[-1], side="right"), len(reach) - 1)
    given, cosine = (np.empty((2, len(ends))) for _ in range(2))
    pulled, pi, x = fit.memberships @ fit.model.tables[0], fit.memberships, seen.own
    for first in range(0, len(ends), _PAIRS_AT_ONCE):
        part = slice(first, first + _PAIRS_AT_ONCE)
        for kind, other in enumerate((ends[part], drawn[part])):
            given[kind, part] = (pulled[source[part]] * pi[other]).sum(1)
            cosine[kind, part] = (x[source[part]] * x[other]).sum(1)
    access = graph_access(graph, ranks)
    slope, shift = 0.0, 0.0
    for _ in range(_NEWTON_STEPS):
        p = 1 / (1 + np.exp(-np.clip(slope * cosine + shift + given, -30, 30)))
        missed = np.array([[1.0], [0.0]]) - p
        firm = p * (1 - p)
        terms = (missed * cosine, missed, firm * cosine**2, firm * cosine, firm)
        # Sums per node first: they are the same however the nodes are split.
        sums = np.zeros((graph.num_nodes, len(terms)))
        for column, term in enumerate(terms):
            sums[:, column] = np.bincount(source, term.sum(0), graph.num_nodes)
        access.share_rows(sums)
        toward, up, a, b, c = sums.sum(0)
        # A weak pull to 0 decides where all cosines are alike.
        step = np.linalg.solve(
            [[a + _RIDGE, b], [b, c + _RIDGE]], [toward - _RIDGE * slope, up - _RIDGE * shift]
        )
        slope, shift = slope + float(step[0]), shift + float(step[1])
    like = np.zeros((graph.num_nodes, 2))
    like[:, 0] = np.bincount(source, cosine[0], graph.num_nodes)
    like[:, 1] = np.bincount(source, minlength=graph.num_nodes)
    access.share_rows(like)
    total, count = like.sum(0)
    return float(np.float32(slope)), float(np.float32(total / max(count, 1)))


def _is_small_enough(graph: Graph) -> bool:
    return graph_access(graph).is_whole and graph.num_stored <= _MOST_LINKS


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


def _from_links(
    graph: Graph,
    seen: GroupInputs,
    groups: tuple[int, ...],
    config: ResolvedConfig,
    key: Any,
    starts: int,
) -> list[BlockFit]:
    """Return fits from groups that links alone make, which tell apart what averages blur."""
    trees = [link_tree(graph, groups, derive_key(key, "links", k)) for k in range(starts)]
    return [seen.fit(codes, parents, **_ablation(config)) for codes, parents in trees]


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
