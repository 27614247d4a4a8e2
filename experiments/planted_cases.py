"""Planted graphs on which groups should or should not help, one per axis of difficulty.

Twelve fine groups nest three by four; the fine group is the class. Each case names how edges are
shared out, how strong features are, and what is missing. A new graph is drawn for every seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from experiments.planted_labels import BARE, FAMILIES, draw_interests, without_features
from experiments.planted_measured import MEASURED
from experiments.planted_sizes import draw_stand_in, stand_in
from graphham.errors import InputError
from graphham.graph.graph import Graph, Labels, build_graph
from graphham.sampling.keys import derive_key, numpy_generator

FINE, COARSE = 12, 3
_NODES, _DEGREE, _DIM = 2004, 8, 32


@dataclass(frozen=True)
class Case:
    """One planted case.

    Args:
        title: What is hard about it.
        key: What the draws are derived from; not the name, so that a better name draws the same
            graphs.
        shares: Shares of edges to the own fine group, the own coarse group, and anywhere.
        strength: Length of the coarse and of the fine part of a group's mean feature vector,
            where the noise has deviation 1 per feature, times the root of the width.
        missing: Share of nodes without features.
        partners: Share of edges to two fixed groups of other coarse groups instead.
    """

    title: str
    key: str
    shares: tuple[float, float, float]
    strength: float
    missing: float = 0.0
    partners: float = 0.0


CASES = {
    "homophilous": Case("friends alike, features weak", "hom", (0.45, 0.20, 0.35), 0.35),
    "rewired": Case("two thirds of the edges at random", "rew", (0.30, 0.05, 0.65), 0.40),
    "missing_features": Case(
        "60% of the nodes without features", "miss", (0.45, 0.20, 0.35), 0.70, missing=0.6
    ),
    "heterophilous": Case(
        "edges go to two other groups", "het", (0.0, 0.0, 0.25), 0.40, partners=0.75
    ),
    "partners": Case(
        "60% of the edges to two other groups, the rest at random",
        "partners",
        (0.0, 0.0, 0.40),
        0.40,
        partners=0.60,
    ),
}
# Trees for hierarchy quality: shares of edges inside the fine group, the coarse one, and outside.
TREES = {
    "tree-70-20-10": (0.70, 0.20, 0.10),
    "tree-60-25-15": (0.60, 0.25, 0.15),
    "tree-50-33-17": (0.50, 0.33, 0.17),
    "tree-40-30-30": (0.40, 0.30, 0.30),
}
# Nodes that copy whom others link to, so that who the neighbours are tells the class; whether
# links keep their direction.
COPIES = {"copied": False, "copied-directed": True}
_COPY_NODES, _COPY_CLASSES, _TEMPLATES, _COPY_LINKS, _POOL = 2000, 5, 500, 6, 60
# A tree whose coarse groups have two, four and six fine ones, the largest four times the smallest.
UNEQUAL = "tree-unequal"
_CHILDREN = (2, 4, 6)


def is_planted(name: str) -> bool:
    """Tell whether a graph's name is that of a planted case or tree, with features or without."""
    known = (*CASES, *TREES, *COPIES, *FAMILIES, *MEASURED, UNEQUAL)
    return name.removesuffix(BARE) in known or stand_in(name) is not None


def planted_roots(name: str) -> tuple[list[str], str]:
    """Return the code that draws a planted graph, and the numbers it is given, as text."""
    if name.endswith(BARE):
        roots, numbers = planted_roots(name.removesuffix(BARE))
        return [*roots, "experiments.planted_labels:without_features"], numbers
    if name == UNEQUAL:
        return [f"{__name__}:_unequal_tree"], name
    if (about := stand_in(name)) is not None:
        return ["experiments.planted_sizes:draw_stand_in"], repr(about)
    if name in FAMILIES:
        return ["experiments.planted_labels:draw_interests"], repr(FAMILIES[name])
    if name in MEASURED:
        return [f"experiments.planted_measured:{MEASURED[name].__name__}"], name
    if name in TREES:
        return ["graphham.graph.planted:planted_hierarchy"], f"{FINE} {COARSE} {TREES[name]}"
    if name in COPIES:
        return [f"{__name__}:_copied"], name
    return [f"{__name__}:_case_graph"], repr(CASES[name])


def planted_graph(name: str, seed: int) -> tuple[Graph, list[npt.NDArray[np.int32]]]:
    """Draw a planted graph and return it with its true groups, fine to coarse.

    Args:
        name: A key of :data:`CASES`, :data:`TREES`, :data:`COPIES` or
            :data:`experiments.planted_labels.FAMILIES`, or of
            :data:`experiments.planted_measured.MEASURED`, or :data:`UNEQUAL`; with ``-bare`` behind
            it, the same graph without features; or a stand-in of
            :mod:`experiments.planted_sizes`.
        seed: Draws graph and features.
    """
    if name.endswith(BARE):
        return without_features(planted_graph(name.removesuffix(BARE), seed), name)
    if name == UNEQUAL:
        return _unequal_tree(seed)
    if (about := stand_in(name)) is not None:
        return draw_stand_in(about, name, seed)
    if name in FAMILIES:
        return draw_interests(FAMILIES[name], name, seed)
    if name in MEASURED:
        return MEASURED[name](name, seed)
    if name in TREES:
        from graphham.graph.planted import planted_hierarchy

        planted = planted_hierarchy(
            (COARSE, FINE // COARSE), 2000, edge_shares=TREES[name], seed=seed
        )
        return planted.graph, planted.levels
    if name in COPIES:
        return _copied(name, seed)
    if name not in CASES:
        known = ", ".join((*CASES, *TREES, *COPIES, *FAMILIES, *MEASURED, UNEQUAL))
        raise InputError(f"there is no planted case {name!r}; choose {known}")
    return _case_graph(CASES[name], name, seed)


def _case_graph(case: Case, name: str, seed: int) -> tuple[Graph, list[npt.NDArray[np.int32]]]:
    draw = numpy_generator(derive_key(seed, "planted case", case.key))
    fine = draw.permutation(np.arange(_NODES) % FINE).astype(np.int32)
    coarse = (fine // (FINE // COARSE)).astype(np.int32)
    source, target = _edges(case, fine, draw)
    graph = build_graph(
        source,
        target,
        _NODES,
        name=name,
        features=_features(case, fine, coarse, draw),
        labels=Labels(tuple(f"group {g}" for g in range(FINE)), codes=fine),
    )
    return graph, [fine, coarse]


def _copied(name: str, seed: int) -> tuple[Graph, list[npt.NDArray[np.int32]]]:
    """Draw a graph whose nodes copy one of 500 lists of six ends, four in ten with changes.

    Every list belongs to a class; two fifths of its ends are from a small pool of the class, the
    others are anybody. Features are weak, and ends are of any class.
    """
    draw = numpy_generator(derive_key(seed, "copied"))
    of_list = draw.integers(_COPY_CLASSES, size=_TEMPLATES)
    pools = np.stack([draw.choice(_COPY_NODES, _POOL, replace=False) for _ in range(_COPY_CLASSES)])
    shape = (_TEMPLATES, _COPY_LINKS)
    from_pool = np.take_along_axis(pools[of_list], draw.integers(_POOL, size=shape), axis=1)
    lists = np.where(draw.random(shape) < 0.4, from_pool, draw.integers(_COPY_NODES, size=shape))
    copied = draw.integers(_TEMPLATES, size=_COPY_NODES)
    ends = lists[copied]
    changed = (draw.random(ends.shape) < 0.4) & (draw.random(_COPY_NODES) < 0.4)[:, None]
    ends = np.where(changed, draw.integers(_COPY_NODES, size=ends.shape), ends)
    codes = of_list[copied].astype(np.int32)
    means = draw.normal(size=(_COPY_CLASSES, _DIM))
    x = 0.3 * means[codes] + draw.normal(size=(_COPY_NODES, _DIM))
    graph = build_graph(
        np.repeat(np.arange(_COPY_NODES), _COPY_LINKS),
        ends.ravel(),
        _COPY_NODES,
        directed=COPIES[name],
        name=name,
        features=x.astype(np.float32),
        labels=Labels(tuple(f"class {c}" for c in range(_COPY_CLASSES)), codes=codes),
    )
    return graph, [codes]


def _edges(case: Case, fine: Any, draw: np.random.Generator) -> tuple[Any, Any]:
    count = _NODES * _DEGREE // 2
    source = draw.integers(_NODES, size=count)
    per = FINE // COARSE
    kinds = draw.choice(4, size=count, p=[*case.shares, case.partners])
    wanted = fine[source].astype(np.int64)
    near = kinds == 1
    wanted[near] = wanted[near] // per * per + draw.integers(per, size=int(near.sum()))
    # One partner in each of the other coarse groups, at the next place inside it.
    away = kinds == 3
    step = draw.integers(1, COARSE, size=int(away.sum()))
    there = (wanted[away] // per + step) % COARSE
    wanted[away] = there * per + (wanted[away] + 1) % per
    anywhere = kinds == 2
    wanted[anywhere] = draw.integers(FINE, size=int(anywhere.sum()))
    order = np.argsort(fine, kind="stable")
    size = _NODES // FINE
    target = order[wanted * size + draw.integers(size, size=count)]
    return source, target


def _features(case: Case, fine: Any, coarse: Any, draw: np.random.Generator) -> Any:
    means = (
        draw.normal(size=(FINE, _DIM))
        + draw.normal(size=(COARSE, _DIM))[np.arange(FINE) // (FINE // COARSE)]
    )
    values = case.strength * means[fine] + draw.normal(size=(_NODES, _DIM))
    if case.missing:
        values[draw.random(_NODES) < case.missing] = 0.0
    return values.astype(np.float32)


def _unequal_tree(seed: int) -> tuple[Graph, list[npt.NDArray[np.int32]]]:
    """Draw a tree with unequal groups: 70/20/10 per cent of the links, degree 12, words."""
    from graphham.graph.planted_features import word_features

    draw = numpy_generator(derive_key(seed, "planted case", UNEQUAL))
    parent = np.repeat(np.arange(COARSE), _CHILDREN)
    share = draw.permutation(np.geomspace(1, 4, FINE))
    ends = np.cumsum(share / share.sum() * _NODES).round().astype(np.int64)
    fine = draw.permutation(np.repeat(np.arange(FINE), np.diff(ends, prepend=0))).astype(np.int32)
    coarse = parent[fine].astype(np.int32)
    count = 6 * _NODES
    source = draw.integers(_NODES, size=count)
    reach = draw.choice(3, size=count, p=TREES["tree-70-20-10"])
    target = np.empty(count, dtype=np.int64)
    for group in range(FINE):
        same, near = fine == group, coarse == parent[group]
        for kind, pool in enumerate((same, near & ~same, ~near)):
            at = (fine[source] == group) & (reach == kind)
            target[at] = draw.choice(np.flatnonzero(pool), size=int(at.sum()))
    member = sp.csr_matrix((np.ones(_NODES, np.float32), fine, np.arange(_NODES + 1)))
    graph = build_graph(
        source,
        target,
        _NODES,
        name=UNEQUAL,
        features=word_features(member, 240, 0.10, 0.04, draw),
        labels=Labels(tuple(f"group {g}" for g in range(FINE)), codes=fine),
    )
    return graph, [fine, coarse]
