"""Graphs to measure on: planted hierarchies of two public sizes and of any other, made once.

They are kept as stores in a cache folder (``GRAPHHAM_BENCH_CACHE``, by default below the user's
cache folder) and opened by memory map, as a user's large graph would be.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from graphham.graph.graph import Graph


@dataclass(frozen=True)
class Recipe:
    """What a graph is made from.

    Args:
        num_nodes: Number of nodes.
        mean_degree: Mean number of neighbours.
        branching: Children per group, coarse to fine.
        features: Gaussian features per node.
        skew: Tail of the degrees, as in :func:`graphham.graph.planted.planted_hierarchy`.
    """

    num_nodes: int
    mean_degree: float
    branching: tuple[int, ...] = (8, 6)
    features: int = 100
    skew: float = 0.5


# Sizes of com-Youtube and ogbn-products; ids are shuffled over the groups, the worst case for
# locality, and expected degrees follow a power law with exponent 3.
NAMED = {
    "youtube": Recipe(1_138_499, 5.25),
    "amazon": Recipe(2_449_029, 50.5),
}


def cache() -> Path:
    """Return the folder the graphs are kept in."""
    named = os.environ.get("GRAPHHAM_BENCH_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "graphham" / "benchmarks"


def sized(num_edges: int, mean_degree: float, features: int = 100) -> Recipe:
    """Return the recipe of a graph with about so many directed edges."""
    nodes = max(200, round(num_edges / mean_degree))
    # A small leaf has no room for the edges of a high degree, so small graphs have fewer leaves.
    tree = (8, 6) if nodes >= 50_000 else (2, 2)
    return Recipe(nodes, mean_degree, tree, features)


def name_of(recipe: Recipe) -> str:
    """Return the name a graph is kept under."""
    for name, named in NAMED.items():
        if named == recipe:
            return name
    shape = "x".join(map(str, recipe.branching))
    return (
        f"planted-{recipe.num_nodes}-{recipe.mean_degree:g}-{shape}-"
        f"{recipe.features}-{recipe.skew:g}"
    )


def folder(recipe: Recipe) -> Path:
    """Return the store of a graph, made now if it is not there yet."""
    from graphham.graph.planted import planted_hierarchy
    from graphham.graph.store import is_store, write_store

    path = cache() / name_of(recipe)
    if is_store(path):
        return path
    print(f"making {path.name}, kept in {path.parent}", file=sys.stderr, flush=True)
    planted = planted_hierarchy(
        recipe.branching,
        recipe.num_nodes,
        mean_degree=recipe.mean_degree,
        features="gaussian",
        dim=recipe.features,
        degree_skew=recipe.skew,
        seed=1,
    )
    write_store(planted.graph, path)
    return path


def load(recipe: Recipe) -> Graph:
    """Return a graph by memory map."""
    from graphham.graph.store import open_store

    return open_store(folder(recipe))
