"""Find out without labels how many groups a graph has, on how many levels, and whether it has any.

Groups start from k-means on the graph's eigenvectors and on its features, are fitted as a flat
degree-corrected block model by mean-field rounds, and are joined or dropped while that shortens the
description of the graph (:mod:`graphham.groups.description_length`). One group for all is always
among the answers. Whatever is found has to be found again from other starts and must not be found
in a copy whose links are drawn anew with the same degrees.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.metrics import adjusted_mutual_info_score

from graphham.errors import InputError
from graphham.groups.description_length import Codes, MergePath, find_upper_level, merge_path
from graphham.groups.flat_blocks import BlockData, block_data, group_tables, in_one_group, rewired
from graphham.groups.group_search import FEW, LARGE, GroupFit, GroupSearch, link_evidence
from graphham.sampling.keys import derive_key, numpy_generator
from graphham.system.threads import single_threaded

Floats = npt.NDArray[np.float32]
_AGREE = 0.5  # least AMI of two restarts; noise has 0.1 to 0.2, structure 0.65 and more
_ABOVE_CHANCE = 1.2  # least gain over that of the rewired copy
_COPIED = 20_000  # nodes of a large graph's copy
_READABLE = 24  # most groups a person reads at once


@dataclass(frozen=True, eq=False)
class Structure:
    """What there is in a graph.

    Args:
        found: Whether the graph has groups at all.
        groups: Number of groups per level, fine to coarse; empty where nothing was found.
        assignments: Per level the ``(num_nodes,)`` int32 group of every node; levels nest exactly.
        parents: Per level but the last, the group above each group.
        curve: ``{"groups", "gain"}`` at every number of groups on the way down to one.
        displayed: Numbers of groups a person can read, fine to coarse, all of them on the way down.
        gain: Nats by which the finest level shortens the description of the graph.
        rewired_gain: The same of a copy with the same degrees and random links.
        agreement: Adjusted mutual information of the finest level with that of other starts.
        stability: Per group of the finest level, its mean best Jaccard index over other starts.
        path: How the groups of the finest level are joined.
    """

    found: bool
    groups: tuple[int, ...]
    assignments: list[Codes]
    parents: list[Codes]
    curve: list[dict[str, float]]
    displayed: tuple[int, ...]
    gain: float
    rewired_gain: float
    agreement: float
    stability: npt.NDArray[np.float64]
    path: MergePath | None = None

    def level(self, count: int) -> Codes:
        """Return the groups of all nodes when ``count`` of them are left on the way down.

        Whatever sizes are asked for, these levels nest in each other.
        """
        if self.path is None or not 1 <= count <= self.groups[0]:
            raise InputError(f"{count} groups are not on the way from {self.groups} down to 1")
        return self.path.groups(count)[self.assignments[0]]


@single_threaded()
def find_structure(
    adjacency: sp.csr_matrix,
    x: Floats | None = None,
    f: Floats | None = None,
    seed: int = 0,
    *,
    most_groups: int | None = None,
    restarts: int | None = None,
) -> Structure:
    """Find the groups of a graph: how many, on how many levels, or none.

    Args:
        adjacency: ``(num_nodes, num_nodes)`` symmetric, without self loops; entries are weights.
        x: ``(num_nodes, dim)`` features of the nodes themselves, rows of unit length or zero.
        f: ``(num_nodes, dim)`` features averaged over neighbours; only starts look at them.
        seed: Decides every random choice.
        most_groups: Groups to start with; ``4 n^(1/4) + 8`` when not given.
        restarts: Starts with other random choices that the result is compared with; 2, or 1 beyond
            fifty thousand nodes.
    """
    n = adjacency.shape[0]
    data = block_data(adjacency, x)
    if n < 4 or adjacency.nnz == 0:
        return _nothing()
    points = {"features": data.x, "averaged": f}
    most = min(most_groups or round(4 * n**0.25) + 8, n // 2)
    search = GroupSearch(data, points, most, derive_key(seed, "structure"))
    best = search.best()
    if best.tables.count < 2:
        return _nothing(best.gain)
    if restarts is None:
        restarts = 2 if n <= LARGE else 1
    fits = [search.again(run) for run in range(restarts)]
    fits.sort(key=lambda fit: -fit.gain)
    if fits and fits[0].gain > best.gain:
        best, fits[0] = fits[0], best
    chance = _chance_gain(data, most, seed)
    return _describe(data, best, [fit.codes for fit in fits], chance)


def _chance_gain(data: BlockData, most: int, seed: int) -> float:
    """Return what groups gain on a copy with the same degrees and random links."""
    is_large = data.num_nodes > LARGE
    generator = numpy_generator(derive_key(seed, "rewired"))
    copy = rewired(data, generator, _COPIED if is_large else None)
    kinds: dict[str, Floats | None] = {} if is_large else {"features": copy.x}
    count = min(most, FEW) if is_large else most
    found = GroupSearch(copy, kinds, count, derive_key(seed, "chance")).best(splits=0)
    return found.gain * data.num_nodes / copy.num_nodes


def _nothing(reached: float = 0.0) -> Structure:
    curve = [{"groups": 1, "gain": reached}]
    return Structure(False, (), [], [], curve, (), reached, 0.0, 1.0, np.zeros(0))


def _describe(data: BlockData, best: GroupFit, others: list[Codes], chance: float) -> Structure:
    """Put levels, curve, agreement and stability of a fit together."""
    codes = best.codes
    groups, assignments, parents = [best.tables.count], [codes], []
    path, level = merge_path(best.tables), best.tables
    while (upper := find_upper_level(level)) is not None:
        parents.append(upper.parents)
        assignments.append(upper.parents[assignments[-1]])
        groups.append(int(upper.parents.max()) + 1)
        level = group_tables(data, in_one_group(assignments[-1]))
    agreement = float(np.mean([adjusted_mutual_info_score(codes, o) for o in others] or [1.0]))
    stability = np.mean([_jaccard(codes, other) for other in others] or [np.ones(groups[0])], 0)
    curve = [{"groups": count + 1, "gain": float(value)} for count, value in enumerate(path.gains)]
    found = (
        best.gain > 0
        and link_evidence(best.tables) > 0
        and best.gain > _ABOVE_CHANCE * chance
        and agreement >= _AGREE
    )
    return Structure(
        found,
        tuple(groups) if found else (),
        assignments if found else [],
        parents if found else [],
        curve,
        _readable(path, groups) if found else (),
        best.gain,
        chance,
        agreement,
        stability,
        path,
    )


def _readable(path: MergePath, groups: list[int]) -> tuple[int, ...]:
    """Return numbers of groups a person can read, fine to coarse.

    Levels of at most two dozen groups are shown as they are. Else the fewest groups that keep nine
    tenths of the gain, at most two dozen, and above them as many as the next level has, or as keep
    half of the gain where no level is more than hardly a division; at most half as many.
    """
    if groups[0] <= _READABLE:
        return tuple(groups)
    kept = path.gains / path.gains.max()
    finest = min(int(np.argmax(kept >= 0.9)) + 1, _READABLE)
    half = int(np.argmax(kept >= 0.5)) + 1
    above = next((count for count in groups[1:] if count >= 4), half)
    return finest, max(1, min(above, finest // 2))


def _jaccard(codes: Codes, other: Codes) -> npt.NDArray[np.float64]:
    """Return for every group its largest Jaccard index with a group of another partition."""
    both = np.zeros((int(codes.max()) + 1, int(other.max()) + 1))
    np.add.at(both, (codes, other), 1.0)
    either = both.sum(1, keepdims=True) + both.sum(0, keepdims=True) - both
    best: npt.NDArray[np.float64] = (both / np.maximum(either, 1.0)).max(1)
    return best
